"""The archive has every entry once, over restarts and torn ends."""

from pathlib import Path

from cluster.archive import Archive, read_archive

ENTRIES = [(b"\x20entry %d" % index, index, 1 + index // 4) for index in range(1, 11)]


def kept(tmp_path: Path, first: int, last: int) -> None:
    archive = Archive(tmp_path, "n1")
    for command, index, term in ENTRIES[first - 1 : last]:
        archive.add(index, term, command)
    archive.close()


def test_a_restart_that_replays_goes_on_where_it_ends(tmp_path: Path) -> None:
    kept(tmp_path, 1, 6)
    kept(tmp_path, 1, 10)
    assert list(read_archive(tmp_path / "n1.log")) == ENTRIES


def test_a_torn_end_is_dropped_and_written_again(tmp_path: Path) -> None:
    kept(tmp_path, 1, 10)
    path = tmp_path / "n1.log"
    whole = path.read_bytes()
    for cut in range(1, 60):
        path.write_bytes(whole[:-cut])
        assert list(read_archive(path)) == ENTRIES[: len(list(read_archive(path)))]
        kept(tmp_path, 1, 10)
        assert path.read_bytes() == whole


def test_an_archive_that_was_never_written_is_empty(tmp_path: Path) -> None:
    assert list(read_archive(tmp_path / "n1.log")) == []
