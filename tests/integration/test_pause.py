"""A paused leader (SIGSTOP) that comes back: it serves nothing old, takes nothing by itself, ends nobody's lease."""

import contextlib
from concurrent.futures import ThreadPoolExecutor

from tests.integration.calls import NoAnswer, Reply
from tests.integration.cluster import Cluster, Node, Space
from tests.integration.waiting import eventually


def _acquire(space: Space, node: Node, scope: str, key: str, seconds: int = 60, **options: str) -> Reply:
    body = {"key": key, "scopeId": scope, "holder": node.id, "holderSession": "s", "leaseSeconds": seconds}
    return space.call(node, "POST", "/claims", body, **options)


def test_a_woken_leader_serves_no_stale_read_and_takes_no_write_alone(cluster: Cluster, space: Space) -> None:
    paused = cluster.leader()
    others = [node for node in cluster.nodes if node is not paused]
    scope = space.do(paused, "PUT", "/runs/pause", {})["id"]
    first = _acquire(space, paused, scope, "lock")
    assert first.status == 201, first

    paused.program.pause()
    with ThreadPoolExecutor(8) as pool:
        # These lie in the paused node's sockets before the others go on, and are what it finds first when it wakes.
        old_reads = [pool.submit(space.call, paused, "GET", f"/claims?scopeId={scope}&key=lock") for _ in range(4)]
        old_write = pool.submit(_acquire, space, paused, scope, "other", idempotency_key="from-before")
        leader = cluster.leader(among=others)
        released = space.do(leader, "POST", "/claims/lock/release", {"token": first.body["token"]})
        assert released == {"released": True}
        second = _acquire(space, leader, scope, "lock")
        assert second.status == 201, second
        paused.program.resume()
        for read in old_reads:
            # Whatever it says, it is not the state before the others' writes.
            with contextlib.suppress(*NoAnswer):
                reply = read.result()
                assert reply.status == 503 or [one["generation"] for one in reply.body["claims"]] == [2], reply
        with contextlib.suppress(*NoAnswer):
            reply = old_write.result()
            assert reply.status in (201, 503), reply
    cluster.wait_ready()
    # A repeat settles what became of the write: it was made once, whichever node answers.
    settled = [
        space.until_it_works(lambda node=node: _acquire(space, paused, scope, "other", idempotency_key="from-before"))
        for node in cluster.nodes
    ]
    assert {reply.status for reply in settled} == {201}
    assert {(reply.body["token"], reply.body["generation"]) for reply in settled} == {(settled[0].body["token"], 1)}
    for node in cluster.nodes:
        shown = space.do(node, "GET", f"/claims?scopeId={scope}&key=lock")
        assert [one["generation"] for one in shown["claims"]] == [2]
    assert len(set(cluster.digests().values())) == 1


def test_a_lease_renewed_through_a_follower_outlives_the_leaders_pause(cluster: Cluster, space: Space) -> None:
    paused = cluster.leader()
    others = [node for node in cluster.nodes if node is not paused]
    scope = space.do(paused, "PUT", "/runs/pause", {})["id"]
    held = _acquire(space, others[0], scope, "lock", seconds=3)
    assert held.status == 201, held
    token = {"token": held.body["token"]}
    paused.program.pause()
    for number in range(10):
        space.do(others[number % 2], "POST", "/claims/lock/renew", token)
    # Until the lease as it was first given is long over.
    lapsing = _acquire(space, others[0], scope, "lapses", seconds=6)
    assert lapsing.status == 201, lapsing

    def lapsed() -> bool:
        space.do(others[0], "POST", "/claims/lock/renew", token)
        (shown,) = space.do(others[1], "GET", f"/claims?scopeId={scope}&key=lapses")["claims"]
        return shown["state"] == "LAPSED"

    eventually(lapsed, within_seconds=20, what="the lease that nobody renews lapses")
    paused.program.resume()
    cluster.wait_ready()
    for node in cluster.nodes:
        renewed = space.do(node, "POST", "/claims/lock/renew", token)
        assert renewed["generation"] == held.body["generation"]
        assert space.call(node, "POST", "/claims/lapses/renew", {"token": lapsing.body["token"]}).code == "STALE_CLAIM"
