"""Damage of the journal's file: refused with a word, never opened as if nothing were wrong, never a crash."""

import random
from pathlib import Path

import lmdb
import pytest

from cluster.journal import Journal, JournalError, JournalIdentity, LogEntry
from cluster.journal_records import (
    GENESIS_KEY,
    IDENTITY_KEY,
    MARK_KEY,
    STATE_KEY,
    JournalState,
    encode_record,
    encode_state,
    entry_key,
)
from cluster.journal_store import DATA_FILE, JournalStore

IDENTITY = JournalIdentity("cluster-a", "n1", 4711)
LAST = 60


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A journal with entries of several pages and of a part of one, entries 11 to 60."""
    folder = str(tmp_path / "journal")
    journal = Journal.create(folder, IDENTITY, b"genesis")
    journal.setCurrentTerm(2, "n2")
    for index in range(2, LAST + 1):
        journal.add(b"%d" % index * (4000 if index % 7 == 0 else 90), index, 2)
        if index % 3 == 0:
            journal.sync()
    journal.deleteEntriesTo(10)
    journal.sync()
    journal.close()
    return folder


def _change(path: str, records: dict[bytes, bytes | None]) -> None:
    with lmdb.open(path, map_size=1 << 30) as environment, environment.begin(write=True) as transaction:
        for key, value in records.items():
            if value is None:
                assert transaction.delete(key), key
            else:
                transaction.put(key, value)


def _refusal(path: str) -> str:
    with pytest.raises(JournalError) as refused:
        Journal(path)
    return str(refused.value)


def _record(index: int, term: int, identity: JournalIdentity = IDENTITY) -> bytes:
    return encode_record((b"%d" % index * 90, index, term), identity.owner)


def test_a_gap_is_refused(path: str) -> None:
    _change(path, {entry_key(30): None})
    assert "gap: 31 follows 29" in _refusal(path)


def test_a_lost_first_record_is_refused(path: str) -> None:
    _change(path, {entry_key(11): None})
    assert "gap: 12 follows 10" in _refusal(path)


def test_a_lost_last_record_is_refused(path: str) -> None:
    _change(path, {entry_key(LAST): None})
    assert "log ends at 59" in _refusal(path)


def test_a_record_too_many_is_refused(path: str) -> None:
    _change(path, {entry_key(LAST + 1): _record(LAST + 1, 2)})
    assert "log ends at 61" in _refusal(path)


def test_a_term_that_goes_down_is_refused(path: str) -> None:
    _change(path, {entry_key(41): _record(41, 1)})
    assert "log record 41 has term 1, after 2" in _refusal(path)


def test_a_term_above_the_current_one_is_refused(path: str) -> None:
    _change(path, {entry_key(LAST): _record(LAST, 3)})
    assert "with a current term of 2" in _refusal(path)


def test_a_record_of_another_journal_is_refused(path: str) -> None:
    _change(path, {entry_key(41): _record(41, 2, JournalIdentity("cluster-a", "n2", 99))})
    assert "two were mixed" in _refusal(path)


def test_a_moved_record_is_refused(path: str) -> None:
    _change(path, {entry_key(41): _record(42, 2)})
    assert "log record 41 is damaged" in _refusal(path)


@pytest.mark.parametrize("key", [IDENTITY_KEY, STATE_KEY])
def test_lost_identity_or_state_is_refused(path: str, key: bytes) -> None:
    _change(path, {key: None})
    assert "lost its identity or state" in _refusal(path)


@pytest.mark.parametrize("key", [IDENTITY_KEY, STATE_KEY, GENESIS_KEY, MARK_KEY])
def test_a_damaged_identity_state_genesis_or_mark_is_refused(path: str, key: bytes) -> None:
    _change(path, {key: b"\x00\x01\x02\x03 not it"})
    assert "is damaged" in _refusal(path)


def test_a_state_that_forgot_an_entry_is_refused(path: str) -> None:
    _change(path, {STATE_KEY: encode_state(JournalState(2, "n2", 1, 11, LAST - 1, 2))})
    assert "but 11 to 59 were written" in _refusal(path)


def test_a_foreign_key_is_refused(path: str) -> None:
    _change(path, {b"f": b"what is this"})
    assert "unknown key" in _refusal(path)


def test_a_file_that_is_no_lmdb_is_refused(path: str) -> None:
    Path(path, DATA_FILE).write_bytes(b"\x00" * 20_000)
    assert "is damaged" in _refusal(path)


def test_an_emptied_file_is_refused(path: str) -> None:
    Path(path, DATA_FILE).write_bytes(b"")
    assert "there is no journal" in _refusal(path)


def test_each_refusal_says_what_to_do(path: str) -> None:
    _change(path, {entry_key(30): None})
    assert "move the data directory away, start this node with an empty one" in _refusal(path)


def test_damage_after_the_opening_is_seen_by_the_read(path: str) -> None:
    store = JournalStore(path)
    try:
        with store._env.begin(write=True) as transaction:
            transaction.put(entry_key(20), b"\x00" * 40)
            transaction.delete(entry_key(30))
        with pytest.raises(JournalError, match="log record 20 is damaged"):
            store.read(18, 5, 1 << 30)
        with pytest.raises(JournalError, match="log record 30 is gone"):
            store.read(28, 5, 1 << 30)
    finally:
        store.close()


def _opens(path: str, expected: list[LogEntry]) -> bool:
    """Whether the journal opens; then it must be what was written, to the last bit."""
    try:
        journal = Journal(path)
    except JournalError:
        return False
    assert journal[:] == expected
    journal.close()
    return True


@pytest.fixture
def expected(path: str) -> list[LogEntry]:
    journal = Journal(path)
    entries = journal[:]
    journal.close()
    return entries


def test_a_truncated_file_is_refused_at_any_length(path: str, expected: list[LogEntry]) -> None:
    """Harmless only at the very end, where pages may be free."""
    file = Path(path, DATA_FILE)
    content = file.read_bytes()
    for length in range(0, len(content), 4096 // 3):
        file.write_bytes(content[:length])
        assert not _opens(path, expected) or len(content) - length < 10 * 4096


@pytest.mark.parametrize("seed", range(4))
def test_a_flipped_bit_is_refused_or_harmless(path: str, expected: list[LogEntry], seed: int) -> None:
    """Harmless: in a free page or a gap of one, where nothing is stored."""
    file = Path(path, DATA_FILE)
    content = file.read_bytes()
    rng = random.Random(seed)
    refused = 0
    for _ in range(60):
        flipped = bytearray(content)
        flipped[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        file.write_bytes(flipped)
        refused += not _opens(path, expected)
    assert refused > 20


def test_a_page_that_was_never_written_is_refused_or_harmless(path: str, expected: list[LogEntry]) -> None:
    """A disk that acknowledged a write and lost it: an older page, or nothing, stands in its place."""
    file = Path(path, DATA_FILE)
    content = file.read_bytes()
    pages = len(content) // 4096
    refused = 0
    for page in range(2, pages):
        for replacement in (bytes(4096), content[4096 * (page - 1) : 4096 * page]):
            file.write_bytes(content[: 4096 * page] + replacement + content[4096 * (page + 1) :])
            refused += not _opens(path, expected)
    assert refused > pages
