"""Reads that are as new as the moment they were asked: the read index (thesis 6.4).

A leader remembers its commit index when the question comes, waits until a majority has answered a round of
append-entries that left after it, and answers that index. Until its own no-op is committed it does not know the commit
index of earlier terms, so the no-op's index is the least it answers. All questions of a turn share a round, and while a
round is out the next ones gather for the following.

A follower asks the leader once a turn for all its waiting readers, then waits until it has applied that far. What was
asked before a change of leader or a reconnection is asked again. The leader may still answer what a process asked that
has ended since; so the numbers of questions begin somewhere else in each process, or an old answer would pass for new.

A leader that was cut off never answers, because no majority answers its rounds. Clocks play no part.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from cluster.engine import Engine
from cluster.frames import ReadAnswer, ReadIndex
from cluster.metrics import Metrics
from cluster.outbox import Outbox
from cluster.proposer import Unavailable
from cluster.replication import Replication

ASK_AGAIN_S = 0.5


@dataclass
class _Question:
    """Readers who share one answer. answer: called once with an index that is new enough for all of them."""

    answer: Callable[[int], None]
    round: int = 0  # 0: no round has left yet
    index: int = 0


class LeaderReads:
    """Questions at the leader, of its own readers and of followers."""

    def __init__(self, engine: Engine, replication: Replication, metrics: Metrics) -> None:
        self._engine = engine
        self._replication = replication
        self._metrics = metrics
        self._questions: list[_Question] = []

    def ask(self, answer: Callable[[int], None]) -> None:
        self._questions.append(_Question(answer))

    def wants_round(self) -> bool:
        """Give new questions the next round, and say whether that must leave in this turn."""
        if not self._questions or self._questions[0].round:
            return False  # nobody asks, or a round is out
        for question in self._questions:
            question.round = self._replication.round + 1
            question.index = max(self._engine.commit_index, self._engine.no_op_index)
        self._metrics.read_rounds += 1
        return True

    def settle(self) -> bool:
        """Answer what a majority has confirmed. Returns whether something was answered."""
        if not self._questions or not self._questions[0].round:
            return False
        confirmed = self._replication.confirmed_round()
        answered = [q for q in self._questions if 0 < q.round <= confirmed]
        if not answered:
            return False
        self._questions = [q for q in self._questions if not 0 < q.round <= confirmed]
        for question in answered:
            question.answer(question.index)
        return True

    def stop(self) -> None:
        """This node leads no more; 0 sends everybody to the next leader."""
        questions, self._questions = self._questions, []
        for question in questions:
            question.answer(0)


@dataclass
class _Readers:
    """Those who began to wait in one turn. index: what they must see applied; 0: not known yet."""

    waiting: list[tuple[float, asyncio.Future[int]]] = field(default_factory=list)
    index: int = 0
    numbers: set[int] = field(default_factory=set)  # of the questions asked for them; any answer will do
    asked: tuple[int, str, float] | None = None  # (term, leader, when)


class Reads:
    """Readers of this node, whoever leads. session: random number of this process."""

    def __init__(
        self, engine: Engine, outbox: Outbox, leader_reads: LeaderReads, metrics: Metrics, *, session: int
    ) -> None:
        self._engine = engine
        self._outbox = outbox
        self._leader_reads = leader_reads
        self._metrics = metrics
        self._new = _Readers()
        self._groups: list[_Readers] = []
        self._next_number = session
        self._reconnected = False
        self._closed = False

    def futures(self) -> list[asyncio.Future[int]]:
        """Of everybody who waits."""
        return [future for group in (self._new, *self._groups) for _, future in group.waiting]

    def submit(self, deadline: float) -> asyncio.Future[int]:
        """The future index; this node's state reaches it before the future is done. Raises Unavailable after close."""
        if self._closed:
            raise Unavailable("the node stops")
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._new.waiting.append((deadline, future))
        self._metrics.reads += 1
        return future

    # ------------------------------------------------------------------ asking

    def turn(self, now: float) -> None:
        """Ask for the index of those who have none, once for all who began to wait since the last turn."""
        if self._new.waiting:
            self._groups.append(self._new)
            self._new = _Readers()
        leader_id = self._engine.leader_id
        if leader_id is None:
            return
        for group in self._groups:
            if group.index == 0 and self._must_ask(group, leader_id, now):
                self._ask(group, leader_id, now)
        self._reconnected = False

    def _must_ask(self, group: _Readers, leader_id: str, now: float) -> bool:
        if group.asked is None:
            return True
        term, asked_id, asked_at = group.asked
        changed = (term, asked_id) != (self._engine.term, leader_id) or self._reconnected
        return changed or now - asked_at > ASK_AGAIN_S

    def _ask(self, group: _Readers, leader_id: str, now: float) -> None:
        number = self._next_number
        self._next_number += 1
        group.numbers.add(number)
        group.asked = (self._engine.term, leader_id, now)
        if leader_id == self._engine.node_id:
            self._leader_reads.ask(lambda index: self._on_index(number, index))
        else:
            self._outbox.put(leader_id, ReadIndex(self._engine.term, number))

    def on_connected(self) -> None:
        self._reconnected = True

    # ------------------------------------------------------------------ answering

    def on_read_index(self, node_id: str, frame: ReadIndex) -> None:
        """Another node's question."""
        term, number = self._engine.term, frame.number
        if self._engine.is_leader and frame.term == term:
            self._leader_reads.ask(lambda index: self._outbox.put(node_id, ReadAnswer(term, number, index)))
        else:
            self._outbox.put(node_id, ReadAnswer(term, number, 0))

    def on_read_answer(self, frame: ReadAnswer) -> None:
        self._on_index(frame.number, frame.index)

    def _on_index(self, number: int, index: int) -> None:
        for group in self._groups:
            if number in group.numbers and index > 0:
                group.index = index

    def settle(self) -> None:
        """Wake those whose index is applied."""
        applied_index = self._engine.applied_index
        ready = [group for group in self._groups if 0 < group.index <= applied_index]
        if ready:
            self._groups = [group for group in self._groups if not 0 < group.index <= applied_index]
            for group in ready:
                for _, future in group.waiting:
                    if not future.done():
                        future.set_result(applied_index)

    def tick(self, now: float) -> None:
        """End what has run out of time."""
        for group in (self._new, *self._groups):
            kept = []
            for deadline, future in group.waiting:
                if deadline > now and not future.done():
                    kept.append((deadline, future))
                elif not future.done():
                    future.set_exception(Unavailable("no leader confirmed the read before its deadline"))
            group.waiting = kept
        self._groups = [group for group in self._groups if group.waiting]

    def close(self) -> None:
        """The node stops: nobody waits any longer."""
        self._closed = True
        for group in (self._new, *self._groups):
            for _, future in group.waiting:
                if not future.done():
                    future.set_exception(Unavailable("the node stops"))
        self._new, self._groups = _Readers(), []
