"""Certificates between members: what they say, and what is wrong with files that cannot be used."""

import ssl
import time
from pathlib import Path

import pytest

from cluster.certs import CertificateError, peer_contexts, prove
from tests.cluster.certificates import Authority


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


def test_each_end_knows_the_others_name(authority: Authority) -> None:
    server, _ = peer_contexts(authority.certificate, *authority.sign("n1"))
    _, client = peer_contexts(authority.certificate, *authority.sign("n2"))
    proven = prove(server, client)
    assert proven.names == {"n1"}
    assert 86_400 < proven.ends_at - time.time() < 3 * 86_400


def test_contexts_ask_for_certificates_and_for_the_newest_protocol(authority: Authority) -> None:
    for context in peer_contexts(authority.certificate, *authority.sign("n1")):
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert context.minimum_version is ssl.TLSVersion.TLSv1_3


def test_another_authority_is_nobody(authority: Authority, tmp_path: Path) -> None:
    stranger = Authority(tmp_path)
    ours = peer_contexts(authority.certificate, *authority.sign("n1"))
    theirs = peer_contexts(stranger.certificate, *stranger.sign("n2"))
    for server, client in ((ours[0], theirs[1]), (theirs[0], ours[1])):
        with pytest.raises(CertificateError, match=r"self-signed|issuer|signature"):
            prove(server, client)


def test_an_expired_certificate_is_told(authority: Authority) -> None:
    with pytest.raises(CertificateError, match="certificate has expired"):
        prove(*peer_contexts(authority.certificate, *authority.sign("n1", days=-1)))


def test_files_that_cannot_be_read_are_told(authority: Authority, tmp_path: Path) -> None:
    certificate, key = authority.sign("n1")
    empty = tmp_path / "empty"
    empty.touch()
    with pytest.raises(CertificateError, match=r"none\.pem is no certificate of an authority: No such file"):
        peer_contexts(tmp_path / "none.pem", certificate, key)
    with pytest.raises(CertificateError, match=r"empty is no certificate of an authority: no certificate"):
        peer_contexts(empty, certificate, key)
    with pytest.raises(CertificateError, match="do not belong together: key values mismatch"):
        peer_contexts(authority.certificate, certificate, authority.sign("n2")[1])
    with pytest.raises(CertificateError, match="do not belong together: No such file"):
        peer_contexts(authority.certificate, certificate, tmp_path / "none.key")
