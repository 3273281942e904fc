"""What waits at the leader to become log entries: acceptance in order, bounds, group commit.

Everything that waits in one turn becomes one entry, urgent operations first: at most ENTRY_OPERATIONS operations or
ENTRY_BYTES, a larger operation alone, and at most IN_FLIGHT entries not yet committed. What waits is bounded; a third
of the room is kept for urgent operations, so that renewals pass when new work does not.

Invariants: an operation that was proposed for a term is appended in that term or never; one (node, session, sequence)
is appended at most once in a term, however often it is sent; what is refused was never appended and never will be
under that term, also if it is sent again.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from cluster.clock import LeaseClock, WallClock
from cluster.engine import Engine
from cluster.frames import Propose, Refused
from cluster.metrics import Metrics
from cluster.outbox import Outbox
from cluster.ports import Clocks
from statemachine.entry import Origin, encode_entry

ENTRY_OPERATIONS = 512
ENTRY_BYTES = 256 << 10
IN_FLIGHT = 2
WAITING_OPERATIONS = 32_768
WAITING_BYTES = 64 << 20

NOT_LEADER = "not the leader of that term"
NO_ROOM = "too much waits at the leader"


@dataclass
class _Session:
    """What this leader had from one proposing process in this term."""

    highest: int = -1  # sequences arrive in order; up to here all were accepted or refused
    refused: set[int] = field(default_factory=set)


class Room:
    """A bound on count and bytes, a third of each kept for urgent operations."""

    def __init__(self, operations: int, size_bytes: int) -> None:
        self._operations = operations
        self._bytes = size_bytes
        self.operations = 0
        self.bytes = 0

    def fits(self, size_bytes: int, urgent: bool) -> bool:
        """Whether there is room; what is alone always has it."""
        share = 3 if urgent else 2
        full = 3 * self.operations >= share * self._operations or 3 * (self.bytes + size_bytes) > share * self._bytes
        return not full or not self.operations

    def take(self, size_bytes: int, urgent: bool) -> bool:
        """Returns whether there was room; then it is taken."""
        if not self.fits(size_bytes, urgent):
            return False
        self.operations += 1
        self.bytes += size_bytes
        return True

    def give(self, size_bytes: int) -> None:
        self.operations -= 1
        self.bytes -= size_bytes


class Intake:
    """give_back: called with the sequences of this node's own operations that end here unappended.

    entropy: 16 random bytes for an entry.
    """

    def __init__(
        self,
        engine: Engine,
        outbox: Outbox,
        clocks: Clocks,
        lease_clock: LeaseClock,
        wall_clock: WallClock,
        metrics: Metrics,
        *,
        session: int,
        entropy: Callable[[], bytes],
        give_back: Callable[[list[int]], None],
    ) -> None:
        self._engine = engine
        self._outbox = outbox
        self._clocks = clocks
        self._lease_clock = lease_clock
        self._wall_clock = wall_clock
        self._metrics = metrics
        self._session = session
        self._entropy = entropy
        self._give_back = give_back
        self._urgent: deque[tuple[Origin, bytes]] = deque()
        self._usual: deque[tuple[Origin, bytes]] = deque()
        self._room = Room(WAITING_OPERATIONS, WAITING_BYTES)
        self._sessions: dict[tuple[str, int], _Session] = {}
        self._in_flight: deque[tuple[int, float]] = deque()  # (index, appended at)
        self.paused = False  # while leadership is being handed over

    # ------------------------------------------------------------------ acceptance

    def offer(self, sequence: int, urgent: bool, operation: bytes) -> bool:
        """An operation of this node itself, which leads. Returns False when there is no room."""
        return self._accept((self._engine.node_id, self._session, sequence), urgent, operation)

    def on_propose(self, node_id: str, frame: Propose) -> None:
        """Operations of another node: taken in if this node leads their very term, else refused."""
        engine = self._engine
        if not engine.is_leader or frame.term != engine.term:
            sequences = [sequence for sequence, _, _ in frame.operations]
            self._refuse(node_id, frame.term, frame.session, sequences, NOT_LEADER)
            return
        session = self._sessions.setdefault((node_id, frame.session), _Session())
        if session.refused:
            session.refused = {sequence for sequence in session.refused if sequence >= frame.floor}
        refused = []
        for sequence, urgent, operation in frame.operations:
            if sequence > session.highest:
                session.highest = sequence
                if not self._accept((node_id, frame.session, sequence), urgent, operation):
                    session.refused.add(sequence)
            if sequence in session.refused:
                refused.append(sequence)
        if refused:
            self._metrics.operations_refused += len(refused)
            self._refuse(node_id, frame.term, frame.session, refused, NO_ROOM)

    def _accept(self, origin: Origin, urgent: bool, operation: bytes) -> bool:
        if not self._room.take(len(operation), urgent):
            return False
        (self._urgent if urgent else self._usual).append((origin, operation))
        return True

    def _refuse(self, node_id: str, term: int, session: int, sequences: list[int], reason: str) -> None:
        self._outbox.put(node_id, Refused(self._engine.term, term, session, sequences, reason))

    # ------------------------------------------------------------------ entries

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and nothing is on its way."""
        return not self._in_flight and not self._room.operations

    def lead(self) -> None:
        """A leadership of this node begins."""
        self._sessions.clear()
        self._in_flight.clear()
        self.paused = False

    def stop(self, term: int) -> None:
        """The leadership of `term` ended: what still waits was not appended and is given back."""
        waiting = [*self._urgent, *self._usual]
        self._urgent.clear()
        self._usual.clear()
        self._room = Room(WAITING_OPERATIONS, WAITING_BYTES)
        by_session: dict[tuple[str, int], list[int]] = {}
        for (node_id, session, sequence), _ in waiting:
            by_session.setdefault((node_id, session), []).append(sequence)
        for (node_id, session), sequences in by_session.items():
            if node_id == self._engine.node_id:
                self._give_back(sequences)
            else:
                self._refuse(node_id, term, session, sequences, NOT_LEADER)
        self.lead()

    def withdraw(self, sequences: set[int]) -> set[int]:
        """Take back operations of this node. Returns which were still here, so that they never are appended."""
        found: set[int] = set()
        for line in (self._urgent, self._usual) if sequences else ():
            kept = []
            for origin, operation in line:
                if origin[0] == self._engine.node_id and origin[2] in sequences:
                    found.add(origin[2])
                    self._room.give(len(operation))
                else:
                    kept.append((origin, operation))
            line.clear()
            line.extend(kept)
        return found

    def append(self) -> None:
        """Make entries of what waits, as far as the bound on entries in flight allows."""
        while self._room.operations and len(self._in_flight) < IN_FLIGHT and not self.paused:
            taken: list[tuple[Origin, bytes]] = []
            size = 0
            for line in (self._urgent, self._usual):
                while line and len(taken) < ENTRY_OPERATIONS:
                    length = len(line[0][1])
                    if taken and size + length > ENTRY_BYTES:
                        break
                    taken.append(line.popleft())
                    size += length
                    self._room.give(length)
            self._append([operation for _, operation in taken], [origin for origin, _ in taken])

    def append_empty(self) -> None:
        """An entry without operations, for due work."""
        self._append([], [])

    def append_alone(self, operation: bytes) -> None:
        """An entry of one operation of the cluster itself, which nobody waits for."""
        self._append([operation], [("", 0, 0)])

    def _append(self, operations: list[bytes], origins: list[Origin]) -> None:
        now = self._clocks.monotonic()
        lease_now_ms, wall_now_ms = self._lease_clock.stamp(now), self._wall_clock.stamp(now)
        index = self._engine.append(encode_entry(lease_now_ms, wall_now_ms, self._entropy(), operations, origins))
        self._in_flight.append((index, now))
        self._metrics.entries_proposed += 1
        self._metrics.operations_proposed += len(operations)

    def committed(self, now: float) -> None:
        """The commit index rose: room for further entries."""
        commit_index = self._engine.commit_index
        while self._in_flight and self._in_flight[0][0] <= commit_index:
            self._metrics.commit_seconds.observe(now - self._in_flight.popleft()[1])
