"""What this node proposes for its callers, and how each of them learns the outcome.

An operation goes to the leader of the term that this node knows, tagged with that term and with this process's session
and the next sequence number. There is no answer frame for success: every node applies every entry, so the caller's
outcome is the one that this node's own machine computes when it applies the entry.

Why an operation is never executed twice nor reported wrongly: an operation tagged with term T is appended by the
leader of T in T, or never, and at most once (`cluster.intake`); terms in the log never go down. So once this node has
applied an entry of a later term without having met the operation, it is in no log that will ever be committed, and may
be proposed again under a new tag. The no-op of the next leader is enough for that.

Renewals and hand-backs wait in a line of their own, so that no new work stands before them, and only so much is on its
way that a leader has room for it from every node and a connection can carry all of it again after it broke.

Invariants: every caller gets exactly one of outcome, Unavailable (definitely not applied), OutcomeUnknown (may yet be
applied); none waits past its deadline by more than a tick; what is held is bounded.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from itertools import chain

from cluster.engine import Engine
from cluster.frames import Propose, Refused
from cluster.intake import NOT_LEADER, Intake, Room
from cluster.metrics import Metrics
from cluster.outbox import Outbox
from statemachine.entry import Origin
from statemachine.machine import Outcome

OPERATION_BYTES = 2 << 20
HELD_OPERATIONS = 16_384
HELD_BYTES = 64 << 20
SENT_OPERATIONS = 9_000  # on their way to the leader; three nodes' fit into `cluster.intake`
SENT_BYTES = 18 << 20  # and with their frames into what a connection may hold
FRAME_BYTES = 4 << 20  # of operations in one frame to the leader


class Unavailable(Exception):
    """The operation was definitely not applied: there is no leader, no room, or not enough time."""


class OutcomeUnknown(Exception):
    """The deadline passed while the operation was on its way: it may have been applied, or may yet be."""


class _Proposal:
    __slots__ = ("deadline", "future", "operation", "sent", "sequence", "term", "urgent")

    def __init__(self, operation: bytes, urgent: bool, deadline: float, future: asyncio.Future[Outcome]) -> None:
        self.operation = operation
        self.urgent = urgent
        self.deadline = deadline
        self.future = future
        self.sequence = -1
        self.term = -1
        self.sent = 0  # times, under this sequence

    def refuse(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class Proposer:
    """session: random number of this process. kick: takes a turn soon."""

    def __init__(
        self, engine: Engine, outbox: Outbox, metrics: Metrics, *, session: int, kick: Callable[[], None]
    ) -> None:
        self._engine = engine
        self._outbox = outbox
        self._metrics = metrics
        self._session = session
        self._kick = kick
        self._room = Room(HELD_OPERATIONS, HELD_BYTES)
        self._way = Room(SENT_OPERATIONS, SENT_BYTES)  # what is pending
        self._urgent: deque[_Proposal] = deque()  # these two wait, not tagged: definitely in no log
        self._usual: deque[_Proposal] = deque()
        self._pending: dict[int, _Proposal] = {}  # tagged, by sequence, in rising order
        self._reconnected: set[str] = set()  # nodes to which what was sent before may be lost
        self._next_sequence = 0
        self._applied_term = 0
        self._barred_term = -1  # this term's leader is one no more; wait for the next
        self._paused = False  # the leader had no room; wait for the next tick
        self._earliest_deadline = float("inf")
        self._closed = False
        self.intake: Intake  # of this node, for when it leads; set once both are made

    # ------------------------------------------------------------------ callers

    def submit(self, operation: bytes, urgent: bool, deadline: float) -> asyncio.Future[Outcome]:
        """Returns the future outcome.

        Raises Unavailable when too much is held or the node stops, ValueError over OPERATION_BYTES.
        """
        if self._closed:
            raise Unavailable("the node stops")
        if len(operation) > OPERATION_BYTES:
            raise ValueError(f"an operation has at most {OPERATION_BYTES} bytes, not {len(operation)}")
        if not self._room.take(len(operation), urgent):
            self._metrics.operations_refused += 1
            raise Unavailable("too much waits at this node")
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        (self._urgent if urgent else self._usual).append(_Proposal(operation, urgent, deadline, future))
        self._earliest_deadline = min(self._earliest_deadline, deadline)
        return future

    def futures(self) -> list[asyncio.Future[Outcome]]:
        """Of everybody who waits."""
        return [proposal.future for proposal in chain(self._urgent, self._usual, self._pending.values())]

    def _release(self, proposal: _Proposal) -> None:
        self._room.give(len(proposal.operation))

    # ------------------------------------------------------------------ on the way

    def turn(self) -> None:
        """Send what waits to the leader, if there is one."""
        engine = self._engine
        leader_id = engine.leader_id
        if leader_id is None or self._barred_term == engine.term or self._paused:
            return
        if leader_id == engine.node_id:
            self._offer()
        elif (self._urgent or self._usual or leader_id in self._reconnected) and engine.is_connected(leader_id):
            self._forward(leader_id)

    def _first(self, line: deque[_Proposal]) -> _Proposal | None:
        """Who is next in the line, if there is room for it on the way."""
        while line and line[0].future.done():
            self._release(line.popleft())
        return line[0] if line and self._way.fits(len(line[0].operation), line[0].urgent) else None

    def _tag(self, line: deque[_Proposal]) -> _Proposal:
        """Put the first one of the line on its way."""
        proposal = line.popleft()
        self._way.take(len(proposal.operation), proposal.urgent)
        proposal.sequence = self._next_sequence
        proposal.term = self._engine.term
        proposal.sent = 0
        self._next_sequence += 1
        self._pending[proposal.sequence] = proposal
        return proposal

    def _untag(self, sequence: int) -> _Proposal:
        proposal = self._pending.pop(sequence)
        self._way.give(len(proposal.operation))
        return proposal

    def _offer(self) -> None:
        for line in (self._urgent, self._usual):
            while (proposal := self._first(line)) is not None:
                if not self.intake.offer(self._next_sequence, proposal.urgent, proposal.operation):
                    self._paused = True
                    break
                self._tag(line)

    def _forward(self, leader_id: str) -> None:
        """Send to the leader what waits; after a reconnection also what was sent before, it knows doubles."""
        term = self._engine.term
        unsent: list[_Proposal] = []
        if leader_id in self._reconnected:
            self._reconnected.remove(leader_id)
            unsent = [proposal for proposal in self._pending.values() if proposal.term == term]
        for line in (self._urgent, self._usual):
            while self._first(line) is not None:
                unsent.append(self._tag(line))
        floor = next(iter(self._pending), self._next_sequence)
        operations: list[tuple[int, bool, bytes]] = []
        size = 0
        for proposal in unsent:
            if operations and size + len(proposal.operation) > FRAME_BYTES:
                self._outbox.put(leader_id, Propose(term, self._session, floor, operations))
                operations, size = [], 0
            proposal.sent += 1
            operations.append((proposal.sequence, proposal.urgent, proposal.operation))
            size += len(proposal.operation)
        if operations:
            self._outbox.put(leader_id, Propose(term, self._session, floor, operations))

    def on_connected(self, node_id: str) -> None:
        """A new connection: what was sent to that node before may be lost."""
        self._reconnected.add(node_id)

    def on_refused(self, node_id: str, frame: Refused) -> None:
        """These are in no log: they wait again, for the next tick or the next leader.

        Not so a proposal that was sent twice and refused by one who leads no more: while it still led it may have
        taken the first copy, and it refused only the second. An entry of a later term will tell.
        """
        if frame.session != self._session:
            return
        term = frame.proposed_term
        refused = [self._pending[s] for s in frame.sequences if s in self._pending and self._pending[s].term == term]
        if frame.reason == NOT_LEADER:
            self._barred_term = max(self._barred_term, term)
            refused = [proposal for proposal in refused if proposal.sent == 1]
        else:
            self._paused = True
        self._wait_again([proposal.sequence for proposal in refused])

    def on_given_back(self, sequences: Sequence[int]) -> None:
        """This node's leadership ended before it appended these."""
        self._wait_again([sequence for sequence in sequences if sequence in self._pending])

    def _wait_again(self, sequences: Sequence[int]) -> None:
        """Proposals that are in no log wait, before all others and in their order."""
        again = [self._untag(sequence) for sequence in reversed(sequences)]
        self._urgent.extendleft(proposal for proposal in again if proposal.urgent)
        self._usual.extendleft(proposal for proposal in again if not proposal.urgent)

    # ------------------------------------------------------------------ outcomes

    def on_applied(self, term: int, origins: Sequence[Origin], outcomes: Sequence[Outcome]) -> None:
        """This node applied an entry of this log term."""
        if self._pending and origins:
            me, session, pending = self._engine.node_id, self._session, self._pending
            for (node_id, of_session, sequence), outcome in zip(origins, outcomes, strict=True):
                if of_session == session and node_id == me and sequence in pending:
                    proposal = self._untag(sequence)
                    self._release(proposal)
                    if not proposal.future.done():
                        proposal.future.set_result(outcome)
        if term > self._applied_term:
            self._applied_term = term
            self._wait_again([s for s, proposal in self._pending.items() if proposal.term < term])
        if self._urgent or self._usual:
            self._kick()  # there may be room for them now

    def on_jump(self, term: int) -> None:
        """An image took the place of entries up to this log term: what may be among them has an unknown outcome."""
        for proposal in [p for p in self._pending.values() if p.term <= term]:
            self._release(self._untag(proposal.sequence))
            proposal.refuse(OutcomeUnknown("this node was brought up to date by an image, which tells no outcomes"))
        self._applied_term = max(self._applied_term, term)

    # ------------------------------------------------------------------ deadlines

    def tick(self, now: float) -> None:
        """End what has run out of time."""
        self._paused = False
        if now < self._earliest_deadline:
            return
        self._urgent = self._within(self._urgent, now)
        self._usual = self._within(self._usual, now)
        expired = [proposal for proposal in self._pending.values() if proposal.deadline <= now]
        taken_back = self.intake.withdraw({proposal.sequence for proposal in expired})
        for proposal in expired:
            self._release(self._untag(proposal.sequence))
            if proposal.sequence in taken_back:
                proposal.refuse(Unavailable("the operation waited at the leader until its deadline"))
            else:
                proposal.refuse(OutcomeUnknown("the deadline passed while the operation was on its way"))
        held = [p.deadline for p in chain(self._urgent, self._usual, self._pending.values())]
        self._earliest_deadline = min(held, default=float("inf"))

    def _within(self, line: deque[_Proposal], now: float) -> deque[_Proposal]:
        """Those of a line who have time left; the others are told."""
        kept: deque[_Proposal] = deque()
        for proposal in line:
            if proposal.deadline > now and not proposal.future.done():
                kept.append(proposal)
            else:
                proposal.refuse(Unavailable("no leader took the operation before its deadline"))
                self._release(proposal)
        return kept

    def close(self) -> None:
        """The node stops: nobody waits any longer."""
        self._closed = True
        for proposal in chain(self._urgent, self._usual):
            proposal.refuse(Unavailable("the node stops"))
        for proposal in self._pending.values():
            proposal.refuse(OutcomeUnknown("the node stops while the operation is on its way"))
        self._urgent.clear()
        self._usual.clear()
        self._pending.clear()

    def gauge(self) -> None:
        self._metrics.operations_waiting = len(self._urgent) + len(self._usual)
        self._metrics.operations_pending = len(self._pending)
