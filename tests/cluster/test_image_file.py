"""The file of an image: what is durable when, what a damaged one says, and that nothing is traded for speed."""

from __future__ import annotations

import random
from pathlib import Path

import lmdb
import pytest

from cluster.image_file import DATA_FILE, LmdbFile
from cluster.image_records import META_KEY, ImageError


def fill(file: LmdbFile, count: int = 400, size: int = 300) -> None:
    with file.transaction() as transaction:
        transaction.replace(META_KEY, b"about it")
        for number in range(count):
            assert transaction.replace(b"t\x00%05d" % number, b"v" * size) is None


def test_a_transaction_is_there_when_the_file_is_opened_again(tmp_path: Path) -> None:
    file = LmdbFile(str(tmp_path))
    fill(file)
    with file.transaction() as transaction:
        assert transaction.replace(b"t\x0000007", b"new") == b"v" * 300
        assert transaction.pop(b"t\x0000008") == b"v" * 300
        assert transaction.pop(b"t\x0000008") is None
    file.close()
    file = LmdbFile(str(tmp_path))
    snapshot = file.snapshot()
    records = dict(snapshot.after(None, 1 << 30))
    assert snapshot.meta() == b"about it"
    assert META_KEY not in records
    assert len(records) == 399
    assert records[b"t\x0000007"] == b"new"
    snapshot.close()
    file.close()


def test_a_transaction_that_raises_leaves_nothing(tmp_path: Path) -> None:
    file = LmdbFile(str(tmp_path))

    def fail() -> None:
        with file.transaction() as transaction:
            transaction.replace(b"t\x00a", b"v")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    snapshot = file.snapshot()
    assert snapshot.after(None, 1000) == []
    assert snapshot.meta() is None
    snapshot.close()
    file.close()


def test_a_draft_is_there_once_it_was_flushed(tmp_path: Path) -> None:
    draft = LmdbFile(str(tmp_path), draft=True)
    fill(draft)
    draft.flush()
    draft.close()
    file = LmdbFile(str(tmp_path))
    snapshot = file.snapshot()
    assert len(snapshot.after(None, 1 << 30)) == 400
    snapshot.close()
    file.close()


def test_it_is_opened_with_the_flags_that_keep_promises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = lmdb.open
    monkeypatch.setattr(lmdb, "open", lambda path, **options: real(path, **{**options, "metasync": False}))
    with pytest.raises(ImageError, match="would lose writes"):
        LmdbFile(str(tmp_path))


def test_a_full_map_is_told_apart(tmp_path: Path) -> None:
    file = LmdbFile(str(tmp_path), map_size_bytes=64 << 10)
    with pytest.raises(ImageError, match="greatest size"):
        fill(file, 1000)
    file.close()


@pytest.mark.parametrize("cut", [0.3, 0.8])
def test_a_file_that_was_cut_short_is_refused(tmp_path: Path, cut: float) -> None:
    file = LmdbFile(str(tmp_path))
    fill(file)
    file.close()
    data = (tmp_path / DATA_FILE).read_bytes()
    (tmp_path / DATA_FILE).write_bytes(data[: int(len(data) * cut) // 4096 * 4096])
    with pytest.raises(ImageError, match="is damaged"):
        LmdbFile(str(tmp_path))


def test_a_file_that_is_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / DATA_FILE).write_bytes(b"\x00" * 20_000)
    with pytest.raises(ImageError, match="is damaged"):
        LmdbFile(str(tmp_path))


@pytest.mark.parametrize("seed", range(30))
def test_a_flipped_bit_is_refused_or_seen_in_the_records_or_harmless(tmp_path: Path, seed: int) -> None:
    file = LmdbFile(str(tmp_path))
    fill(file)
    snapshot = file.snapshot()
    whole = snapshot.after(None, 1 << 30)
    snapshot.close()
    file.close()
    rng = random.Random(seed)
    data = bytearray((tmp_path / DATA_FILE).read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    (tmp_path / DATA_FILE).write_bytes(data)
    try:
        file = LmdbFile(str(tmp_path))
    except ImageError as error:
        assert "is damaged" in str(error)  # noqa: PT017
        return
    snapshot = file.snapshot()
    found = snapshot.after(None, 1 << 30)
    changed = [one for one, other in zip(whole, found, strict=False) if one != other]
    assert len(found) in (len(whole), 0) or changed
    assert len(changed) <= 1 or len(found) != len(whole)
    snapshot.close()
    file.close()
