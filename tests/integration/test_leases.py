"""Leases while the leader dies: what is renewed is kept, what is not lapses everywhere, and thousands stall nobody."""

from typing import Any

import pytest

from tests.integration.cluster import Cluster, Node, Space
from tests.integration.waiting import eventually

CLAIMS = 2_000
BATCH = 200
LEASE_SECONDS = 5


def _batch(space: Space, node: Node, operations: list[dict[str, Any]]) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = space.do(node, "POST", "/batch", {"operations": operations})["results"]
    assert {result["status"] for result in results} <= {200, 201}, results[:3]
    return [result["body"] for result in results]


def _acquire(scope: str, key: str) -> dict[str, Any]:
    body = {"key": key, "scopeId": scope, "holder": "h", "holderSession": "s", "leaseSeconds": LEASE_SECONDS}
    return {"method": "POST", "path": "/claims", "body": body}


@pytest.mark.timeout(120)
def test_thousands_lapse_and_the_renewed_are_kept_over_a_leaders_death(cluster: Cluster, space: Space) -> None:
    leader = cluster.leader()
    first, second = (node for node in cluster.nodes if node is not leader)
    scope = space.do(first, "PUT", "/runs/leases", {})["id"]
    kept = _batch(space, first, [_acquire(scope, f"kept-{number}") for number in range(BATCH)])
    renewals = [
        {"method": "POST", "path": f"/claims/{claim['key']}/renew", "body": {"token": claim["token"]}} for claim in kept
    ]
    for start in range(0, CLAIMS, BATCH):
        _batch(space, second, [_acquire(scope, f"lapses-{number}") for number in range(start, start + BATCH)])
        _batch(space, first, renewals)
    leader.program.kill()

    def only_the_kept_are_left() -> bool:
        # Renewals wait for the next leader, but not behind what lapses: one that waited too long would be refused.
        assert {one["generation"] for one in _batch(space, first, renewals)} == {1}
        left = space.do(second, "GET", f"/claims?scopeId={scope}&limit=1000")["claims"]
        return {claim["key"] for claim in left} == {claim["key"] for claim in kept}

    eventually(only_the_kept_are_left, within_seconds=40, what="the leases that nobody renews have lapsed")
    cluster.restart([leader])
    lapsed = 0
    cursor = ""
    while events := (page := space.do(leader, "GET", f"/events?limit=1000{cursor}"))["events"]:
        lapsed += sum(event["type"] == "claim.lapsed" for event in events)
        cursor = f"&cursor={page['nextCursor']}"
    assert lapsed == CLAIMS
    assert len(set(cluster.digests().values())) == 1
