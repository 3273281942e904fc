"""Leadership handed over, at the leader that gives it up (thesis 3.10).

While it is under way no new operation is appended; they wait. Once the target holds the whole log it is asked, once, to
stand for election at once. If it does not lead within one election timeout the handover is undone and work goes on.
"""

import logging
import random
from collections.abc import Callable

from cluster.engine import Engine
from cluster.frames import Transfer
from cluster.intake import Intake
from cluster.outbox import Outbox
from cluster.replication import Replication

log = logging.getLogger(__name__)


class Handover:
    def __init__(
        self,
        engine: Engine,
        outbox: Outbox,
        replication: Replication,
        intake: Intake,
        rng: random.Random,
        longest_s: float,
    ) -> None:
        self._engine = engine
        self._outbox = outbox
        self._replication = replication
        self._intake = intake
        self._rng = rng
        self._longest_s = longest_s
        self._target: str | None = None
        self._asked = False
        self._ends_at = 0.0
        self._on_end: Callable[[bool], None] = lambda _: None

    def begin(self, now: float, on_end: Callable[[bool], None]) -> bool:
        """Hand over to the follower that is furthest. Returns whether there is one.

        on_end: then called once, with whether leadership was given up.
        """
        candidates = [
            (self._replication.progress[node].match_index, node)
            for node in self._replication.answered_since(now - self._longest_s)
            if self._engine.is_connected(node)
        ]
        if not self._engine.is_leader or not candidates or self._target is not None:
            return False
        self._target = max(candidates)[1]
        self._asked = False
        self._ends_at = now + self._longest_s
        self._on_end = on_end
        self._intake.paused = True
        log.info("handing leadership over to %s", self._target)
        return True

    def turn(self) -> None:
        """Ask the target once it has everything."""
        target = self._target
        if target is not None and not self._asked and self._replication.is_caught_up(target):
            self._asked = True
            engine = self._engine
            self._outbox.put(target, Transfer(engine.term, self._rng.getrandbits(62) | 1, engine.last_index))

    def tick(self, now: float) -> None:
        """Undo a handover that takes too long, or whose target is gone."""
        target = self._target
        if target is not None and (now >= self._ends_at or not self._engine.is_connected(target)):
            log.warning("%s did not take over: leading on", target)
            self._intake.paused = False
            self._end(False)

    def stop(self) -> None:
        """This node leads no more."""
        if self._target is not None:
            self._end(True)

    def _end(self, given_up: bool) -> None:
        self._target = None
        self._on_end(given_up)
