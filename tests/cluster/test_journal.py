"""The durable log: what it keeps, what survives a crash, what it refuses."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from signal import SIGKILL
from typing import Any

import lmdb
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from cluster.journal import GENESIS_TERM, InstallMark, Journal, JournalError, JournalIdentity, LogEntry
from cluster.journal_store import AFTER_COMMIT, BEFORE_COMMIT, MAP_SIZE_BYTES, SWEEP_RECORDS

IDENTITY = JournalIdentity("cluster-a", "n1", 4711)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "journal")


@pytest.fixture
def journal(path: str) -> Iterator[Journal]:
    made = Journal.create(path, IDENTITY, b"genesis")
    yield made
    made.close()


def _fill(journal: Journal, last: int, term: int = 2, size: int = 20) -> None:
    if journal.getCurrentTerm() < term:
        journal.setCurrentTerm(term, None)
    for index in range(journal.last_index + 1, last + 1):
        journal.add(b"%d " % index + b"x" * size, index, term)


def _reopened(journal: Journal, **options: Any) -> Journal:
    journal.close()
    return Journal(journal.path, **options)


# ------------------------------------------------------------------ what is kept


def test_a_new_journal_begins_with_genesis_in_term_1(journal: Journal) -> None:
    assert journal[:] == [(b"\x20genesis", 1, GENESIS_TERM)]
    assert (journal.getCurrentTerm(), journal.getVotedForNodeId(), journal.getRaftCommitIndex()) == (1, None, 1)
    assert journal.genesis == b"genesis"
    assert journal.identity == IDENTITY
    assert not journal.dirty


def test_entries_term_and_vote_come_back_after_a_sync(journal: Journal) -> None:
    journal.setCurrentTerm(3, "n2")
    _fill(journal, 10, term=3)
    journal.setRaftCommitIndex(7)
    journal.sync()
    before = journal[:]
    again = _reopened(journal)
    assert again[:] == before
    assert (again.getCurrentTerm(), again.getVotedForNodeId(), again.getRaftCommitIndex()) == (3, "n2", 7)
    assert (again.first_index, again.last_index, again.last_term) == (1, 10, 3)
    again.close()


def test_what_was_not_synced_is_gone_and_was_never_called_durable(journal: Journal) -> None:
    _fill(journal, 5)
    journal.sync()
    journal.setCurrentTerm(9, "n3")
    _fill(journal, 8, term=9)
    assert journal.dirty
    assert (journal.durable_index, journal.durable_term, journal.durable_vote) == (5, 2, None)
    again = _reopened(journal)
    assert (again.last_index, again.getCurrentTerm(), again.getVotedForNodeId()) == (5, 2, None)
    again.close()


def test_sync_makes_durable_and_a_second_one_has_nothing_to_do(journal: Journal) -> None:
    journal.setCurrentTerm(2, "n3")
    _fill(journal, 5)
    journal.sync()
    assert (journal.durable_index, journal.durable_term, journal.durable_vote) == (5, 2, "n3")
    assert not journal.dirty
    journal._store._points.arm(BEFORE_COMMIT, lambda point: pytest.fail(f"{point} was reached"))
    journal.sync()
    journal.setRaftCommitIndex(4)
    journal.sync()


def test_a_truncation_and_what_replaces_it_are_one_transaction(journal: Journal) -> None:
    _fill(journal, 20)
    journal.sync()
    journal.deleteEntriesFrom(10)
    journal.setCurrentTerm(3, None)
    journal.add(b"other", 11, 3)
    again = _reopened(journal)
    assert again.last_index == 20
    again.deleteEntriesFrom(10)
    again.setCurrentTerm(3, None)
    again.add(b"other", 11, 3)
    again.sync()
    last = _reopened(again)
    assert last[9:] == [(b"10 " + b"x" * 20, 10, 2), (b"other", 11, 3)]
    last.close()


def test_a_removed_head_is_gone_at_once_and_swept_bit_by_bit(journal: Journal) -> None:
    count = 2 * SWEEP_RECORDS + 500
    _fill(journal, count, size=1)
    journal.sync()
    journal.deleteEntriesTo(count - 10)
    journal.sync()
    assert (journal.first_index, len(journal)) == (count - 9, 10)
    assert _records(journal) == count - SWEEP_RECORDS
    again = _reopened(journal)
    assert (again.first_index, len(again)) == (count - 9, 10)
    assert again.genesis == b"genesis"
    for step in (1, 2, 3):
        _fill(again, count + step, size=1)
        again.sync()
    assert _records(again) == len(again) == 13
    last = _reopened(again)
    assert last[0][1] == count - 9
    last.close()


def _records(journal: Journal) -> int:
    return journal._store._env.stat()["entries"] - 3  # identity, state, genesis


def test_a_cleared_log_begins_anywhere(journal: Journal) -> None:
    _fill(journal, 30)
    journal.sync()
    journal.clear()
    assert (len(journal), journal.first_index, journal.last_index, journal.last_term) == (0, 1, 0, 0)
    journal.add(b"far", 500, 2)
    journal.sync()
    again = _reopened(journal)
    assert again[:] == [(b"far", 500, 2)]
    again.clear()
    again.add(b"near", 12, 2)
    again.sync()
    last = _reopened(again)
    assert last[:] == [(b"near", 12, 2)]
    last.clear()
    last.sync()
    empty = _reopened(last)
    assert (len(empty), empty.first_index, empty.last_index) == (0, 1, 0)
    assert empty.identity == IDENTITY
    empty.close()


MARK = InstallMark(900, 2, b"\x20last", b"c" * 16, "image-7")


def test_an_install_is_marked_by_a_transaction_and_ended_by_one_with_the_log_that_follows_it(journal: Journal) -> None:
    assert journal.mark is None
    _fill(journal, 20)
    journal.set_mark(MARK)
    assert journal.dirty
    journal.sync()
    journal.set_mark(MARK)
    assert not journal.dirty
    again = _reopened(journal)
    assert again.mark == MARK
    assert again.last_index == 20
    again.clear()
    again.add(MARK.command, MARK.index, MARK.term)
    again.set_mark(None)
    again.sync()
    _fill(again, 905)
    again.sync()
    third = _reopened(again)
    assert third.mark is None
    assert (third.first_index, third.last_index, third.term_at(900)) == (900, 905, 2)
    assert third[0] == (b"\x20last", 900, 2)
    third.close()


def test_a_mark_that_was_not_synced_is_gone_with_all_that_went_with_it(journal: Journal) -> None:
    _fill(journal, 20)
    journal.sync()
    journal.set_mark(MARK)
    again = _reopened(journal)
    assert again.mark is None
    again.set_mark(MARK)
    again.sync()
    again.clear()
    again.add(MARK.command, MARK.index, MARK.term)
    again.set_mark(None)
    third = _reopened(again)
    assert (third.mark, third.first_index, third.last_index) == (MARK, 1, 20)
    third.close()


def test_a_joining_node_starts_with_an_empty_log(path: str) -> None:
    with pytest.raises(JournalError, match="no journal"):
        Journal(path)
    journal = Journal.create(path, IDENTITY)
    assert (len(journal), journal.getCurrentTerm(), journal.getRaftCommitIndex(), journal.genesis) == (0, 0, 0, None)
    with pytest.raises(IndexError):
        journal[-1]
    journal.close()


def test_a_journal_is_never_begun_twice(journal: Journal) -> None:
    journal.close()
    with pytest.raises(JournalError, match=r"already, of .*n1.*left as it is"):
        Journal.create(journal.path, IDENTITY, b"another genesis")


# ------------------------------------------------------------------ reading


def test_it_reads_as_a_list_does_from_memory_and_from_disk(journal: Journal) -> None:
    _fill(journal, 300, size=100)
    journal.sync()
    expected = journal[:]
    small = _reopened(journal, window_bytes=3_000)
    assert small._window.first_index > 250
    for item in (0, 1, 5, 299, -1, -2, -299, -300):
        assert small[item] == expected[item]
    for cut in (slice(3, 9), slice(0, 300), slice(280, 290), slice(200, 299), slice(299, None), slice(-5, None)):
        assert small[cut] == expected[cut]
    assert small[300:] == small[5:5] == small[9:3] == []
    for item in (300, -301):
        with pytest.raises(IndexError):
            small[item]
    assert small.term_at(1) == 1
    assert small.term_at(2) == 2
    with pytest.raises(IndexError):
        small.term_at(301)
    with pytest.raises(ValueError, match="forwards"):
        small[::2]
    small.close()


def test_a_long_log_is_read_in_pieces_of_bounded_bytes(journal: Journal) -> None:
    _fill(journal, 300, size=100)
    journal.sync()
    everything = journal[:]
    for window_bytes in (3_000, 1 << 20):
        again = _reopened(journal, window_bytes=window_bytes)
        pieces: list[LogEntry] = []
        while piece := again.entries(len(pieces) + 1, 50, max_bytes=1_000):
            assert sum(len(entry[0]) for entry in piece) <= 1_000
            pieces += piece
        assert pieces == everything
        assert len(again.entries(5, 3, max_bytes=1)) == 1
        assert [entry[1] for entry in again.entries(298, 99)] == [298, 299, 300]
        again.close()


def test_a_piece_over_the_border_of_the_window_keeps_its_bound(journal: Journal) -> None:
    _fill(journal, 300, size=100)
    journal.sync()
    again = _reopened(journal, window_bytes=30_000)
    border = again._window.first_index
    assert 100 < border < 290
    size = len(again.entries(border, 1)[0][0])
    for fits in (1, 4, 5, 6, 9):
        piece = again.entries(border - 5, 50, max_bytes=fits * size)
        assert [entry[1] for entry in piece] == list(range(border - 5, border - 5 + fits))
    again.close()


def test_reading_below_the_head_is_an_error(journal: Journal) -> None:
    _fill(journal, 30)
    journal.deleteEntriesTo(10)
    with pytest.raises(IndexError, match="first one kept is 11"):
        journal.entries(10, 1)


def test_memory_is_bounded_by_the_window(path: str) -> None:
    Journal.create(path, IDENTITY, b"genesis").close()
    journal = Journal(path, window_bytes=100_000)
    for index in range(1, 41):
        _fill(journal, index * 50, size=1_000)
        journal.sync()
        assert journal._window.size_bytes <= 100_000 + 50 * 1_300
    again = _reopened(journal, window_bytes=100_000)
    assert again._window.size_bytes <= 100_000
    assert len(again) == 2_000
    again.close()


def test_a_truncation_below_the_window_goes_on_from_there(path: str) -> None:
    Journal.create(path, IDENTITY, b"genesis").close()
    journal = Journal(path, window_bytes=3_000)
    _fill(journal, 300, size=100)
    journal.sync()
    assert journal._window.first_index > 100
    journal.deleteEntriesFrom(50)
    assert (journal.last_index, journal[-1][1], journal[0][1]) == (50, 50, 1)
    _fill(journal, 60, size=7)
    journal.sync()
    again = _reopened(journal)
    assert [len(entry[0]) for entry in again[48:52]] == [103, 103, 10, 10]
    assert again.last_index == 60
    again.close()


# ------------------------------------------------------------------ what it refuses


def test_it_refuses_what_raft_forbids(journal: Journal) -> None:
    journal.setCurrentTerm(5, "n2")
    _fill(journal, 4, term=5)
    with pytest.raises(JournalError, match="gap"):
        journal.add(b"", 6, 5)
    with pytest.raises(JournalError, match="term 4"):
        journal.add(b"", 5, 4)
    with pytest.raises(JournalError, match="term 6"):
        journal.add(b"", 5, 6)
    with pytest.raises(JournalError, match="go down from 5 to 4"):
        journal.setCurrentTerm(4, None)
    with pytest.raises(JournalError, match="would change from n2 to n3"):
        journal.setCurrentTerm(5, "n3")
    with pytest.raises(JournalError, match="would change from n2 to None"):
        journal.setCurrentTerm(5, None)
    journal.setCurrentTerm(6, None)
    journal.setCurrentTerm(6, "n3")


def test_two_processes_or_two_opens_are_refused(journal: Journal) -> None:
    with pytest.raises(JournalError, match="already open"):
        Journal(journal.path)


def test_it_is_opened_with_the_flags_that_keep_promises(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    flags = journal._store._env.flags()
    assert (flags["sync"], flags["metasync"], flags["writemap"], flags["map_async"]) == (True, True, False, False)
    assert journal._store._env.info()["map_size"] == MAP_SIZE_BYTES
    journal.close()
    unsafe = lmdb.open

    def without_sync(path: str, **options: Any) -> lmdb.Environment:
        return unsafe(path, sync=False, **options)

    monkeypatch.setattr(lmdb, "open", without_sync)
    with pytest.raises(JournalError, match=r"\{'sync': False\}, which would lose writes"):
        Journal(journal.path)


# ------------------------------------------------------------------ failing disks


@pytest.mark.parametrize("point", [BEFORE_COMMIT, AFTER_COMMIT])
def test_a_failed_sync_is_never_forgotten_by_the_next(journal: Journal, point: str) -> None:
    """F1, F7: a journal that carried on would acknowledge what the disk does not have."""
    _fill(journal, 5)
    journal.sync()
    journal._store._points.arm(point, lambda name: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    _fill(journal, 8)
    with pytest.raises(JournalError, match="No space left on device"):
        journal.sync()
    calls: list[Any] = [
        journal.sync,
        lambda: journal.add(b"", 9, 2),
        lambda: journal.setCurrentTerm(9, None),
        lambda: journal.deleteEntriesFrom(1),
        lambda: journal.deleteEntriesTo(1),
        journal.clear,
        lambda: journal[0],
        lambda: journal[0:2],
        lambda: journal.entries(1, 1),
        lambda: journal.term_at(1),
        lambda: journal.durable_index,
        lambda: journal.durable_term,
        lambda: journal.durable_vote,
        journal.getCurrentTerm,
        journal.getVotedForNodeId,
        journal.getRaftCommitIndex,
        lambda: journal.setRaftCommitIndex(3),
    ]
    for call in calls:
        with pytest.raises(JournalError, match="No space left on device"):
            call()
    again = _reopened(journal)
    assert again.last_index == (5 if point == BEFORE_COMMIT else 8)
    again.close()


def test_a_full_map_is_told_apart(path: str) -> None:
    Journal.create(path, IDENTITY, b"genesis").close()
    journal = Journal(path, map_size_bytes=1 << 20)
    _fill(journal, 3, size=1 << 20)
    with pytest.raises(JournalError, match="greatest size"):
        journal.sync()
    again = _reopened(journal)
    assert again.last_index == 1
    again.close()


CRASH = """
import sys
from cluster.failpoints import Failpoints
from cluster.journal import Journal
journal = Journal(sys.argv[1], failpoints=Failpoints([sys.argv[2]]))
journal.setCurrentTerm(2, "n2")
for batch in range(10):
    for _ in range(3):
        journal.add(b"x" * 5000, journal.last_index + 1, 2)
    if batch == 4:
        journal.deleteEntriesTo(5)
    journal.sync()
    print(journal.last_index, flush=True)
"""


@pytest.mark.parametrize("turn", [1, 4, 5, 6, 10])
@pytest.mark.parametrize(("point", "extra"), [(BEFORE_COMMIT, 0), (AFTER_COMMIT, 3)])
def test_killed_around_a_commit_it_has_all_or_nothing_of_it(
    journal: Journal, path: str, point: str, turn: int, extra: int
) -> None:
    journal.close()
    run = subprocess.run(
        [sys.executable, "-c", CRASH, path, f"{point}=kill@{turn}"], capture_output=True, text=True, check=False
    )
    assert run.returncode == -SIGKILL, run.stderr
    acknowledged = int(run.stdout.split()[-1]) if run.stdout else 1
    assert acknowledged == 1 + 3 * (turn - 1)
    again = Journal(path)
    assert again.last_index == acknowledged + extra
    assert again.getVotedForNodeId() == ("n2" if again.last_index > 1 else None)
    assert again.first_index == (6 if again.last_index > 13 else 1)
    again.close()


FULL = """
import resource, signal, sys
from cluster.journal import Journal, JournalError
journal = Journal(sys.argv[1])
journal.setCurrentTerm(2, None)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
while True:
    journal.add(b"x" * 5000, journal.last_index + 1, 2)
    try:
        journal.sync()
    except JournalError as error:
        print(error)
        break
    print(journal.last_index, flush=True)
"""


def test_a_disk_that_takes_no_more_keeps_what_it_has(journal: Journal, path: str) -> None:
    journal.close()
    run = subprocess.run([sys.executable, "-c", FULL, path], capture_output=True, text=True, check=True)
    *acknowledged, error = run.stdout.splitlines()
    assert "could not be written" in error
    assert "Free space on the disk or replace it" in error
    assert len(acknowledged) > 20
    again = Journal(path)
    assert again.last_index == int(acknowledged[-1])
    again.close()


def test_a_hanging_disk_hangs_the_sync_and_nothing_is_durable(journal: Journal, path: str) -> None:
    journal.close()
    with pytest.raises(subprocess.TimeoutExpired) as hung:
        subprocess.run(
            [sys.executable, "-c", CRASH, path, f"{BEFORE_COMMIT}=hang@2"], stdout=-1, timeout=3, check=False
        )
    assert hung.value.stdout == b"4\n"
    again = Journal(path)
    assert again.last_index == 4
    again.close()


# ------------------------------------------------------------------ against a list


class AgainstAList(RuleBasedStateMachine):
    """Any sequence of changes, syncs and crashes, compared with a list and what was in it at the last sync."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.journal = Journal.create(self.folder.name, IDENTITY, b"genesis")
        self.log: list[LogEntry] = self.journal[:]
        self.meta: tuple[int, str | None] = (1, None)
        self.synced = (list(self.log), self.meta)

    def teardown(self) -> None:
        self.journal.close()
        self.folder.cleanup()

    @rule(sizes=st.lists(st.integers(0, 3_000), max_size=8))
    def add(self, sizes: list[int]) -> None:
        for size in sizes:
            entry = (bytes(size), self.log[-1][1] + 1 if self.log else 1, self.meta[0])
            self.journal.add(*entry)
            self.log.append(entry)

    @rule(vote=st.sampled_from([None, "n1", "n2"]), up=st.integers(1, 3))
    def new_term(self, vote: str | None, up: int) -> None:
        self.meta = (self.meta[0] + up, vote)
        self.journal.setCurrentTerm(*self.meta)

    @rule(position=st.integers(0, 40))
    def truncate(self, position: int) -> None:
        self.journal.deleteEntriesFrom(position)
        del self.log[position:]

    @rule(position=st.integers(0, 40))
    def remove_head(self, position: int) -> None:
        self.journal.deleteEntriesTo(position)
        del self.log[:position]

    @precondition(lambda self: not self.log)
    @rule(index=st.integers(1, 100))
    def begin_elsewhere(self, index: int) -> None:
        self.journal.add(b"new", index, self.meta[0])
        self.log.append((b"new", index, self.meta[0]))

    @rule()
    def sync(self) -> None:
        self.journal.sync()
        self.synced = (list(self.log), self.meta)

    @rule(window_bytes=st.sampled_from([1, 2_000, 20_000]))
    def crash(self, window_bytes: int) -> None:
        self.journal.close()
        self.journal = Journal(self.folder.name, window_bytes=window_bytes)
        self.log, self.meta = list(self.synced[0]), self.synced[1]

    @rule(start=st.integers(0, 40), length=st.integers(0, 40))
    def read(self, start: int, length: int) -> None:
        assert self.journal[start : start + length] == self.log[start : start + length]

    @invariant()
    def ends_agree(self) -> None:
        assert len(self.journal) == len(self.log)
        assert (self.journal.getCurrentTerm(), self.journal.getVotedForNodeId()) == self.meta
        if self.log:
            assert (self.journal[0], self.journal[-1]) == (self.log[0], self.log[-1])
            assert self.journal.first_index == self.log[0][1]
        durable = self.synced[0][-1][1] if self.synced[0] else 0
        assert (self.journal.durable_index, self.journal.durable_term) == (durable, self.synced[1][0])


TestAgainstAList = AgainstAList.TestCase
