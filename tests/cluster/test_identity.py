"""Whose directory this is, and what happens when it is not."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.failpoints import Failpoints
from cluster.identity import DataDirectory, DataDirectoryError, open_data_directory, read_genesis
from cluster.journal import Journal, JournalError, JournalIdentity
from cluster.journal_store import BEFORE_COMMIT
from statemachine.entry import encode_entry, encode_operation, genesis_entry

OTHERS = {"n2": 22, "n3": 33}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def directory(data: Path) -> Iterator[DataDirectory]:
    opened = open_data_directory(data, "n1")
    yield opened
    opened.close()


def _genesis(incarnation: int, cluster_id: str = "cluster-a") -> bytes:
    return genesis_entry(cluster_id, {"n1": incarnation, **OTHERS}, 1000, b"e" * 16)


def _begun(data: Path, node_id: str = "n1", cluster_id: str = "cluster-a") -> int:
    """Make a directory with a journal; returns its incarnation."""
    directory = open_data_directory(data, node_id)
    members = {"n1": 11, **OTHERS, node_id: directory.incarnation}
    directory.write_genesis(genesis_entry(cluster_id, members, 1000, b"e" * 16))
    directory.close()
    return directory.incarnation


def _refusal(data: Path, node_id: str = "n1") -> str:
    with pytest.raises(DataDirectoryError) as refused:
        open_data_directory(data, node_id)
    return str(refused.value)


# ------------------------------------------------------------------ a life


def test_a_new_directory_gets_an_incarnation_for_ever(data: Path) -> None:
    first = open_data_directory(data, "n1")
    assert 0 < first.incarnation < 2**63
    assert not first.has_journal
    assert first.cluster_id is None
    first.close()
    again = open_data_directory(data, "n1")
    assert again.incarnation == first.incarnation
    again.close()


def test_two_directories_have_different_incarnations(tmp_path: Path) -> None:
    made = [open_data_directory(tmp_path / str(number), "n1") for number in range(20)]
    assert len({directory.incarnation for directory in made}) == 20
    for directory in made:
        directory.close()


def test_genesis_begins_the_journal(directory: DataDirectory, data: Path) -> None:
    entry = _genesis(directory.incarnation)
    directory.write_genesis(entry)
    assert directory.has_journal
    assert directory.cluster_id == "cluster-a"
    journal = directory.open_journal()
    assert journal[:] == [(b"\x20" + entry, 1, 1)]
    assert journal.genesis == entry
    told = journal.identity
    assert (told.cluster_id, told.node_id, told.incarnation) == ("cluster-a", "n1", directory.incarnation)
    journal.close()
    directory.close()
    again = open_data_directory(data, "n1")
    assert again.has_journal
    assert again.cluster_id == "cluster-a"
    again.close()


def test_genesis_is_written_once(directory: DataDirectory) -> None:
    directory.write_genesis(_genesis(directory.incarnation))
    with pytest.raises(DataDirectoryError, match="has a journal of cluster cluster-a: it is left as it is"):
        directory.write_genesis(_genesis(directory.incarnation, "cluster-b"))


def test_a_genesis_that_does_not_list_this_incarnation_is_refused(directory: DataDirectory) -> None:
    with pytest.raises(ValueError, match=f"does not list n1 with its incarnation {directory.incarnation}"):
        directory.write_genesis(_genesis(directory.incarnation ^ 1))
    assert not directory.has_journal


def test_a_genesis_of_a_later_release_is_refused(directory: DataDirectory) -> None:
    arguments = {"clusterId": "c", "members": {"n1": directory.incarnation}, "featureLevel": 99}
    operation = encode_operation("cluster.genesis", "", b"", 0, None, json.dumps(arguments).encode())
    with pytest.raises(ValueError, match="feature level 99, n1 has 1"):
        directory.write_genesis(encode_entry(0, 0, b"", [operation], [("", 0, 0)]))


def test_a_lost_disk_joins_as_a_new_incarnation(directory: DataDirectory) -> None:
    with pytest.raises(ValueError, match="earlier incarnation"):
        directory.join(_genesis(directory.incarnation))
    with pytest.raises(ValueError, match="earlier incarnation"):
        directory.join(genesis_entry("cluster-a", OTHERS, 1000, b"e" * 16))
    directory.join(_genesis(5))
    assert directory.has_journal
    journal = directory.open_journal()
    assert journal.identity.incarnation == directory.incarnation
    assert journal.last_index == 1
    journal.close()


@pytest.mark.parametrize(
    "entry",
    [
        b"",
        b"garbage",
        encode_entry(0, 0, b"", [], []),
        encode_entry(0, 0, b"", [b"no operation"], [("", 0, 0)]),
        encode_entry(0, 0, b"", [encode_operation("spaces.create", "", b"", 0, None, b"{}")], [("", 0, 0)]),
        encode_entry(0, 0, b"", [encode_operation("cluster.genesis", "", b"", 0, None, b"{}")], [("", 0, 0)]),
        encode_entry(0, 0, b"", [encode_operation("cluster.genesis", "", b"", 0, None, b"{")], [("", 0, 0)]),
    ],
)
def test_what_is_no_genesis_is_refused(directory: DataDirectory, entry: bytes) -> None:
    with pytest.raises(ValueError, match="no genesis"):
        read_genesis(entry)
    with pytest.raises(ValueError, match="no genesis"):
        directory.write_genesis(entry)


# ------------------------------------------------------------------ one process a directory


def test_a_directory_in_use_names_the_process(directory: DataDirectory, data: Path) -> None:
    assert f"is in use by process {os.getpid()}: stop that one" in _refusal(data)
    directory.close()
    open_data_directory(data, "n1").close()


def test_the_lock_ends_with_its_process(data: Path) -> None:
    code = f"from cluster.identity import *; open_data_directory({str(data)!r}, 'n1'); print(1, flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "1\n"
        assert f"in use by process {holder.pid}" in _refusal(data)
        holder.kill()
        holder.wait()
    open_data_directory(data, "n1").close()


# ------------------------------------------------------------------ not this node's, or not whole


def test_another_nodes_directory_is_refused(data: Path) -> None:
    _begun(data, "n2")
    assert "belongs to node n2, this is n1: check `data` and `id`" in _refusal(data)


@pytest.mark.parametrize("gone", ["journal", "journal/data.mdb"])
def test_a_lost_journal_is_not_a_new_node(data: Path, gone: str) -> None:
    _begun(data)
    path = data / gone
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    refusal = _refusal(data)
    assert "was n1 of cluster cluster-a, but its journal is gone" in refusal
    assert "move what is left away, start with an empty directory and admit" in refusal


def test_an_emptied_journal_is_not_a_new_node(data: Path) -> None:
    _begun(data)
    (data / "journal" / "data.mdb").write_bytes(b"")
    assert "but its journal is gone" in _refusal(data)


def test_a_lost_identity_is_not_made_anew(data: Path) -> None:
    _begun(data)
    (data / "identity.json").unlink()
    assert "has a journal but no identity.json" in _refusal(data)
    assert not (data / "identity.json").exists()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format": 1}'])
def test_a_damaged_identity_is_refused(data: Path, content: bytes) -> None:
    _begun(data)
    (data / "identity.json").write_bytes(content)
    assert "identity.json is damaged" in _refusal(data)


def test_another_format_is_refused(data: Path) -> None:
    _begun(data)
    file = data / "identity.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "format": 2}))
    assert "has format 2, this release reads 1" in _refusal(data)


@pytest.mark.parametrize("other", [("n2", "cluster-a"), ("n1", "cluster-a"), ("n1", "cluster-b")])
def test_a_directory_pieced_together_from_two_is_refused(tmp_path: Path, data: Path, other: tuple[str, str]) -> None:
    _begun(data)
    _begun(tmp_path / "other", *other)
    shutil.rmtree(data / "journal")
    shutil.copytree(tmp_path / "other" / "journal", data / "journal")
    assert "was pieced together" in _refusal(data)


def test_a_foreign_journal_in_a_new_directory_is_refused(tmp_path: Path, data: Path) -> None:
    open_data_directory(data, "n1").close()
    _begun(tmp_path / "other")
    shutil.copytree(tmp_path / "other" / "journal", data / "journal")
    assert "was pieced together" in _refusal(data)


def test_damage_in_the_journal_is_told(data: Path) -> None:
    _begun(data)
    file = data / "journal" / "data.mdb"
    content = bytearray(file.read_bytes())
    for page in range(2, len(content) // 4096):
        content[page * 4096 + 100 : page * 4096 + 4096] = bytes(3996)
    file.write_bytes(content)
    assert "is damaged" in _refusal(data)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_without_permission_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert "may write" in _refusal(tmp_path / "data")


def test_a_file_in_its_place_is_told(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("no directory")
    assert "`data` must name a directory" in _refusal(tmp_path / "data")


# ------------------------------------------------------------------ crashes while it begins


def test_a_crash_before_the_journals_first_transaction_leaves_an_empty_node(data: Path) -> None:
    directory = open_data_directory(data, "n1")
    incarnation = directory.incarnation
    directory.close()
    entry = _genesis(incarnation)
    with pytest.raises(JournalError):
        Journal.create(
            str(data / "journal"),
            JournalIdentity("cluster-a", "n1", incarnation),
            entry,
            failpoints=Failpoints([f"{BEFORE_COMMIT}=fail"]),
        )
    again = open_data_directory(data, "n1")
    assert (again.has_journal, again.incarnation) == (False, incarnation)
    again.write_genesis(entry)
    assert again.has_journal
    again.close()


def test_a_crash_between_journal_and_identity_is_taken_up(data: Path) -> None:
    incarnation = _begun(data)
    file = data / "identity.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "clusterId": None}))
    again = open_data_directory(data, "n1")
    assert (again.cluster_id, again.incarnation) == ("cluster-a", incarnation)
    assert json.loads(file.read_text())["clusterId"] == "cluster-a"
    again.close()
