"""Three real nodes that know each other by certificates: who is let in, and what happens when files are replaced."""

import shutil
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.certs import peer_contexts
from cluster.framing import FrameReader, encode_frame
from cluster.hello import PROTOCOL, REFUSED, PeerInfo, hello_frame
from tests.cluster.certificates import Authority
from tests.integration.blocks import HOST
from tests.integration.cluster import Cluster, Node, Space
from tests.integration.waiting import eventually


class Encrypted:
    """A cluster of three nodes with a folder of certificate files each."""

    def __init__(self, cluster: Cluster, authority: Authority) -> None:
        self.cluster, self.authority = cluster, authority
        for node in cluster.nodes:
            self.give(node, authority, *authority.sign(node.id))
            files = self.files(node)
            cluster.configure(node, tls_ca=str(files[0]), tls_certificate=str(files[1]), tls_key=str(files[2]))
        cluster.start()
        self.space = cluster.space()

    @staticmethod
    def files(node: Node) -> tuple[Path, Path, Path]:
        folder = node.config_path.parent
        return folder / "ca.pem", folder / "node.pem", folder / "node.key"

    def give(self, node: Node, authority: Authority, *signed: Path) -> None:
        for source, target in zip((authority.certificate, *signed), self.files(node), strict=True):
            shutil.copy(source, target)

    def works(self, node: Node, name: str) -> None:
        assert Space.do(self.space, node, "PUT", f"/runs/{name}", {})

    def peer_address(self, node: Node) -> tuple[str, int]:
        return HOST, int(self.cluster._peers[node.id].rsplit(":", 1)[1])


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encrypted]:
    folder = tmp_path_factory.mktemp("tls")
    with Cluster(folder / "cluster") as cluster:
        yield Encrypted(cluster, Authority(folder / "authority"))


def says(node: Node, text: str, within_seconds: float = 20) -> None:
    eventually(lambda: text in node.program.said(), within_seconds=within_seconds, what=node.program.last_words)


def greet(encrypted: Encrypted, node: Node, context: ssl.SSLContext | None, said: bytes) -> bytes:
    """What the node's peer port answers until it closes."""
    connection = socket.create_connection(encrypted.peer_address(node), timeout=20)
    if context is not None:
        connection = context.wrap_socket(connection)
    received = b""
    with connection:
        try:
            connection.sendall(said)
            while chunk := connection.recv(65536):
                received += chunk
        except (ConnectionResetError, BrokenPipeError, ssl.SSLError):
            pass
        return received


def hello_of(node_id: str) -> bytes:
    return encode_frame(hello_frame(PeerInfo(PROTOCOL, "guessed", node_id, 1, 1, 1, "http://x", None)))


def test_they_are_a_cluster(encrypted: Encrypted) -> None:
    for node in encrypted.cluster.nodes:
        encrypted.works(node, f"through-{node.id}")


def test_who_has_no_certificate_is_not_answered(encrypted: Encrypted) -> None:
    node = encrypted.cluster.nodes[0]
    assert FrameReader(1 << 20).feed(_without_alert(greet(encrypted, node, None, hello_of("n2")))) == []
    stranger = ssl.create_default_context(cafile=str(encrypted.authority.certificate))
    stranger.check_hostname = False
    assert greet(encrypted, node, stranger, hello_of("n2")) == b""
    encrypted.works(node, "after-strangers")


def _without_alert(received: bytes) -> bytes:
    """What plain TCP hears of a TLS server may be an alert of TLS (its first byte is 21), and nothing of ours."""
    return b"" if received[:1] == b"\x15" else received


def test_a_certificate_speaks_for_its_own_node_alone(encrypted: Encrypted) -> None:
    one, two, _ = encrypted.cluster.nodes
    _, context = peer_contexts(*encrypted.files(two))
    cluster_id = one.operate("GET", "/cluster").body["clusterId"]
    hello = hello_frame(PeerInfo(PROTOCOL, cluster_id, "n3", 1, 1, 1, "http://x", None))
    (answer,) = FrameReader(1 << 20).feed(greet(encrypted, one, context, encode_frame(hello)))
    assert answer == [REFUSED, "it calls itself n3, but its certificate speaks for n2"]


def test_another_authority_lets_nobody_in(encrypted: Encrypted, tmp_path: Path) -> None:
    """Files that fit each other, so that the node starts; but none of the others trusts them."""
    three = encrypted.cluster.node("n3")
    three.program.terminate()
    stranger = Authority(tmp_path / "another")
    encrypted.give(three, stranger, *stranger.sign("n3"))
    three.start()
    says(three, "no connection with n1: cannot be reached at")
    assert "certificate verify failed" in three.program.said()
    encrypted.works(encrypted.cluster.nodes[0], "without-n3")
    assert not three.ready
    three.program.terminate()
    encrypted.give(three, encrypted.authority, *encrypted.authority.sign("n3"))
    encrypted.cluster.restart([three])


@pytest.mark.parametrize("wrong", ["name", "expired"])
def test_a_node_does_not_start_with_what_others_would_refuse(encrypted: Encrypted, wrong: str) -> None:
    three = encrypted.cluster.node("n3")
    three.program.terminate()
    signed = encrypted.authority.sign("n2") if wrong == "name" else encrypted.authority.sign("n3", days=-1)
    encrypted.give(three, encrypted.authority, *signed)
    three.start()
    assert three.program.wait(20) == 70
    last = three.program.said().splitlines()[-1]
    assert "CRITICAL runstate.node: this node cannot start: " in last
    expected = "speaks for n2, but this node is n3: give it its own" if wrong == "name" else "certificate has expired"
    assert expected in last
    encrypted.give(three, encrypted.authority, *encrypted.authority.sign("n3"))
    encrypted.cluster.restart([three])


def test_replaced_files_are_used_without_a_restart(encrypted: Encrypted, tmp_path: Path) -> None:
    """A new authority as well. Connections that exist go on; a node that starts anew is greeted with the new files."""
    cluster = encrypted.cluster
    pids = {node.id: node.program.pid for node in cluster.nodes}
    encrypted.authority = Authority(tmp_path / "second")
    for node in cluster.nodes:
        encrypted.give(node, encrypted.authority, *encrypted.authority.sign(node.id, days=40))
    for node in cluster.nodes:
        says(node, "new certificates are in use; this node's ends on ")
    assert {node.id: node.program.pid for node in cluster.nodes} == pids
    encrypted.works(cluster.nodes[0], "after-the-replacement")
    for node in cluster.nodes:
        node.program.kill()
        cluster.restart([node])
    encrypted.works(cluster.nodes[1], "after-new-connections")


def test_files_that_cannot_be_used_change_nothing(encrypted: Encrypted) -> None:
    cluster = encrypted.cluster
    two = cluster.node("n2")
    _, _, key = encrypted.files(two)
    right = key.read_bytes()
    key.write_text("half a file")
    says(two, "the new certificates are not used, the old ones stay: ")
    three = cluster.node("n3")
    three.program.kill()
    cluster.restart([three])
    encrypted.works(two, "with-the-old-ones")
    key.write_bytes(right)
