"""Append-entries at the receiver: Raft paper, figure 2, "AppendEntries RPC".

What the paper says and the library does otherwise: entries are cut off only at a real conflict, never because a frame
ends before the log does; what is committed is never touched, and a conflict there ends the node; a lower term is
answered with the own one, so that a deposed leader learns of it; the commit index rises only to what this very frame
proved to agree with the leader.

A frame may begin below the commit index (late, doubled, or from a leader that probes): what is committed agrees with
every later leader's log (leader completeness), so a difference there ends the node as well.
"""

from collections.abc import Callable

from cluster.clock import LeaseClock, WallClock
from cluster.election import Election
from cluster.engine import Engine
from cluster.fatal import InvariantBroken
from cluster.frames import Appended, AppendEntries
from cluster.outbox import Outbox
from cluster.ports import Clocks
from cluster.quorum import Quorum


class AppendHandler:
    """on_news: called after a frame of the current leader was taken in, with its digest."""

    def __init__(
        self,
        engine: Engine,
        outbox: Outbox,
        quorum: Quorum,
        clocks: Clocks,
        election: Election,
        lease_clock: LeaseClock,
        wall_clock: WallClock,
        on_news: Callable[[str, AppendEntries], None],
    ) -> None:
        self._engine = engine
        self._outbox = outbox
        self._quorum = quorum
        self._clocks = clocks
        self._election = election
        self._lease_clock = lease_clock
        self._wall_clock = wall_clock
        self._on_news = on_news
        self._acknowledged = (0, 0)  # (term, the highest match told to its leader)

    @property
    def acknowledged_index(self) -> int:
        """The highest match told to the leader of the current term."""
        term, match_index = self._acknowledged
        return match_index if term == self._engine.term else 0

    def hear(self, node_id: str, term: int, now: float) -> bool:
        """A leader's frame arrived. Returns whether it leads the current term; then this node follows it."""
        if term < self._engine.term:
            return False
        self._election.see_term(term, now)
        self._engine.follow(node_id)
        self._election.heard_from_leader(now)
        return True

    def on_append_entries(self, node_id: str, frame: AppendEntries, now: float) -> None:
        engine = self._engine
        if not self.hear(node_id, frame.term, now):
            # Of an earlier term, and rounds count within a term: the sender may lead a later one by now.
            self._answer(node_id, 0, success=False, match_index=0, hint=0)
            return
        self._lease_clock.hear(frame.lease_now_ms, now)
        self._wall_clock.hear(frame.wall_now_ms, now)
        acknowledged = self.acknowledged_index
        if engine.last_index < acknowledged:
            raise InvariantBroken(
                f"the log ends at {engine.last_index}, but {acknowledged} was acknowledged in term {engine.term}"
            )
        hint = self._disagreement(frame)
        if hint is not None:
            self._answer(node_id, frame.round, success=False, match_index=0, hint=hint)
        else:
            match_index = self._take_in(frame)
            if not frame.quiet:
                self.acknowledge(node_id, frame.round, match_index)
        self._on_news(node_id, frame)

    def _disagreement(self, frame: AppendEntries) -> int | None:
        """None if the log holds the entry before the frame's first; else the next index worth trying."""
        engine = self._engine
        if frame.prev_index > engine.last_index:
            return engine.last_index + 1
        if frame.prev_index < engine.first_index:
            return None
        term = engine.term_at(frame.prev_index)
        if term == frame.prev_term:
            return None
        if frame.prev_index <= engine.commit_index:
            raise InvariantBroken(
                f"entry {frame.prev_index} is committed with term {term}, the leader has term {frame.prev_term}"
            )
        # Skip the whole term that does not fit: one step back a term, not one an entry (paper, end of 5.3).
        index = frame.prev_index
        while index - 1 > engine.commit_index and engine.term_at(index - 1) == term:
            index -= 1
        return index

    def _take_in(self, frame: AppendEntries) -> int:
        """Store what is new. Returns the index up to which the log now agrees with the leader's."""
        engine = self._engine
        index = frame.prev_index
        for term, command in frame.entries:
            index += 1
            if index <= engine.last_index:
                if index < engine.first_index or engine.term_at(index) == term:
                    continue
                engine.truncate_from(index)
            engine.store(index, term, command)
        commit_index = min(frame.commit_index, index)
        if commit_index > engine.commit_index:
            engine.advance_commit(commit_index)
        return index

    def acknowledge(self, node_id: str, round_: int, match_index: int) -> None:
        """Tell the leader that the log agrees with its own up to match_index, once that is durable.

        round_: of the leader's frame that this answers.
        """
        self._acknowledged = (self._engine.term, max(match_index, self.acknowledged_index))
        self._answer(node_id, round_, success=True, match_index=match_index, hint=match_index + 1)

    def _answer(self, node_id: str, round_: int, success: bool, match_index: int, hint: int) -> None:
        engine = self._engine
        self._outbox.put(
            node_id,
            Appended(
                engine.term,
                round_,
                self._quorum.incarnation,
                success,
                match_index,
                hint,
                engine.last_index,
                self._clocks.wall_ms(),
            ),
        )
