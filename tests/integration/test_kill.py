"""Killed in mid-write, it loses nothing: kill -9 of one node, of two, of all three, twenty times over, under load.

After each series the same proof: what clients saw fits together, all nodes have one state and one log, the log holds
every reply, a repeat gets the first answer through every node, and a spent token opens nothing.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.integration.cluster import Cluster, Node, Space
from tests.integration.judge import judge
from tests.integration.load.record import Request
from tests.integration.load.start import Load
from tests.integration.log import Replay, logs_agree

pytestmark = pytest.mark.timeout(240)

SAMPLES = 12
Choice = Callable[[Cluster, int], Sequence[Node]]


def leader(cluster: Cluster, number: int) -> Sequence[Node]:
    return [cluster.leader()]


def follower(cluster: Cluster, number: int) -> Sequence[Node]:
    return [cluster.followers()[number % 2]]


def leader_and_follower(cluster: Cluster, number: int) -> Sequence[Node]:
    return [cluster.leader(), cluster.followers()[number % 2]]


def followers(cluster: Cluster, number: int) -> Sequence[Node]:
    return cluster.followers()


def everybody(cluster: Cluster, number: int) -> Sequence[Node]:
    return cluster.nodes


@pytest.mark.parametrize(
    ("choices", "times"),
    [
        pytest.param([leader], 6, id="leader"),
        pytest.param([follower], 4, id="follower"),
        pytest.param([leader_and_follower, followers], 5, id="two"),
        pytest.param([everybody], 5, id="all"),
    ],
)
def test_nothing_acknowledged_is_lost(
    cluster: Cluster, space: Space, tmp_path: Path, choices: Sequence[Choice], times: int
) -> None:
    with Load(space, tmp_path / "load") as load:
        for number in range(times):
            load.wait_for_more(60)
            victims = choices[number % len(choices)](cluster, number)
            for node in victims:
                node.program.kill()
            if len(victims) == 1:
                load.wait_for_more(60)
            cluster.restart(victims)
        load.wait_for_more(60)
        requests = load.finish()
    prove(cluster, space, load.scope_id, requests)


def prove(cluster: Cluster, space: Space, scope_id: str, requests: list[Request]) -> None:
    """Everything that must be true now. Ends with the cluster stopped, since the last witness is the log on disk."""
    judge(requests)
    repeats_get_the_first_answer(cluster, space, requests)
    spent_tokens_open_nothing(cluster, space, requests)
    scopes_are_there_once(cluster, space, scope_id, requests)
    digests = cluster.digests()
    assert len(set(digests.values())) == 1, digests
    cluster.stop()
    replay = Replay(logs_agree(cluster))
    replay.holds_every_reply(requests)
    replay.holds_nothing_twice(requests)


def repeats_get_the_first_answer(cluster: Cluster, space: Space, requests: list[Request]) -> None:
    for kind in ("claim.acquire", "once.acquire", "scope.create"):
        recorded = [
            one
            for one in requests
            if one.kind == kind
            and one.key
            and one.succeeded
            and one.reply.get("state", "") in ("", "ACQUIRED", "ACTIVE")
        ]
        for one in spread(recorded):
            for node in cluster.nodes:
                again = space.call(node, one.method, one.path, one.body, idempotency_key=one.key)
                assert (again.status, again.body, again.replayed) == (one.status, one.reply, True), (one, again)
                assert again.index == (one.index, one.position), (one, again)


def spent_tokens_open_nothing(cluster: Cluster, space: Space, requests: list[Request]) -> None:
    owners = [one for one in requests if one.kind == "claim.acquire" and one.succeeded]
    for one in spread(owners):
        for node in cluster.nodes:
            token = {"token": one.reply["token"]}
            refused = space.call(node, "POST", f"/claims/{one.reply['key']}/renew", token)
            assert refused.code == "STALE_CLAIM", (one, refused)
            assert space.do(node, "POST", f"/claims/{one.reply['key']}/verify", token)["valid"] is False


def scopes_are_there_once(cluster: Cluster, space: Space, scope_id: str, requests: list[Request]) -> None:
    made = {one.reply["id"]: one.reply["name"] for one in requests if one.kind == "scope.create" and one.succeeded}
    unknown = {one.body["name"] for one in requests if one.kind == "scope.create" and not one.status and one.body}
    listed: dict[str, str] = {}
    cursor = ""
    while True:
        node = cluster.nodes[len(listed) % len(cluster.nodes)]
        page = space.do(node, "GET", f"/scopes?parentId={scope_id}&limit=1000{cursor}")
        listed.update({scope["id"]: scope["name"] for scope in page["scopes"]})
        if not page.get("nextCursor"):
            break
        cursor = f"&cursor={page['nextCursor']}"
    assert made.items() <= listed.items()
    assert len(set(listed.values())) == len(listed), "one name was made twice"
    assert {listed[extra] for extra in listed.keys() - made.keys()} <= unknown


def spread(requests: list[Request]) -> list[Request]:
    """Some of them, from the first to the last."""
    assert requests
    return requests[:: max(1, len(requests) // SAMPLES)]
