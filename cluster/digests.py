"""Do all replicas compute the same? The leader tells its chain digest with the index it belongs to; followers compare.

A follower whose digest differs at the same index has computed something else, and neither can know who is right by
itself. It tells the leader what it has and stops, loudly and with its files; a leader that hears the same other digest
from a majority stops itself. What was computed wrongly since the last image is computed anew by a restart; what an
image has already kept is found again, and the disk has to be replaced.
"""

from collections.abc import Callable

from cluster.fatal import Fatal
from cluster.frames import Diverged
from cluster.quorum import Quorum

REMEMBERED = 1024  # applied entries whose digests a follower can still compare


class Digests:
    """end: ends this node now, as leader. tell_and_end: tells the leader (leader, index, digest here), serves nobody
    any more and ends this node for the reason, once the message has left.
    """

    def __init__(self, quorum: Quorum, end: Fatal, tell_and_end: Callable[[str, int, bytes, str], None]) -> None:
        self._quorum = quorum
        self._end = end
        self._tell_and_end = tell_and_end
        self._known: dict[int, bytes] = {}  # index to digest, in rising order
        self._awaited: tuple[str, int, bytes] | None = None  # of the leader, ahead of what is applied here
        self._reports: dict[tuple[int, bytes], set[str]] = {}  # at the leader
        self.latest: tuple[int, bytes] | None = None

    def on_applied(self, index: int, chain: bytes) -> None:
        self.latest = (index, chain)
        self._known[index] = chain
        if len(self._known) > REMEMBERED:
            del self._known[next(iter(self._known))]
        if self._awaited is not None and self._awaited[1] <= index:
            leader_id, awaited_index, awaited_chain = self._awaited
            self._awaited = None
            self._compare(leader_id, awaited_index, awaited_chain)

    def on_restored(self, index: int, chain: bytes) -> None:
        """The state is one of an image now; digests of entries before it are not known."""
        self._known.clear()
        self.on_applied(index, chain)

    def on_leader_digest(self, leader_id: str, index: int, chain: bytes) -> None:
        """The leader's digest after the entry at index."""
        if self.latest is not None and index <= self.latest[0]:
            self._compare(leader_id, index, chain)
        elif self._awaited is None or self._awaited[0] != leader_id:
            self._awaited = (leader_id, index, chain)

    def _compare(self, leader_id: str, index: int, chain: bytes) -> None:
        mine = self._known.get(index)
        if mine is not None and mine != chain:
            self._tell_and_end(
                leader_id,
                index,
                mine,
                f"this node and the leader {leader_id} differ after entry {index}: "
                f"{mine.hex()[:16]} here, {chain.hex()[:16]} there; the data directory is left as it is",
            )

    def on_diverged(self, node_id: str, frame: Diverged) -> None:
        """At the leader: a follower differs and stops."""
        if self._known.get(frame.index) == frame.chain:
            return
        reporters = self._reports.setdefault((frame.index, frame.chain), set())
        reporters.add(node_id)
        if self._quorum.is_majority(reporters):
            self._end(
                f"the nodes {', '.join(sorted(reporters))} agree after entry {frame.index} and this leader differs; "
                "the data directory is left as it is"
            )
