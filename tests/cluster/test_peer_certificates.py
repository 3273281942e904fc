"""A node's certificate while it runs: what is refused, and how replaced files are taken up."""

import os
import shutil
from pathlib import Path

import pytest

from cluster.certs import CertificateError, prove
from cluster.config import NodeConfig
from cluster.peer_certificates import PeerCertificates, certificates_of
from tests.cluster.certificates import Authority


class Files:
    """The three files that a node of this name was told to use."""

    def __init__(self, folder: Path, authority: Authority, name: str = "n1") -> None:
        self.authority, self.name = authority, name
        self.ca, self.certificate, self.key = (folder / name for name in ("ca.pem", "node.pem", "node.key"))
        shutil.copy(authority.certificate, self.ca)
        self.put(*authority.sign(name))

    def put(self, certificate: Path | None = None, key: Path | None = None) -> None:
        """Replace them as an operator does: one after the other, by a rename."""
        for source, target in ((certificate, self.certificate), (key, self.key)):
            if source is not None:
                shutil.copy(source, target.with_suffix(".new"))
                os.replace(target.with_suffix(".new"), target)

    def read(self) -> PeerCertificates:
        return PeerCertificates(self.name, self.ca, self.certificate, self.key)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


@pytest.fixture
def files(tmp_path: Path, authority: Authority) -> Files:
    return Files(tmp_path, authority)


def test_a_certificate_of_another_node_is_refused(files: Files, authority: Authority) -> None:
    files.put(*authority.sign("n2"))
    with pytest.raises(CertificateError, match=r"node\.pem speaks for n2, but this node is n1: give it its own"):
        files.read()


@pytest.mark.parametrize("days", [-1, 2])
def test_one_that_others_would_not_accept_is_refused(files: Files, tmp_path: Path, days: int) -> None:
    """Expired, or of another authority: this node says so before the others do."""
    signing = files.authority if days < 0 else Authority(tmp_path / "another")
    files.put(*signing.sign("n1", days))
    reason = "certificate has expired" if days < 0 else "self-signed|issuer|signature"
    with pytest.raises(CertificateError, match=rf"would not be accepted .*({reason}).*`runstate certs n1`"):
        files.read()


def test_replaced_files_are_taken_up(files: Files, authority: Authority) -> None:
    used = files.read()
    before, ends_at = used.server, used.ends_at
    assert not used.look()
    files.put(*authority.sign("n1", days=40))
    assert used.look()
    assert used.server is not before
    assert used.ends_at > ends_at
    assert prove(used.server, used.client).ends_at == used.ends_at
    assert not used.look()


def test_between_two_files_nothing_is_complained_of(
    files: Files, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    used = files.read()
    certificate, key = authority.sign("n1", days=40)
    files.put(certificate=certificate)
    assert not used.look()
    assert caplog.text == ""
    files.put(key=key)
    assert used.look()


def test_files_that_cannot_be_used_change_nothing_and_are_told_once(
    files: Files, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    used = files.read()
    before = used.server
    files.put(certificate=authority.sign("n1")[0])
    for _ in range(5):
        assert not used.look()
    files.key.unlink()
    for _ in range(5):
        assert not used.look()
    assert used.server is before
    told = [record.message for record in caplog.records]
    assert len(told) == 2
    assert "key values mismatch" in told[0]
    assert "No such file" in told[1]
    files.put(*authority.sign("n1"))
    assert used.look()


def test_another_authority_takes_the_place_of_the_first(files: Files, tmp_path: Path) -> None:
    """Not beside it: whom the first one signed is nobody from then on."""
    used = files.read()
    another = Authority(tmp_path / "another")
    shutil.copy(another.certificate, files.ca)
    assert not used.look()
    old_client = used.client
    files.put(*another.sign("n1"))
    assert used.look()
    with pytest.raises(CertificateError):
        prove(used.server, old_client)


def test_a_link_that_is_turned_is_a_change(files: Files, tmp_path: Path, authority: Authority) -> None:
    """As secrets are replaced in Kubernetes: the file's name leads through a link to a folder."""
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
        for source, name in zip(authority.sign("n1"), ("node.pem", "node.key"), strict=True):
            shutil.copy(source, folder / name)
    current = tmp_path / "current"
    current.symlink_to(folders[0])
    used = PeerCertificates("n1", files.ca, current / "node.pem", current / "node.key")
    turned = tmp_path / "turned"
    turned.symlink_to(folders[1])
    os.replace(turned, current)
    assert used.look()


def test_the_configuration_names_them(files: Files, tmp_path: Path) -> None:
    plain = NodeConfig(id="n1", listen="127.0.0.1:1", peers={"n1": "127.0.0.1:2"}, data=tmp_path)
    assert certificates_of(plain) is None
    encrypted = NodeConfig(
        id="n1",
        listen="127.0.0.1:1",
        peers={"n1": "127.0.0.1:2"},
        data=tmp_path,
        tls_ca=files.ca,
        tls_certificate=files.certificate,
        tls_key=files.key,
    )
    assert certificates_of(encrypted) is not None
