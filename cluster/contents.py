"""Do all nodes keep the same? Once a minute the leader puts a mark into the log; behind it every node takes an image,
and its content digest goes to the leader, who compares.

Chain digests (`cluster.digests`) say that outcomes were the same; these say that the records are, byte for byte. A node
that differs from what a majority has stops, loudly and with its files; so does a leader that is the odd one out; if
no digest has a majority although all have told theirs, nobody knows who is right and all stop.
"""

import logging
from collections.abc import Callable

from cluster.engine import Engine
from cluster.fatal import Fatal
from cluster.frames import Content, Differs
from cluster.intake import Intake
from cluster.outbox import Outbox
from cluster.quorum import Quorum
from statemachine.membership import IMAGE_HERE

REMEMBERED = 8  # marks that digests may still come for

log = logging.getLogger(__name__)


class Contents:
    """tell_and_end: sends this frame to these nodes, then ends this node for the reason, soon.

    leads: whether this node leads and has applied everything of the terms before.
    """

    def __init__(
        self,
        engine: Engine,
        outbox: Outbox,
        quorum: Quorum,
        intake: Intake,
        end: Fatal,
        leads: Callable[[], bool],
        tell_and_end: Callable[[list[str], Differs, str], None],
        every_s: float,
        now: float,
    ) -> None:
        self._engine = engine
        self._outbox = outbox
        self._quorum = quorum
        self._intake = intake
        self._end = end
        self._leads = leads
        self._tell_and_end = tell_and_end
        self._every_s = every_s
        self._marked_at = now
        self._untold: tuple[int, bytes] | None = None  # this node's own, while it knows no leader
        self._told: dict[int, dict[str, bytes]] = {}  # index of the mark to node to digest, at the leader

    # ------------------------------------------------------------------ the mark

    def tick(self) -> None:
        """Tell a digest that nobody could be told."""
        if self._untold is not None:
            self._tell(*self._untold)

    def turn(self, now: float) -> None:
        """At the leader: put a mark into the log when it is time."""
        if now - self._marked_at >= self._every_s and self._leads() and not self._intake.paused:
            self._marked_at = now
            self._intake.append_alone(IMAGE_HERE)

    def on_mark(self, now: float) -> None:
        """A mark was applied."""
        self._marked_at = now

    # ------------------------------------------------------------------ digests

    def on_digest(self, index: int, digest: bytes) -> None:
        """This node's image behind the mark at index is durable."""
        self._tell(index, digest)

    def _tell(self, index: int, digest: bytes) -> None:
        engine = self._engine
        self._untold = None
        if engine.is_leader:
            self._take(engine.node_id, index, digest)
        elif engine.leader_id is not None and engine.is_connected(engine.leader_id):
            self._outbox.put(engine.leader_id, Content(engine.term, index, digest, self._quorum.incarnation))
        else:
            self._untold = (index, digest)

    def on_content(self, node_id: str, frame: Content) -> None:
        if self._engine.is_leader and self._quorum.lists(node_id, frame.incarnation):
            self._take(node_id, frame.index, frame.digest)

    def _take(self, node_id: str, index: int, digest: bytes) -> None:
        told = self._told.setdefault(index, {})
        told[node_id] = digest
        while len(self._told) > REMEMBERED:
            del self._told[min(self._told)]
        for right in set(told.values()):
            if self._quorum.is_majority(node for node, other in told.items() if other == right):
                self._judge(index, right, [node for node, other in sorted(told.items()) if other != right])
                return
        if told.keys() >= self._quorum.members.keys():
            self._stop_all(index)

    def _judge(self, index: int, right: bytes, wrong: list[str]) -> None:
        me = self._engine.node_id
        for node_id in wrong:
            if node_id != me:
                log.error("%s keeps other records than the majority after entry %d: it is told to stop", node_id, index)
                self._outbox.put(node_id, Differs(self._engine.term, index, right))
        if me in wrong:
            self._end(
                f"this leader keeps other records than the majority after entry {index}; the data directory is left as "
                "it is"
            )

    def _stop_all(self, index: int) -> None:
        others = [node for node in sorted(self._quorum.members) if node != self._engine.node_id]
        self._tell_and_end(
            others,
            Differs(self._engine.term, index, b""),
            f"no two nodes keep the same records after entry {index}: nobody knows who is right, all stop; the data "
            "directories are left as they are",
        )

    def on_differs(self, node_id: str, frame: Differs) -> None:
        """The leader compared."""
        if frame.term != self._engine.term or node_id != self._engine.leader_id:
            return
        if frame.right:
            reason = f"this node keeps other records than the majority after entry {frame.index}"
        else:
            reason = f"no two nodes keep the same records after entry {frame.index}: nobody knows who is right"
        self._end(f"{reason}; the data directory is left as it is")
