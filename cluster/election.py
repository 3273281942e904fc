"""Who leads: pre-vote, votes, stickiness, check-quorum, and the target's side of a leadership transfer.

Raft paper, sections 5.2 and 5.4.1, figure 2; pre-vote: thesis 9.6; stickiness: thesis 4.2.3; transfer: thesis 3.10.

- A node that heard nothing from a leader for its election timeout first asks whether others would vote for it. Asking
  and answering change no state, so a node that was cut off cannot unseat a leader when it returns.
- A follower that heard from a leader within the shortest timeout refuses, and so does a leader that a majority still
  answers. Only a request that carries a transfer's mark passes; the leader itself asked for that election.
- A leader that a majority has not answered for the longest timeout steps down.
- Votes and pre-votes are sets of listed nodes; a vote for oneself counts once it is durable.
- Nobody stands before it has applied what it knows to be committed, so that it counts by the list that this made.

`judge` must be called only when everything that has arrived was read, or a loop that stood still would start elections.
"""

import logging
import random
from collections.abc import Callable

from cluster.engine import Engine, Role
from cluster.frames import PreVote, PreVoteAnswer, RequestVote, Transfer, Vote
from cluster.metrics import Metrics
from cluster.outbox import Outbox
from cluster.ports import Clocks
from cluster.quorum import Quorum

APPLIES_S = 0.01  # a node that has not applied what is committed looks again after so long

log = logging.getLogger(__name__)


class Election:
    """shortest_s, longest_s: bounds of the election timeout. wall_is_off: whether this node's wall clock is far from
    the cluster's; then it lets others stand first. answered_since: the listed followers that answered this leader since
    a moment. on_elected, on_deposed: called when a leadership of this node began or ended. on_clock: called with a
    peer's wall clock.
    """

    def __init__(
        self,
        engine: Engine,
        outbox: Outbox,
        quorum: Quorum,
        clocks: Clocks,
        rng: random.Random,
        metrics: Metrics,
        *,
        shortest_s: float,
        longest_s: float,
        wall_is_off: Callable[[float], bool],
        answered_since: Callable[[float], set[str]],
        on_elected: Callable[[float], None],
        on_deposed: Callable[[], None],
        on_clock: Callable[[str, int, float], None],
    ) -> None:
        self._engine = engine
        self._outbox = outbox
        self._quorum = quorum
        self._clocks = clocks
        self._rng = rng
        self._metrics = metrics
        self._shortest_s = shortest_s
        self._longest_s = longest_s
        self._wall_is_off = wall_is_off
        self._answered_since = answered_since
        self._on_elected = on_elected
        self._on_deposed = on_deposed
        self._on_clock = on_clock
        self._heard_at = float("-inf")  # from a leader of the current term
        self._led_since = 0.0
        self._postponed = False
        self._attempt = 0  # nonce of the running pre-vote, 0 when none runs
        self._supporters: set[str] = set()  # of the running pre-vote
        self._votes: set[str] = set()  # in the current term
        self._transfers_seen: set[int] = set()
        # A node without peers has nobody to wait for.
        self.deadline = clocks.monotonic() + (self._timeout() if engine.peer_ids else 0.0)

    def _timeout(self) -> float:
        return self._rng.uniform(self._shortest_s, self._longest_s)

    # ------------------------------------------------------------------ time

    def heard_from_leader(self, now: float) -> None:
        self._heard_at = now
        self._postponed = False
        self._attempt = 0
        self.deadline = now + self._timeout()

    def judge(self, now: float) -> None:
        """Look whether a timeout has passed."""
        if self._engine.is_leader:
            self._check_quorum(now)
        elif now >= self.deadline:
            self.deadline = now + self._timeout()
            if not self._quorum.lists_me:
                return
            if not self._knows_the_members():
                self.deadline = now + APPLIES_S
                return
            self._engine.lose_leader()
            if self._wall_is_off(now) and not self._postponed:
                self._postponed = True
                self.deadline += 2 * self._longest_s
                log.warning("this node's wall clock is far from the cluster's: it lets the others stand first")
            else:
                self._ask_for_support()

    def _knows_the_members(self) -> bool:
        """Whether the list of members here is of all that is known to be committed: an older one may name disks that
        count no more, and their votes would elect somebody."""
        return self._engine.applied_index == self._engine.commit_index

    def _check_quorum(self, now: float) -> None:
        if now - self._led_since < self._longest_s:
            return
        if not self._quorum.is_majority(self._answered_since(now - self._longest_s) | {self._engine.node_id}):
            log.warning("no majority answered for %.2f s: stepping down in term %d", self._longest_s, self._engine.term)
            self.step_down(now)

    def step_down(self, now: float) -> None:
        """End this node's leadership or candidacy, in the same term."""
        led = self._engine.is_leader
        self._engine.step_down()
        self.deadline = now + self._timeout()
        if led:
            self._on_deposed()

    def see_term(self, term: int, now: float) -> None:
        """Follow a higher term; nothing for any other."""
        if term <= self._engine.term:
            return
        led = self._engine.is_leader
        self._engine.adopt_term(term)
        self._votes.clear()
        self._attempt = 0
        if led:
            log.warning("term %d was seen: stepping down", term)
            self.deadline = now + self._timeout()
            self._on_deposed()

    def _is_sticky(self, now: float) -> bool:
        """Whether there is a leader that must not be disturbed, as far as this node knows."""
        return self._engine.is_leader or now - self._heard_at < self._shortest_s

    # ------------------------------------------------------------------ pre-vote

    def _ask_for_support(self) -> None:
        self._attempt = self._rng.getrandbits(62) | 1
        self._supporters = {self._engine.node_id}
        engine = self._engine
        frame = PreVote(engine.term + 1, self._attempt, engine.last_index, engine.last_term, self._quorum.incarnation)
        for peer in engine.peer_ids:
            self._outbox.send_now(peer, frame)
        if self._quorum.is_majority(self._supporters):
            self._stand(transfer=0)

    def on_pre_vote(self, node_id: str, frame: PreVote, now: float) -> None:
        engine = self._engine
        granted = (
            frame.term > engine.term
            and self._quorum.lists(node_id, frame.incarnation)
            and not self._is_sticky(now)
            and self._is_up_to_date(frame.last_term, frame.last_index)
        )
        self._outbox.send_now(node_id, PreVoteAnswer(engine.term, frame.nonce, granted, self._quorum.incarnation))

    def on_pre_vote_answer(self, node_id: str, frame: PreVoteAnswer, now: float) -> None:
        self.see_term(frame.term, now)
        if not self._attempt or frame.nonce != self._attempt or not frame.granted:
            return
        if self._quorum.lists(node_id, frame.incarnation):
            self._supporters.add(node_id)
            if self._quorum.is_majority(self._supporters):
                self._stand(transfer=0)

    def _is_up_to_date(self, last_term: int, last_index: int) -> bool:
        """Section 5.4.1: a log that ends in a later term, or in the same one and is at least as long."""
        return (last_term, last_index) >= (self._engine.last_term, self._engine.last_index)

    # ------------------------------------------------------------------ votes

    def _stand(self, transfer: int) -> None:
        engine = self._engine
        engine.become_candidate()
        self._attempt = 0
        self._votes = {engine.node_id}
        self.deadline = self._clocks.monotonic() + self._timeout()
        self._metrics.elections += 1
        frame = RequestVote(engine.term, engine.last_index, engine.last_term, self._quorum.incarnation, transfer)
        for peer in engine.peer_ids:
            self._outbox.put(peer, frame)

    def on_request_vote(self, node_id: str, frame: RequestVote, now: float) -> None:
        engine = self._engine
        if frame.transfer or not self._is_sticky(now):
            self.see_term(frame.term, now)
        granted = (
            frame.term == engine.term
            and engine.role is Role.FOLLOWER
            and engine.voted_for in (None, node_id)
            and self._quorum.lists_me
            and self._is_up_to_date(frame.last_term, frame.last_index)
        )
        if granted:
            engine.vote_for(node_id)
            self.deadline = now + self._timeout()
        self._outbox.put(node_id, Vote(engine.term, granted, self._quorum.incarnation, self._clocks.wall_ms()))

    def on_vote(self, node_id: str, frame: Vote, now: float) -> None:
        self._on_clock(node_id, frame.wall_ms, now)
        self.see_term(frame.term, now)
        if not frame.granted or frame.term != self._engine.term or self._engine.role is not Role.CANDIDATE:
            return
        if self._quorum.lists(node_id, frame.incarnation):
            self._votes.add(node_id)

    def conclude(self, now: float) -> None:
        """Take up a leadership that was won. Called after the turn's sync: the own vote is durable then."""
        engine = self._engine
        if engine.role is Role.CANDIDATE and self._quorum.is_majority(self._votes):
            engine.become_leader()
            self._led_since = now
            self._metrics.leaderships += 1
            log.info("leading in term %d, from entry %d", engine.term, engine.no_op_index)
            self._on_elected(now)

    # ------------------------------------------------------------------ transfer, at the target

    def on_transfer(self, node_id: str, frame: Transfer, now: float) -> None:
        engine = self._engine
        if frame.term != engine.term or node_id != engine.leader_id or frame.nonce in self._transfers_seen:
            return
        self._transfers_seen = {frame.nonce}
        if self._quorum.lists_me and engine.last_index >= frame.last_index and self._knows_the_members():
            log.info("the leader %s hands over", node_id)
            self._stand(transfer=frame.nonce)
