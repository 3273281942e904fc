"""What begins and ends with a leadership of this node.

Everything that a leader keeps belongs to one leadership and is forgotten with it. What waits is not lost: operations
go back to who proposed them, readers are sent to the next leader.
"""

from collections.abc import Callable

from cluster.clock import LeaseClock, WallClock
from cluster.duties import Duties
from cluster.engine import Engine
from cluster.handover import Handover
from cluster.intake import Intake
from cluster.ports import Clocks
from cluster.reads import LeaderReads
from cluster.replication import Replication
from statemachine.entry import decode_entry
from statemachine.machine import Machine


class Leadership:
    """kick: takes a turn soon."""

    def __init__(
        self,
        engine: Engine,
        machine: Machine,
        clocks: Clocks,
        lease_clock: LeaseClock,
        wall_clock: WallClock,
        replication: Replication,
        intake: Intake,
        leader_reads: LeaderReads,
        duties: Duties,
        handover: Handover,
        kick: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._machine = machine
        self._clocks = clocks
        self._lease_clock = lease_clock
        self._wall_clock = wall_clock
        self._replication = replication
        self._intake = intake
        self._leader_reads = leader_reads
        self._duties = duties
        self._handover = handover
        self._kick = kick
        self._term = 0

    def begin(self, now: float) -> None:
        """This node leads; its no-op is in the log. Both clocks go on from the last entry of the log."""
        lease_ms, wall_ms = self._machine.lease_now_ms, self._machine.wall_now_ms
        last = self._engine.last_entry()
        if last is not None:
            entry = decode_entry(last)
            lease_ms, wall_ms = max(lease_ms, entry.lease_now_ms), max(wall_ms, entry.wall_now_ms)
        self._term = self._engine.term
        self._lease_clock.lead(lease_ms, now)
        self._wall_clock.lead(wall_ms, self._clocks.wall_ms(), now)
        self._replication.lead()
        self._intake.lead()
        self._duties.stop()
        self._kick()

    def end(self) -> None:
        """This node leads no more; its term may have risen already."""
        self._intake.stop(self._term)
        self._leader_reads.stop()
        self._replication.stop()
        self._duties.stop()
        self._handover.stop()
        self._lease_clock.stop(self._clocks.monotonic())
        self._wall_clock.stop()
        self._kick()
