"""The cluster's certificate authority: what it makes can be used at once, and nothing is ever replaced."""

import stat
import time
from pathlib import Path

import pytest

from cluster.authority import AUTHORITY_DAYS, Authority, AuthorityError
from cluster.certs import peer_contexts, prove


def test_what_it_signs_is_what_members_ask_for(tmp_path: Path) -> None:
    made = Authority(tmp_path / "certs")
    assert made.is_new
    paths = made.sign("node_1-a", days=10)
    assert [path.name for path in paths] == ["node_1-a.pem", "node_1-a.key"]
    proven = prove(*peer_contexts(made.certificate, *paths))
    assert proven.names == {"node_1-a"}
    assert proven.ends_at - time.time() == pytest.approx(10 * 86_400, abs=60)


def test_it_is_found_again_and_signs_on(tmp_path: Path) -> None:
    first = Authority(tmp_path)
    one = first.sign("n1", days=1)
    again = Authority(tmp_path)
    assert not again.is_new
    server, _ = peer_contexts(first.certificate, *one)
    _, client = peer_contexts(again.certificate, *again.sign("n2", days=1))
    assert prove(server, client).names == {"n1"}


def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "certs"
    Authority(folder).sign("n1", days=1)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_nothing_is_replaced(tmp_path: Path) -> None:
    made = Authority(tmp_path)
    made.sign("n1", days=1)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(AuthorityError, match=r"n1\.pem is there already, and no certificate or key is ever replaced"):
        made.sign("n1", days=1)
    (tmp_path / "n2.key").write_text("somebody's")
    with pytest.raises(AuthorityError, match=r"n2\.key is there already"):
        made.sign("n2", days=1)
    assert {path: path.read_bytes() for path in before} == before
    assert not (tmp_path / "n2.pem").exists()


def test_half_an_authority_is_left_as_it_is(tmp_path: Path) -> None:
    Authority(tmp_path)
    (tmp_path / "ca.pem").unlink()
    with pytest.raises(AuthorityError, match=r"cannot be used: .*No such file"):
        Authority(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["ca.key"]


def test_a_key_of_another_authority_is_told(tmp_path: Path) -> None:
    Authority(tmp_path / "a")
    Authority(tmp_path / "b")
    (tmp_path / "a" / "ca.key").write_bytes((tmp_path / "b" / "ca.key").read_bytes())
    with pytest.raises(AuthorityError, match=r"ca\.key is not the key of"):
        Authority(tmp_path / "a")


def test_no_certificate_outlives_its_authority(tmp_path: Path) -> None:
    made = Authority(tmp_path)
    ends_at = prove(*peer_contexts(made.certificate, *made.sign("n1", days=2 * AUTHORITY_DAYS))).ends_at
    assert ends_at <= time.time() + AUTHORITY_DAYS * 86_400


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(AuthorityError, match="cannot be used: "):
        Authority(tmp_path / "file" / "certs")
