"""What the leader does without being asked: it proposes an entry when the machine has due work.

The machine works off what is due at every entry; when nothing else is on its way, the leader proposes an empty one at
the moment the earliest item is reached. At most one such entry is outstanding. If one changed nothing although work was
due, a defect stands in the way: the pause doubles up to a second, and an alarm is counted.
"""

from collections.abc import Callable

from cluster.clock import LeaseClock, WallClock
from cluster.intake import Intake
from cluster.metrics import Metrics
from statemachine.machine import Applied, Machine

FIRST_PAUSE_S = 0.01
LONGEST_PAUSE_S = 1.0


class Duties:
    """is_leader: whether this node leads and has applied the no-op of its leadership."""

    def __init__(
        self,
        machine: Machine,
        intake: Intake,
        lease_clock: LeaseClock,
        wall_clock: WallClock,
        metrics: Metrics,
        leads: Callable[[], bool],
    ) -> None:
        self._machine = machine
        self._intake = intake
        self._lease_clock = lease_clock
        self._wall_clock = wall_clock
        self._metrics = metrics
        self._leads = leads
        self._not_before = float("-inf")
        self._pause_s = 0.0
        self._outstanding = False

    def due_at(self) -> float:
        """The monotonic reading at which an entry should be proposed; infinity when nothing is due or not by us."""
        if not self._leads() or self._outstanding:
            return float("inf")
        lease_ms, wall_ms = self._machine.due_lease_ms, self._machine.due_wall_ms
        at = float("inf")
        if lease_ms is not None:
            at = self._lease_clock.reaches_at(lease_ms)
        if wall_ms is not None:
            at = min(at, self._wall_clock.reaches_at(wall_ms))
        return max(at, self._not_before)

    def turn(self, now: float) -> None:
        """Propose an empty entry if work is due and no other entry will do it."""
        if self._intake.is_idle and not self._intake.paused and self.due_at() <= now:
            self._outstanding = True
            self._intake.append_empty()

    def on_applied(self, applied: Applied, now: float) -> None:
        """An entry was applied here."""
        if not self._outstanding:
            return
        if applied.outcomes:
            return  # another entry; ours follows
        self._outstanding = False
        if applied.touched:
            self._pause_s, self._not_before = 0.0, now
            return
        self._pause_s = min(max(2 * self._pause_s, FIRST_PAUSE_S), LONGEST_PAUSE_S)
        self._not_before = now + self._pause_s
        self._metrics.due_stalls += 1

    def stop(self) -> None:
        """This node leads no more, or anew."""
        self._outstanding = False
        self._pause_s, self._not_before = 0.0, float("-inf")
