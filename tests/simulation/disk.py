"""A disk that keeps exactly what LMDB promises: after a crash, the last synced transaction and nothing else."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pysyncobj.journal import Journal as RaftJournal

from cluster.journal_records import InstallMark
from cluster.ports import LogRecord


@dataclass
class Disk:
    """What survives a crash. fault: called before each transaction; it may raise, as a full or broken disk does.

    passed: called before and after whatever becomes durable (of the journal and of images), with its name. It may
    raise, as a process that is killed there does nothing more.
    """

    records: list[LogRecord] = field(default_factory=list)
    term: int = 0
    vote: str | None = None
    commit_index: int = 0
    syncs: int = 0
    fault: Callable[[], None] = lambda: None
    mark: InstallMark | None = None
    images: dict[str, dict[bytes, bytes]] = field(default_factory=dict)
    current_image: str | None = None
    passed: Callable[[str], None] = lambda what: None

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Something becomes durable within."""
        self.passed(f"before {what}")
        yield
        self.passed(f"after {what}")

    @staticmethod
    def with_genesis(entry: bytes) -> "Disk":
        return Disk([(b"\x20" + entry, 1, 1)], 1, None, 1)


class SimulatedJournal(RaftJournal):  # type: ignore[misc]
    """The interface of `cluster.journal.Journal` over a Disk. Opening it again is what a restart does."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self._records = list(disk.records)
        self._kept = len(self._records)  # so many are on disk as they are here
        self._term, self._vote, self._commit_index = disk.term, disk.vote, disk.commit_index
        self._removed = 0  # so many of the first on disk are gone here
        self.mark = disk.mark
        self._failed = False
        self.dirty = False

    @property
    def first_index(self) -> int:
        return self._records[0][1]

    @property
    def last_index(self) -> int:
        return self._records[-1][1]

    @property
    def last_term(self) -> int:
        return self._records[-1][2]

    @property
    def durable_index(self) -> int:
        return self.disk.records[-1][1]

    @property
    def durable_term(self) -> int:
        return self.disk.term

    @property
    def durable_vote(self) -> str | None:
        return self.disk.vote

    def term_at(self, index: int) -> int:
        assert index >= self.first_index
        return self._records[index - self.first_index][2]

    def entries(self, index: int, count: int, max_bytes: int = 1 << 62) -> list[LogRecord]:
        found: list[LogRecord] = []
        start = index - self.first_index
        assert start >= 0
        for record in self._records[start : start + count]:
            max_bytes -= len(record[0])
            if found and max_bytes < 0:
                break
            found.append(record)
        return found

    def __getitem__(self, item: int) -> LogRecord:
        return self._records[item]

    def __len__(self) -> int:
        return len(self._records)

    def add(self, command: bytes, idx: int, term: int) -> None:
        assert not self._records or idx == self.last_index + 1
        assert (self.last_term if self._records else 0) <= term <= self._term
        self._records.append((command, idx, term))
        self.dirty = True

    def clear(self) -> None:
        self._records.clear()
        self._kept = self._removed = 0
        self.dirty = True

    def deleteEntriesTo(self, entryTo: int) -> None:  # noqa: N802, N803
        assert 0 <= entryTo < len(self._records)
        del self._records[:entryTo]
        self._removed += min(entryTo, self._kept)
        self._kept = max(self._kept - entryTo, 0)
        self.dirty = True

    def set_mark(self, mark: InstallMark | None) -> None:
        self.dirty = self.dirty or mark != self.mark
        self.mark = mark

    def deleteEntriesFrom(self, entryFrom: int) -> None:  # noqa: N802, N803
        del self._records[entryFrom:]
        self._kept = min(self._kept, entryFrom)
        self.dirty = True

    def setCurrentTerm(self, term: int, votedForNodeId: str | None) -> None:  # noqa: N802, N803
        assert term >= self._term
        assert term > self._term or self._vote in (None, votedForNodeId)
        self._term, self._vote = term, votedForNodeId
        self.dirty = True

    def getCurrentTerm(self) -> int:  # noqa: N802
        return self._term

    def getVotedForNodeId(self) -> str | None:  # noqa: N802
        return self._vote

    def setRaftCommitIndex(self, raftCommitIndex: int) -> None:  # noqa: N802, N803
        self._commit_index = raftCommitIndex

    def getRaftCommitIndex(self) -> int:  # noqa: N802
        return self._commit_index

    def sync(self) -> None:
        if self._failed:
            raise OSError("an earlier sync failed")
        if not self.dirty:
            return
        self._failed = True
        self.disk.fault()
        self._failed = False
        disk = self.disk
        with disk.step("journal"):
            del disk.records[: self._removed]
            del disk.records[self._kept :]
            disk.records += self._records[self._kept :]
            self._kept, self._removed = len(self._records), 0
            disk.term, disk.vote, disk.commit_index = self._term, self._vote, min(self._commit_index, self.last_index)
            disk.mark = self.mark
            disk.syncs += 1
        self.dirty = False
