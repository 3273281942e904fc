"""Long polls outlive the leader, and a place in line does not outlive the one who stands in it."""

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from tests.integration.calls import NoAnswer, Reply
from tests.integration.cluster import Cluster, Node, Space
from tests.integration.waiting import eventually

WAIT_MS = 25_000
ME = {"holder": "h", "holderSession": "s", "leaseSeconds": 600}


def _ask(pool: ThreadPoolExecutor, space: Space, node: Node, method: str, path: str, body: Any = None) -> Future[Reply]:
    return pool.submit(space.call, node, method, path, body, within_seconds=WAIT_MS / 1000 + 10)


def test_polls_outlive_the_leader(cluster: Cluster, space: Space) -> None:
    leader = cluster.leader()
    first, second = (node for node in cluster.nodes if node is not leader)
    scope = space.do(leader, "PUT", "/runs/polls", {})["id"]
    once = space.do(leader, "POST", "/once/acquire", {**ME, "key": "work", "scopeId": scope})
    cursor = space.do(leader, "GET", "/watch?waitSeconds=0")["nextCursor"]
    with ThreadPoolExecutor() as pool:
        result = _ask(pool, space, first, "GET", f"/once?scopeId={scope}&key=work&waitMs={WAIT_MS}")
        events = _ask(pool, space, second, "GET", f"/watch?cursor={cursor}&types=once.completed&waitSeconds=25")
        eventually(lambda: _polls(first) == _polls(second) == 1, within_seconds=10, what="both nodes have a poll")
        leader.program.kill()
        leader = cluster.leader()
        assert not result.done()
        assert not events.done()
        done = {"key": "work", "scopeId": scope, "token": once["token"], "result": {"found": [1, 2]}}
        space.do(leader, "POST", "/once/complete", done)
        assert result.result(5).body["result"] == {"found": [1, 2]}
        assert [event["type"] for event in events.result(5).body["events"]] == ["once.completed"]


def test_a_line_outlives_the_leader_and_passes_over_the_dead(cluster: Cluster, space: Space) -> None:
    leader = cluster.leader()
    first, second = (node for node in cluster.nodes if node is not leader)
    scope = space.do(leader, "PUT", "/runs/lines", {})["id"]
    held = space.do(first, "POST", "/claims", {**ME, "key": "lock", "scopeId": scope})

    def wait_in_line(pool: ThreadPoolExecutor, node: Node, place: int) -> Future[Reply]:
        body = {**ME, "key": "lock", "scopeId": scope, "holder": f"place {place}", "waitMs": WAIT_MS}
        asked = _ask(pool, space, node, "POST", "/claims", body)

        def stands() -> bool:
            assert not asked.done(), asked.result()
            return bool(_waiting(space, first, scope) == place)

        eventually(stands, within_seconds=10, what=f"place {place} is taken")
        return asked

    with ThreadPoolExecutor() as pool:
        dies_with_the_leader = wait_in_line(pool, leader, 1)
        next_in_line = wait_in_line(pool, second, 2)
        last = wait_in_line(pool, first, 3)
        leader.program.kill()
        with pytest.raises(NoAnswer):
            dies_with_the_leader.result(5)
        leader = cluster.leader()
        space.do(leader, "POST", "/claims/lock/release", {"token": held["token"]})
        # The first place is nobody's any more: it passes on after 5 s at most, in lease time.
        granted = next_in_line.result(15)
        assert granted.status == 201, granted
        assert not last.done()
        assert _waiting(space, first, scope) == 1
        space.do(leader, "POST", "/claims/lock/release", {"token": granted.body["token"]})
        granted = last.result(5)
        assert granted.status == 201, granted
    holders = [
        event["payload"]["holder"]
        for event in space.do(second, "GET", "/events?limit=1000")["events"]
        if event["type"] == "claim.acquired"
    ]
    assert [holder for holder in holders if holder != "place 1"] == ["h", "place 2", "place 3"]


def _waiting(space: Space, node: Node, scope: str) -> int:
    (shown,) = space.do(node, "GET", f"/claims?scopeId={scope}&key=lock")["claims"]
    return int(shown["waiting"])


def _polls(node: Node) -> int:
    """How many long polls the node has, by its metrics."""
    for line in node.text("/metrics").splitlines():
        if line.startswith("runstate_long_polls "):
            return round(float(line.split()[1]))
    raise AssertionError("no runstate_long_polls in the metrics")
