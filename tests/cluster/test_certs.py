"""Certificates between members."""

import ssl
from pathlib import Path

import pytest

from cluster.certs import CertificateError, certified_names, check_context, peer_contexts
from tests.cluster.certificates import Authority


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


def _handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Both ends of a connection that never leaves memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname="whatever"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    shaken: set[int] = set()
    for _ in range(10):
        for number, end in enumerate(ends):
            try:
                end.do_handshake()
                shaken.add(number)
            except ssl.SSLWantReadError:
                pass
    assert len(shaken) == 2
    return ends[1], ends[0]


def test_each_end_knows_the_others_name(authority: Authority) -> None:
    server, _ = peer_contexts(authority.certificate, *authority.sign("n1"))
    _, client = peer_contexts(authority.certificate, *authority.sign("n2"))
    at_server, at_client = _handshake(server, client)
    assert certified_names(at_server) == {"n2"}
    assert certified_names(at_client) == {"n1"}
    assert at_server.version() == "TLSv1.3"


def test_another_authority_is_nobody(authority: Authority, tmp_path: Path) -> None:
    stranger = Authority(tmp_path)
    server, _ = peer_contexts(authority.certificate, *authority.sign("n1"))
    _, client = peer_contexts(stranger.certificate, *stranger.sign("n2"))
    with pytest.raises(ssl.SSLError):
        _handshake(server, client)


def test_contexts_of_ours_ask_for_certificates(authority: Authority) -> None:
    for context in peer_contexts(authority.certificate, *authority.sign("n1")):
        check_context(context)
    with pytest.raises(CertificateError):
        check_context(ssl.create_default_context(ssl.Purpose.CLIENT_AUTH))


def test_files_that_cannot_be_read_are_told(authority: Authority, tmp_path: Path) -> None:
    certificate, key = authority.sign("n1")
    with pytest.raises(OSError, match="No such file"):
        peer_contexts(tmp_path / "none.pem", certificate, key)
    with pytest.raises(ssl.SSLError):
        peer_contexts(authority.certificate, certificate, authority.sign("n2")[1])
