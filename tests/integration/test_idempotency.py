"""One idempotency key is one execution: in parallel through all nodes, and while the leader dies."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.integration.calls import Reply
from tests.integration.cluster import Cluster, Space

AT_ONCE = 48


@pytest.mark.parametrize("dies", [False, True], ids=["in peace", "while the leader dies"])
def test_the_same_key_at_once_through_all_nodes_is_one_execution(cluster: Cluster, space: Space, dies: bool) -> None:
    scope = space.do(cluster.nodes[0], "PUT", "/runs/keys", {})["id"]
    leader = cluster.leader()

    def repeat(number: int) -> Reply:
        places = [(number + step) % 3 for step in range(1000)]
        node = (cluster.nodes[place] for place in places)
        body = {"name": "made once", "parentId": scope}
        return space.until_it_works(lambda: space.call(next(node), "POST", "/scopes", body, idempotency_key="the key"))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        repeats = [pool.submit(repeat, number) for number in range(AT_ONCE)]
        if dies:
            leader.program.kill()
        replies = [reply.result() for reply in repeats]
    assert {reply.status for reply in replies} == {201}
    assert len({reply.body["id"] for reply in replies}) == 1
    assert len({reply.index for reply in replies}) == 1
    assert sum(not reply.replayed for reply in replies) <= 1
    if dies:
        cluster.restart([leader])
    for node in cluster.nodes:
        listed = space.do(node, "GET", f"/scopes?parentId={scope}")["scopes"]
        assert [one["name"] for one in listed] == ["made once"]


def test_another_request_under_a_used_key_is_refused_everywhere(cluster: Cluster, space: Space) -> None:
    made = space.call(cluster.nodes[0], "POST", "/scopes", {"name": "a"}, idempotency_key="k")
    assert made.status == 201, made
    for node in cluster.nodes:
        refused = space.call(node, "POST", "/scopes", {"name": "b"}, idempotency_key="k")
        assert refused.code == "IDEMPOTENCY_CONFLICT", refused
