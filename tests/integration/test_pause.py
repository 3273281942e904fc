"""Paused nodes (SIGSTOP): a leader that comes back serves nothing old, takes nothing by itself and ends nobody's lease;
a leader whose followers are paused promises nothing."""

import contextlib
from collections.abc import Iterator
from typing import Any

from tests.integration.calls import NoAnswer, OpenConnection, Reply
from tests.integration.cluster import Cluster, Node, Space
from tests.integration.waiting import eventually

AT_ONCE = 8
# Longer than a leader without a majority believes in itself.
ALONE_SECONDS = 2.0


def _claim(scope: str, key: str, seconds: int = 60) -> dict[str, Any]:
    return {"key": key, "scopeId": scope, "holder": "h", "holderSession": "s", "leaseSeconds": seconds}


def _shown(space: Space, node: Node, scope: str, key: str) -> list[tuple[str, int]]:
    claims = space.do(node, "GET", f"/claims?scopeId={scope}&key={key}")["claims"]
    return [(claim["state"], claim["generation"]) for claim in claims]


@contextlib.contextmanager
def _connections(space: Space, node: Node, count: int, within_seconds: float) -> Iterator[list[OpenConnection]]:
    connections = [OpenConnection(node.url, space.key, within_seconds) for _ in range(count)]
    try:
        yield connections
    finally:
        for connection in connections:
            connection.close()


def _answers(connections: list[OpenConnection]) -> list[Reply]:
    """The answers of those that got one."""
    answers = []
    for connection in connections:
        with contextlib.suppress(*NoAnswer):
            answers.append(connection.answer())
    return answers


def test_a_woken_leader_serves_no_stale_read_and_takes_no_write_alone(cluster: Cluster, space: Space) -> None:
    paused = cluster.leader()
    others = [node for node in cluster.nodes if node is not paused]
    scope = space.do(paused, "PUT", "/runs/pause", {})["id"]
    first = space.do(paused, "POST", "/claims", _claim(scope, "lock"))
    with (
        _connections(space, paused, AT_ONCE, 12.0) as readers,
        _connections(space, paused, 1, 12.0) as writers,
    ):
        paused.program.pause()
        # These lie in the paused node's sockets, and are what it finds first when it wakes.
        for reader in readers:
            reader.send("GET", space.path(f"/claims?scopeId={scope}&key=lock"))
        writers[0].send("POST", space.path("/claims"), _claim(scope, "other"))
        leader = cluster.leader(among=others)
        space.do(leader, "POST", "/claims/lock/release", {"token": first["token"]})
        assert space.do(leader, "POST", "/claims", _claim(scope, "lock"))["generation"] == 2
        paused.program.resume()
        read, written = _answers(readers), _answers(writers)
    for reply in read:
        assert reply.status == 503 or [claim["generation"] for claim in reply.body["claims"]] == [2], reply
    cluster.wait_ready()
    assert {tuple(_shown(space, node, scope, "lock")) for node in cluster.nodes} == {(("HELD", 2),)}
    # Whatever became of the write, all nodes say the same, and an answer was no lie.
    others_shown = {tuple(_shown(space, node, scope, "other")) for node in cluster.nodes}
    assert len(others_shown) == 1
    for reply in written:
        assert (reply.status, others_shown) in ((201, {(("HELD", 1),)}), (503, {()})), (reply, others_shown)
    assert len(set(cluster.digests().values())) == 1


def test_a_leader_alone_acknowledges_nothing_and_answers_no_read(cluster: Cluster, space: Space) -> None:
    leader = cluster.leader()
    followers = [node for node in cluster.nodes if node is not leader]
    scope = space.do(leader, "PUT", "/runs/alone", {})["id"]
    with (
        _connections(space, leader, AT_ONCE, ALONE_SECONDS) as readers,
        _connections(space, leader, AT_ONCE, ALONE_SECONDS) as writers,
    ):
        for follower in followers:
            follower.program.pause()
        for number, writer in enumerate(writers):
            writer.send("POST", space.path("/claims"), _claim(scope, f"{number}"))
        for reader in readers:
            reader.send("GET", space.path(f"/scopes/{scope}"))
        assert not _answers(writers[:1] + readers[:1])
        assert not [connection for connection in writers + readers if connection.has_answer]
    for follower in followers:
        follower.program.resume()
    cluster.wait_ready()
    # What became of the writes nobody was told, but all nodes know the same.
    assert len({len(space.do(node, "GET", f"/claims?scopeId={scope}")["claims"]) for node in cluster.nodes}) == 1
    assert len(set(cluster.digests().values())) == 1


def test_a_lease_renewed_through_a_follower_outlives_the_leaders_pause(cluster: Cluster, space: Space) -> None:
    paused = cluster.leader()
    others = [node for node in cluster.nodes if node is not paused]
    scope = space.do(paused, "PUT", "/runs/pause", {})["id"]
    held = space.do(others[0], "POST", "/claims", _claim(scope, "lock", seconds=3))
    token = {"token": held["token"]}
    paused.program.pause()
    space.do(others[1], "POST", "/claims/lock/renew", token)
    # Its lease is longer: when it has lapsed, the one that is renewed would have been over twice.
    lapsing = space.do(others[0], "POST", "/claims", _claim(scope, "lapses", seconds=6))

    def lapsed() -> bool:
        space.do(others[0], "POST", "/claims/lock/renew", token)
        return _shown(space, others[1], scope, "lapses") == [("LAPSED", 1)]

    eventually(lapsed, within_seconds=20, what="the lease that nobody renews lapses")
    paused.program.resume()
    cluster.wait_ready()
    for node in cluster.nodes:
        assert space.do(node, "POST", "/claims/lock/renew", token)["generation"] == held["generation"]
        assert space.call(node, "POST", "/claims/lapses/renew", {"token": lapsing["token"]}).code == "STALE_CLAIM"
