"""The Raft engine: PySyncObj's node behind a typed face. The only file that touches PySyncObj's private names.

PySyncObj keeps the Raft state (term, vote, role, leader, commit and applied index), owns the log through the injected
journal, starts a leadership (its no-op entry) and is wired to the transport by its contract. What is unsafe in it never
runs: its tick, queue, forwarding, pickles, votes, append-entries, snapshots and commit rule (DESIGN.md, "What of
PySyncObj is used").

Invariants, checked on every step and ending the node when broken: the term never falls; applied <= commit <= last, and
none of them falls; nothing at or below the commit index is cut off; a term has one leader. It must never send anything
by itself.
"""

import enum
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import pysyncobj.syncobj as _syncobj
from pysyncobj import SyncObj, SyncObjConf
from pysyncobj.journal import Journal as _Journal
from pysyncobj.node import Node

from cluster.fatal import InvariantBroken
from cluster.ports import JournalPort, LogRecord, Message, TransportPort

NO_OP = 0x01  # PySyncObj's own command type: the first entry of a leadership
ENTRY = 0x20  # our only command type, for ever: what follows is an entry of statemachine.entry
GENESIS_INDEX = 1
READ_ENTRIES = 64  # read from the journal at a time, to apply them
READ_BYTES = 1 << 20

_create_journal = _syncobj.createJournal


def _injected_journal(journal: object) -> object:
    """PySyncObj opens its journal by file name; it takes ours as it is."""
    return journal if isinstance(journal, _Journal) else _create_journal(journal)


_syncobj.createJournal = _injected_journal


class Role(enum.IntEnum):
    """As PySyncObj numbers them."""

    FOLLOWER = 0
    CANDIDATE = 1
    LEADER = 2


class Listener(Protocol):
    """Whom the engine tells of the network."""

    def on_message(self, node_id: str, message: Message) -> None: ...
    def on_connected(self, node_id: str) -> None: ...
    def on_disconnected(self, node_id: str) -> None: ...


class _Replaced(RuntimeError):
    """A part of PySyncObj ran that is replaced here."""


class _Node(SyncObj):  # type: ignore[misc]
    """PySyncObj's node with every way into its unsafe parts closed."""

    def __init__(self, listener: Listener, journal: object, transport: object, me: Node, others: list[Node]) -> None:
        self._listener = listener
        conf = SyncObjConf(
            autoTick=False,
            journalFile=journal,
            appendEntriesUseBatch=True,
            commandsWaitLeader=False,
            useFork=False,
            fullDumpFile=None,
        )
        super().__init__(me, others, conf, nodeClass=Node, transport=transport)

    def _SyncObj__onMessageReceived(self, node: Node, message: Message) -> None:  # noqa: N802
        self._listener.on_message(node.id, message)

    def _SyncObj__onNodeConnected(self, node: Node) -> None:  # noqa: N802
        SyncObj._SyncObj__onNodeConnected(self, node)
        self._listener.on_connected(node.id)

    def _SyncObj__onNodeDisconnected(self, node: Node) -> None:  # noqa: N802
        SyncObj._SyncObj__onNodeDisconnected(self, node)
        self._listener.on_disconnected(node.id)

    def _SyncObj__sendAppendEntries(self) -> None:  # noqa: N802
        """Called at the start of a leadership; the turn that started it sends."""

    def _onTick(self, timeToWait: float = 0.0) -> None:  # noqa: N802, N803
        raise _Replaced("tick")

    def _applyCommand(self, *_: object) -> None:  # noqa: N802
        raise _Replaced("command queue")

    def _checkCommandsToApply(self) -> None:  # noqa: N802
        raise _Replaced("command queue")

    def _SyncObj__applyLogEntries(self) -> None:  # noqa: N802
        raise _Replaced("apply loop")

    def _SyncObj__doApplyCommand(self, command: bytes) -> None:  # noqa: N802
        raise _Replaced("apply")

    def _SyncObj__loadDumpFile(self, clearJournal: bool) -> None:  # noqa: N802, N803
        raise _Replaced("snapshot")

    def _SyncObj__tryLogCompaction(self) -> None:  # noqa: N802
        raise _Replaced("snapshot")


class Engine:
    """The Raft state of this node and its log."""

    def __init__(
        self,
        node_id: str,
        peer_ids: Sequence[str],
        journal: JournalPort,
        transport: TransportPort,
        listener: Listener,
        applied_index: int = 0,
    ) -> None:
        """journal: holds at least one entry. Its commit index is a hint from an earlier life and is believed.

        applied_index: of the entry that the machine's image ends with, which the log holds; 0 for a new machine.
        """
        if not len(journal):
            raise InvariantBroken("the journal is empty: it must begin with genesis or the entry of an image")
        if applied_index and not journal.first_index <= applied_index <= journal.last_index:
            raise InvariantBroken(f"the state is that of entry {applied_index}, which is not in the log")
        self.node_id = node_id
        self.journal = journal
        self._transport = transport
        self._me = Node(node_id)
        self._peers = {peer: Node(peer) for peer in peer_ids if peer != node_id}
        self.peer_ids: tuple[str, ...] = tuple(sorted(self._peers))
        self._raft: Any = _Node(listener, journal, transport, self._me, list(self._peers.values()))
        hint: int = self._raft._SyncObj__raftCommitIndex
        self._raft._SyncObj__raftCommitIndex = min(max(hint, applied_index, GENESIS_INDEX), journal.last_index)
        self._raft._SyncObj__raftLastApplied = applied_index
        self._leaders: tuple[int, str | None] = (self.term, None)  # the latest term and who leads it

    # ------------------------------------------------------------------ state

    @property
    def term(self) -> int:
        return self._raft._SyncObj__raftCurrentTerm  # type: ignore[no-any-return]

    @property
    def voted_for(self) -> str | None:
        return self._raft._SyncObj__votedForNodeId  # type: ignore[no-any-return]

    @property
    def role(self) -> Role:
        return Role(self._raft._SyncObj__raftState)

    @property
    def is_leader(self) -> bool:
        return self._raft._SyncObj__raftState == 2  # type: ignore[no-any-return]

    @property
    def leader_id(self) -> str | None:
        leader = self._raft._SyncObj__raftLeader
        return None if leader is None else leader.id

    @property
    def commit_index(self) -> int:
        return self._raft._SyncObj__raftCommitIndex  # type: ignore[no-any-return]

    @property
    def applied_index(self) -> int:
        return self._raft._SyncObj__raftLastApplied  # type: ignore[no-any-return]

    @property
    def no_op_index(self) -> int:
        """Where this node's latest leadership began; what it commits counts from here."""
        return self._raft._SyncObj__noopIDx or 0

    def is_connected(self, node_id: str) -> bool:
        return self._peers[node_id] in self._raft._SyncObj__connectedNodes

    # ------------------------------------------------------------------ term, vote and role

    def adopt_term(self, term: int) -> None:
        """A higher term was seen: follow it, without a leader or a vote yet."""
        if term <= self.term:
            raise InvariantBroken(f"term {self.term} would fall to {term}")
        self._raft._SyncObj__setCurrentTerm(term, None)
        self.step_down()

    def step_down(self) -> None:
        """Be a follower that knows no leader."""
        self._raft._SyncObj__setState(Role.FOLLOWER.value)
        self._raft._SyncObj__raftLeader = None

    def follow(self, leader_id: str) -> None:
        """leader_id: who sent append-entries of the current term."""
        self._know_leader(leader_id)
        if self.role is not Role.FOLLOWER:
            self._raft._SyncObj__setState(Role.FOLLOWER.value)
        self._raft._SyncObj__raftLeader = self._peers[leader_id]

    def lose_leader(self) -> None:
        """Nothing was heard from the leader for too long."""
        self._raft._SyncObj__raftLeader = None

    def vote_for(self, candidate_id: str) -> None:
        if self.voted_for not in (None, candidate_id):
            raise InvariantBroken(f"a second vote in term {self.term}: {self.voted_for} and {candidate_id}")
        self._raft._SyncObj__setCurrentTerm(self.term, candidate_id)

    def become_candidate(self) -> None:
        """Begin the next term with a vote for this node. The vote counts once it is durable."""
        self._raft._SyncObj__setCurrentTerm(self.term + 1, self.node_id)
        self._raft._SyncObj__setState(Role.CANDIDATE.value)
        self._raft._SyncObj__raftLeader = None

    def become_leader(self) -> None:
        """Begin a leadership: the no-op entry is appended, so that earlier terms' entries can be committed."""
        if self.role is not Role.CANDIDATE or self.journal.durable_term != self.term:
            raise InvariantBroken(f"leadership of term {self.term} without a durable candidacy")
        self._know_leader(self.node_id)
        self._raft._SyncObj__onBecomeLeader()

    def _know_leader(self, leader_id: str) -> None:
        term, known = self._leaders
        if term == self.term and known not in (None, leader_id):
            raise InvariantBroken(f"term {term} has two leaders, {known} and {leader_id}")
        self._leaders = (self.term, leader_id)

    # ------------------------------------------------------------------ the log

    @property
    def first_index(self) -> int:
        return self.journal.first_index

    @property
    def last_index(self) -> int:
        return self.journal.last_index

    @property
    def last_term(self) -> int:
        return self.journal.last_term

    def term_at(self, index: int) -> int:
        return self.journal.term_at(index)

    def records(self, index: int, count: int, max_bytes: int) -> list[LogRecord]:
        """Log entries from index on: at most count, and once there is one, at most max_bytes of commands."""
        return self.journal.entries(index, count, max_bytes)

    def append(self, entry: bytes) -> int:
        """Add one entry of this leadership to the log. Returns its index."""
        if not self.is_leader:
            raise InvariantBroken("a node that does not lead would append to the log")
        index = self.last_index + 1
        self.journal.add(bytes((ENTRY,)) + entry, index, self.term)
        return index

    def store(self, index: int, term: int, command: bytes) -> None:
        """Add an entry that the leader sent."""
        if index != self.last_index + 1 or term < self.last_term or term > self.term:
            raise InvariantBroken(f"entry {index} of term {term} behind {self.last_index} of {self.last_term}")
        self.journal.add(command, index, term)

    def truncate_from(self, index: int) -> None:
        """Cut off index and all behind it, because the leader has something else there."""
        if index <= self.commit_index:
            raise InvariantBroken(f"entry {index} would be cut off, but {self.commit_index} is committed")
        self.journal.deleteEntriesFrom(index - self.journal.first_index)

    def trim_to(self, index: int) -> None:
        """Remove what is before index from the log. It must be in a durable image."""
        if not self.first_index <= index <= self.applied_index:
            raise InvariantBroken(
                f"the log from {self.first_index} on would be trimmed to {index}, {self.applied_index} is applied"
            )
        self.journal.deleteEntriesTo(index - self.journal.first_index)

    def jump_to(self, index: int) -> None:
        """The state is that of the entry at index now, by an image. The log holds that entry."""
        if index <= self.commit_index or not self.first_index <= index <= self.last_index:
            raise InvariantBroken(
                f"an image of entry {index} would follow {self.commit_index}, the log has {self.first_index} to "
                f"{self.last_index}"
            )
        self._raft._SyncObj__raftCommitIndex = self._raft._SyncObj__raftLastApplied = index
        self.journal.setRaftCommitIndex(index)

    def last_entry(self) -> bytes | None:
        """The last entry that is not applied yet, without its command byte; None if there is none but no-ops."""
        for index in range(self.last_index, self.applied_index, -1):
            command = self.records(index, 1, READ_BYTES)[0][0]
            if command[0] == ENTRY:
                return command[1:]
        return None

    # ------------------------------------------------------------------ commit and apply

    def advance_commit(self, index: int) -> None:
        if not self.commit_index <= index <= self.last_index:
            raise InvariantBroken(f"commit index {self.commit_index} would become {index} of {self.last_index}")
        self._raft._SyncObj__raftCommitIndex = index
        self.journal.setRaftCommitIndex(index)

    def apply_committed(self, apply: Callable[[int, int, bytes], None], go_on: Callable[[], bool]) -> None:
        """Call apply(index, term, command) for committed entries, in order, once each, while go_on() is true."""
        for command, index, term in self._committed():
            apply(index, term, command)
            self._raft._SyncObj__raftLastApplied = index
            if not go_on():
                return

    def _committed(self) -> Iterator[LogRecord]:
        while self.applied_index < self.commit_index:
            start = self.applied_index + 1
            yield from self.records(start, min(READ_ENTRIES, self.commit_index - start + 1), READ_BYTES)

    # ------------------------------------------------------------------ the network

    def send(self, node_id: str, message: Message) -> bool:
        """Returns whether the message is on its way; False when there is no connection."""
        return self._transport.send(self._peers[node_id], message)
