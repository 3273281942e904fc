"""The Raft log with term and vote: what a node promised, durable by one transaction and one sync a turn.

It has PySyncObj's journal interface, so positions count from the first entry that is kept. Changes are buffered;
`sync` makes all of them durable together. Recent entries are held in memory, within a bound of bytes; older ones are
read from disk.

Invariants: indexes have no gap, terms never go down, the current term is at least the last entry's, a vote is never
taken back within its term. What is durable is always a state that the node was in. After a failed sync nobody can
know what is durable, so every later call fails: the node has to end.
It must never forget a change that was not written, and never say that something is durable before it is.
"""

from typing import overload

import lmdb
from pysyncobj.journal import Journal as RaftJournal

from cluster.failpoints import Failpoints
from cluster.journal_records import (
    ENTRY_COMMAND,
    FORMAT,
    InstallMark,
    JournalError,
    JournalIdentity,
    JournalState,
    LogEntry,
)
from cluster.journal_store import MAP_SIZE_BYTES, JournalStore
from cluster.journal_window import Window

__all__ = ["ENTRY_COMMAND", "FORMAT", "InstallMark", "Journal", "JournalError", "JournalIdentity", "LogEntry"]

WINDOW_BYTES = 32 << 20
_NO_BOUND = 1 << 62

# Raft never elects anybody in a term below 1, and nobody votes before genesis, so that term 1 belongs to the bootstrap
# alone: the log is (1, term 1) on every node and each later leader has a term of 2 or more. Term 0 would not do: for an
# empty log PySyncObj makes up an entry (1, term 0), which would pass for the genesis of any cluster.
GENESIS_INDEX = 1
GENESIS_TERM = 1


class Journal(RaftJournal):  # type: ignore[misc]
    """The journal of one node. Not thread-safe: `sync` may run in a thread while nothing else touches the journal."""

    def __init__(
        self,
        path: str,
        *,
        failpoints: Failpoints | None = None,
        window_bytes: int = WINDOW_BYTES,
        map_size_bytes: int = MAP_SIZE_BYTES,
    ) -> None:
        """Open the journal in the directory `path` and check every record.

        window_bytes: about how much of the end of the log is kept in memory. map_size_bytes: how large the file may
        become. Raises JournalError when there is none, or when it is damaged, mixed or of another format.
        """
        self._store = JournalStore(path, points=failpoints, map_size_bytes=map_size_bytes)
        self.path = path
        self._failure: JournalError | None = None
        self._dirty = False
        try:
            if self._store.identity is None:
                raise JournalError(f"the journal in {path} was never begun: bootstrap the cluster first.")
            self._identity = self._store.identity
            self._mark = self._store.mark
            state = self._store.state
            self._term, self._vote, self._commit_index = state.term, state.vote, state.commit_index
            self._first, self._last = state.first_index, state.last_index
            self._written = self._last  # the file has first ... written as the log has them
            self._head: LogEntry | None = None
            self._window = Window(window_bytes, [])  # the end of the log; empty only when the log is
            for entry in self._store.scan():
                self._window.append(entry)
                self._window.shrink(entry[1])
        except BaseException:
            self._store.close()
            raise

    @classmethod
    def create(
        cls,
        path: str,
        identity: JournalIdentity,
        genesis: bytes | None = None,
        *,
        failpoints: Failpoints | None = None,
    ) -> "Journal":
        """Begin a journal in the directory `path`, durable when this returns.

        genesis: the encoded entry that becomes entry 1 of term 1, known to be committed; without it the log is empty
        (a node that joins later gets entry 1 from the leader). Raises JournalError when there is a journal already.
        """
        store = JournalStore(path, create=True, points=failpoints)
        try:
            if store.identity is not None:
                raise JournalError(f"there is a journal in {path} already, of {store.identity}: it is left as it is.")
            if genesis is None:
                store.commit(JournalState(), [], identity=identity)
            else:
                index, term = GENESIS_INDEX, GENESIS_TERM
                state = JournalState(term, None, index, first_index=index, last_index=index, last_term=term)
                store.commit(state, [(ENTRY_COMMAND + genesis, index, term)], identity=identity, genesis=genesis)
        except (lmdb.Error, OSError) as error:
            raise JournalError(f"the journal in {path} cannot be begun: {error}.") from error
        finally:
            store.close()
        return cls(path, failpoints=failpoints)

    # ------------------------------------------------------------------ what it holds

    @property
    def identity(self) -> JournalIdentity:
        return self._identity

    @property
    def genesis(self) -> bytes | None:
        """The encoded entry 1 of the cluster, kept also after the log's head was removed."""
        return self._store.genesis

    @property
    def mark(self) -> InstallMark | None:
        """The install that is under way, if any."""
        return self._mark

    @property
    def dirty(self) -> bool:
        """True when `sync` has something to write."""
        return self._dirty

    @property
    def first_index(self) -> int:
        """Index of the first entry kept; 1 for an empty log."""
        return self._first

    @property
    def last_index(self) -> int:
        """Index of the last entry; 0 for an empty log."""
        return self._last

    @property
    def last_term(self) -> int:
        """Term of the last entry; 0 for an empty log."""
        return self._window.last_term

    @property
    def durable_index(self) -> int:
        """Index of the last entry on disk. When the log was truncated since, that entry may be another one now."""
        self._check()
        return self._store.state.last_index

    @property
    def durable_term(self) -> int:
        """Current term on disk."""
        self._check()
        return self._store.state.term

    @property
    def durable_vote(self) -> str | None:
        """Vote of `durable_term` on disk."""
        self._check()
        return self._store.state.vote

    # ------------------------------------------------------------------ reading

    def __len__(self) -> int:
        return self._last - self._first + 1

    @overload
    def __getitem__(self, item: int) -> LogEntry: ...
    @overload
    def __getitem__(self, item: slice) -> list[LogEntry]: ...
    def __getitem__(self, item: int | slice) -> LogEntry | list[LogEntry]:
        """As a list of entries; positions count from the first entry kept."""
        self._check()
        if isinstance(item, slice):
            start, stop, step = item.indices(len(self))
            if step != 1:
                raise ValueError("the log is read forwards, one by one")
            return self.entries(self._first + start, stop - start)
        index = self._first + item if item >= 0 else self._last + 1 + item
        if not self._first <= index <= self._last:
            raise IndexError(f"position {item} of a log of {len(self)} entries")
        return self._entry(index)

    def _entry(self, index: int) -> LogEntry:
        if index >= self._window.first_index:
            return self._window[index]
        if index != self._first:
            return self._store.read(index, 1, _NO_BOUND)[0]
        if self._head is None:  # PySyncObj asks for the first entry all the time
            self._head = self._store.read(index, 1, _NO_BOUND)[0]
        return self._head

    def entries(self, index: int, count: int, max_bytes: int = _NO_BOUND) -> list[LogEntry]:
        """Entries from `index` on: the way to read a long log in pieces.

        count: at most so many. max_bytes: once there is one, no more than so many bytes of commands.
        Returns an empty list behind the end of the log; raises IndexError below its first entry.
        """
        self._check()
        if index < self._first:
            raise IndexError(f"entry {index} was removed, the first one kept is {self._first}")
        end = min(index + count, self._last + 1)
        if index >= end:
            return []
        border = min(end, self._window.first_index)
        if index >= border:
            return _within(self._window.between(index, end), max_bytes)
        older = self._store.read(index, border - index, max_bytes)
        if end == border or len(older) < border - index:
            return older
        return _within(older + self._window.between(border, end), max_bytes)

    def term_at(self, index: int) -> int:
        """Term of the entry at this index; raises IndexError when it is not in the log."""
        self._check()
        if not self._first <= index <= self._last:
            raise IndexError(f"entry {index} is not in the log, which has {self._first} to {self._last}")
        return self._entry(index)[2]

    def getCurrentTerm(self) -> int:  # noqa: N802
        self._check()
        return self._term

    def getVotedForNodeId(self) -> str | None:  # noqa: N802
        self._check()
        return self._vote

    def getRaftCommitIndex(self) -> int:  # noqa: N802
        """The newest commit index set; after a restart, one that was committed then or earlier (0: none known)."""
        self._check()
        return self._commit_index

    # ------------------------------------------------------------------ changing; durable after the next sync

    def add(self, command: bytes, idx: int, term: int) -> None:
        """Append one entry. An empty log takes any index, any other the next one only."""
        self._check()
        if not self._window:
            self._first, self._last, self._head = idx, idx - 1, None
        if idx != self._last + 1:
            raise JournalError(f"entry {idx} does not follow {self._last}: the log would have a gap")
        if not self.last_term <= term <= self._term:
            raise JournalError(
                f"entry {idx} has term {term}, but the last one {self.last_term} and the current term is {self._term}"
            )
        self._window.append((command, idx, term))
        self._last = idx
        self._dirty = True

    def clear(self) -> None:
        """Remove all entries. The next one added may have any index."""
        self._check()
        self._window.reset([])
        self._first, self._last, self._written, self._head = 1, 0, 0, None
        self._dirty = True

    def deleteEntriesFrom(self, entryFrom: int) -> None:  # noqa: N802, N803
        """Truncate: remove the entry at this position and all after it."""
        self._check()
        if entryFrom >= len(self):
            return
        if entryFrom <= 0:
            self.clear()
            return
        last = self._first + entryFrom - 1
        if last >= self._window.first_index:
            self._window.truncate(last)
        else:
            self._window.reset(self._store.read(last, 1, _NO_BOUND))
        self._last = last
        self._written = min(self._written, last)
        self._dirty = True

    def deleteEntriesTo(self, entryTo: int) -> None:  # noqa: N802, N803
        """Remove the head: all entries before this position."""
        self._check()
        if entryTo <= 0:
            return
        if entryTo >= len(self):
            self.clear()
            return
        self._first, self._head = self._first + entryTo, None
        self._window.drop_before(self._first)
        self._dirty = True

    def setCurrentTerm(self, term: int, votedForNodeId: str | None) -> None:  # noqa: N802, N803
        """Set the current term and the vote in it. Raises JournalError for what Raft forbids."""
        self._check()
        if term < self._term:
            raise JournalError(f"the current term would go down from {self._term} to {term}")
        if term == self._term and self._vote is not None and votedForNodeId != self._vote:
            raise JournalError(f"the vote of term {term} would change from {self._vote} to {votedForNodeId}")
        if (term, votedForNodeId) != (self._term, self._vote):
            self._term, self._vote = term, votedForNodeId
            self._dirty = True

    def setRaftCommitIndex(self, raftCommitIndex: int) -> None:  # noqa: N802, N803
        """A hint for the next start. Written along with the next change, never a reason to sync."""
        self._check()
        self._commit_index = raftCommitIndex

    def set_mark(self, mark: InstallMark | None) -> None:
        """Note that an install is under way, or (None) that none is."""
        self._check()
        if mark != self._mark:
            self._mark = mark
            self._dirty = True

    def sync(self) -> None:
        """Make every change so far durable: one transaction, one sync. Does nothing when there is none.

        Blocks for as long as the disk takes. Raises JournalError when it failed, and so does every call from then on.
        """
        self._check()
        if not self._dirty:
            return
        commit_index = min(self._commit_index, self._last)
        state = JournalState(self._term, self._vote, commit_index, self._first, self._last, self.last_term)
        start = max(self._written + 1, self._first)
        entries = self._window.between(start, self._last + 1) if self._last >= start else []
        try:
            self._store.commit(state, entries, mark=self._mark)
        except BaseException as error:
            self._failure = JournalError(f"{self._cause(error)} Nothing was acknowledged that is not on disk.")
            raise self._failure from error
        self._dirty, self._written = False, self._last
        self._window.shrink(self._written)

    def _cause(self, error: BaseException) -> str:
        if isinstance(error, lmdb.MapFullError):
            return f"the journal in {self.path} has reached its greatest size: it needs a trim, and a larger map."
        return (
            f"the journal in {self.path} could not be written: {error or type(error).__name__}. "
            "Free space on the disk or replace it, then start the node again."
        )

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Close the file. What was not synced was promised to nobody and is dropped."""
        self._store.close()

    def _destroy(self) -> None:
        self.close()


def _within(entries: list[LogEntry], max_bytes: int) -> list[LogEntry]:
    """The first entry, and those after it that fit into max_bytes of commands with it."""
    if max_bytes == _NO_BOUND:
        return entries
    for position, (command, _, _) in enumerate(entries):
        max_bytes -= len(command)
        if max_bytes < 0 and position:
            return entries[:position]
    return entries
