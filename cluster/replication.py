"""The leader's side of the log: what each follower has, what is on its way to it, and what is committed.

Raft paper, sections 5.3 and 5.4.2. Entries are sent ahead of their acknowledgements, at most WINDOW_BYTES and
WINDOW_FRAMES a follower; beyond that only empty heartbeats go out, so that a slow follower costs no memory. After a
refusal one frame at a time probes where the logs agree.

Every frame to anybody has the next round number. An answer to round r proves that its follower still followed this
leader when r left; reads and check-quorum count on that.

Invariants: match only rises within a term, next > match; only entries of the own term are committed by counting, over
the listed incarnations; this node counts with what is durable. An answer below match that is older than the one that
made match is late and ignored; a younger one means that the follower's disk lost what it had promised.
"""

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from cluster.engine import GENESIS_INDEX, Engine
from cluster.fatal import InvariantBroken
from cluster.frames import Appended, AppendEntries, Expelled
from cluster.outbox import Outbox
from cluster.quorum import Quorum

WINDOW_BYTES = 4 << 20
WINDOW_FRAMES = 64
FRAME_ENTRIES = 4096
FRAME_BYTES = 1 << 20  # of entries in one frame; an entry above it goes alone

log = logging.getLogger(__name__)


@dataclass
class Progress:
    """What the leader of this term knows of one follower."""

    next_index: int
    match_index: int = 0
    match_round: int = 0  # of the answer that made match
    incarnation: int | None = None
    answered_round: int = 0
    answered_at: float = float("-inf")
    probing: bool = True
    expelled: bool = False  # it lost what it had acknowledged: it counts for nothing until it starts anew
    ignored_round: int = 0  # refusals of rounds up to here are known already
    sent_at: float = float("-inf")
    told_commit: int = 0
    unanswered: deque[tuple[int, int]] = field(default_factory=deque)  # (round, bytes) of frames with entries
    unanswered_bytes: int = 0

    def forget_unanswered(self) -> None:
        self.unanswered.clear()
        self.unanswered_bytes = 0


class Replication:
    """stamp: lease time, wall time and digest for a frame. heartbeat_s: longest silence towards a follower."""

    def __init__(
        self,
        engine: Engine,
        outbox: Outbox,
        quorum: Quorum,
        stamp: Callable[[], tuple[int, int, tuple[int, bytes] | None]],
        heartbeat_s: float,
    ) -> None:
        self._engine = engine
        self._outbox = outbox
        self._quorum = quorum
        self._stamp = stamp
        self._silence_s = 0.9 * heartbeat_s  # the timer rings at heartbeats, a little early or late
        self.round = 0
        self.progress: dict[str, Progress] = {}
        self.on_behind: Callable[[str, float], None] = lambda node_id, now: None  # a follower needs an image

    # ------------------------------------------------------------------ begin and end

    def lead(self) -> None:
        """This node leads from now on; its no-op is in the log."""
        self.round = 0
        self.progress = {peer: Progress(self._engine.no_op_index) for peer in self._engine.peer_ids}

    def stop(self) -> None:
        self.progress = {}

    def lost_connection(self, node_id: str) -> None:
        """What was on its way may be lost: begin again behind what is known."""
        progress = self.progress.get(node_id)
        if progress is not None:
            self._probe_from(progress, progress.match_index + 1 if progress.match_index else progress.next_index)

    def _probe_from(self, progress: Progress, next_index: int) -> None:
        progress.next_index = next_index
        progress.probing = True
        progress.ignored_round = self.round
        progress.forget_unanswered()
        progress.sent_at = float("-inf")

    # ------------------------------------------------------------------ sending

    def send(self, now: float, everyone: bool = False) -> None:
        """Send what followers lack, as far as their windows allow; a heartbeat to those who heard nothing for long.

        everyone: a frame to each of them in any case, to begin a round.
        """
        for node_id, progress in self.progress.items():
            if not self._engine.is_connected(node_id):
                continue
            sent = False
            if progress.incarnation is not None and self.needs_image(node_id):  # it has answered in this term
                self.on_behind(node_id, now)
            while self._has_more(progress) and self._has_room(progress):
                if not self._send_entries(node_id, progress, now):
                    break
                sent = True
            if not sent and (everyone or now - progress.sent_at >= self._silence_s):
                self._send_empty(node_id, progress, now, quiet=False)

    def tell_commit(self, now: float) -> None:
        """Tell those who have not heard of the latest commit, so that they apply without waiting for a heartbeat."""
        for node_id, progress in self.progress.items():
            behind = progress.told_commit < self._engine.commit_index and not progress.probing
            if behind and self._engine.is_connected(node_id):
                self._send_empty(node_id, progress, now, quiet=True)

    def needs_image(self, node_id: str) -> bool:
        """Whether the entry before the follower's next one is gone from the log, so that no entries can follow it."""
        progress = self.progress.get(node_id)
        return progress is not None and GENESIS_INDEX < progress.next_index <= self._engine.first_index

    def _has_more(self, progress: Progress) -> bool:
        return self._engine.first_index < progress.next_index <= self._engine.last_index

    def _has_room(self, progress: Progress) -> bool:
        if progress.probing:
            return not progress.unanswered
        return len(progress.unanswered) < WINDOW_FRAMES and progress.unanswered_bytes < WINDOW_BYTES

    def next_round(self) -> int:
        """The number of the next frame to anybody."""
        self.round += 1
        return self.round

    def _send_entries(self, node_id: str, progress: Progress, now: float) -> bool:
        records = self._engine.records(progress.next_index, FRAME_ENTRIES, FRAME_BYTES)
        entries = [(term, command) for command, _, term in records]
        size = sum(len(command) for _, command in entries)
        if not self._send(node_id, progress, entries, now, quiet=False):
            return False
        progress.unanswered.append((self.round, size))
        progress.unanswered_bytes += size
        progress.next_index += len(entries)
        return True

    def _send_empty(self, node_id: str, progress: Progress, now: float, quiet: bool) -> None:
        self._send(node_id, progress, [], now, quiet)

    def _send(
        self, node_id: str, progress: Progress, entries: list[tuple[int, bytes]], now: float, quiet: bool
    ) -> bool:
        engine = self._engine
        self.next_round()
        lease_now_ms, wall_now_ms, digest = self._stamp()
        previous = progress.next_index - 1
        if previous < progress.match_index:
            raise InvariantBroken(
                f"{node_id} has {progress.match_index}, but would be sent {progress.next_index} again"
            )
        previous_term = 0
        if previous < engine.first_index:
            previous = 0  # it waits for an image: this agrees with any log and says only who leads
        else:
            previous_term = engine.term_at(previous)
        frame = AppendEntries(
            engine.term,
            self.round,
            previous,
            previous_term,
            entries,
            engine.commit_index,
            lease_now_ms,
            wall_now_ms,
            None if quiet else digest,
            quiet,
        )
        if not self._outbox.send_now(node_id, frame):
            return False
        progress.told_commit = engine.commit_index
        if not quiet:
            progress.sent_at = now
        return True

    # ------------------------------------------------------------------ answers

    def on_appended(self, node_id: str, frame: Appended, now: float) -> None:
        """An answer of the current term to this leader."""
        progress = self.progress[node_id]
        if progress.incarnation != frame.incarnation:
            if progress.incarnation is not None:
                log.warning("node %s came back with another disk", node_id)
                self.progress[node_id] = progress = Progress(min(progress.next_index, frame.last_index + 1))
            progress.incarnation = frame.incarnation
        progress.answered_at = now
        progress.answered_round = max(progress.answered_round, frame.round)
        while progress.unanswered and progress.unanswered[0][0] <= frame.round:
            progress.unanswered_bytes -= progress.unanswered.popleft()[1]
        if frame.success:
            self._agreed(node_id, progress, frame)
        elif frame.round > progress.ignored_round:
            self._disagreed(node_id, progress, frame)

    def _agreed(self, node_id: str, progress: Progress, frame: Appended) -> None:
        if frame.match_index > self._engine.last_index:
            raise InvariantBroken(
                f"{node_id} acknowledged entry {frame.match_index}, the leader's log ends at {self._engine.last_index}"
            )
        progress.probing = False
        if frame.match_index > progress.match_index:
            progress.match_index = frame.match_index
            progress.match_round = frame.round
        progress.next_index = max(progress.next_index, progress.match_index + 1)

    def _disagreed(self, node_id: str, progress: Progress, frame: Appended) -> None:
        if frame.last_index < progress.match_index:
            if frame.round > progress.match_round:
                reason = (
                    f"{node_id} reports a log up to {frame.last_index}, but acknowledged {progress.match_index} in "
                    f"term {frame.term}: its disk lost what it had promised"
                )
                log.error("%s; it counts no more", reason)
                progress.expelled = True
                self._outbox.put(node_id, Expelled(frame.term, reason))
            return
        # Every log has the entry of genesis, or had it: nothing is to be found below.
        lowest = max(progress.match_index, GENESIS_INDEX) + 1
        self._probe_from(progress, max(min(frame.hint, progress.next_index - 1), lowest))

    def answered_since(self, moment: float) -> set[str]:
        """The listed followers that answered since then."""
        return {node for node, p in self._listed() if p.answered_at >= moment}

    def incarnation_that_has(self, node_id: str, index: int) -> int | None:
        """The incarnation of a follower, listed or not, that has the log durably up to index; None when it has not."""
        progress = self.progress.get(node_id)
        if progress is None or progress.expelled or progress.match_index < index:
            return None
        return progress.incarnation

    def _listed(self) -> list[tuple[str, Progress]]:
        return [
            (node, p)
            for node, p in self.progress.items()
            if p.incarnation is not None and not p.expelled and self._quorum.lists(node, p.incarnation)
        ]

    # ------------------------------------------------------------------ commit and rounds

    def advance_commit(self) -> bool:
        """Commit what a majority holds durably. Returns whether the commit index rose."""
        engine = self._engine
        reached = {node: p.match_index for node, p in self._listed()}
        if engine.journal.durable_term == engine.term and self._quorum.lists_me:
            reached[engine.node_id] = engine.journal.durable_index
        index = self._quorum.reached_by_majority(reached)
        if index <= engine.commit_index or engine.term_at(index) != engine.term:
            return False
        engine.advance_commit(index)
        return True

    def confirmed_round(self) -> int:
        """The latest round whose answers prove that a majority still followed this leader when it left."""
        reached = {node: p.answered_round for node, p in self._listed()}
        if self._quorum.lists_me:
            reached[self._engine.node_id] = self.round + 1
        return self._quorum.reached_by_majority(reached)

    def lag(self) -> dict[str, int]:
        """Node id to entries that it is known to be behind."""
        return {node: self._engine.last_index - p.match_index for node, p in self.progress.items()}

    def is_caught_up(self, node_id: str) -> bool:
        progress = self.progress.get(node_id)
        return progress is not None and progress.match_index == self._engine.last_index
