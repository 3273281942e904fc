"""What must be true after any series of faults, once the load has ended and all nodes are back.

What clients saw fits together; a repeat gets the first answer through every node; a spent token opens nothing; what was
made is there once; events are whole; all nodes have one state and one log; and that log holds every reply.
"""

from itertools import pairwise
from typing import Any

from tests.integration.cluster import Cluster, Node, Space
from tests.integration.judge import judge
from tests.integration.load.record import Request
from tests.integration.log import Replay, committed_log

SAMPLES = 12


def prove(cluster: Cluster, space: Space, scope_id: str, requests: list[Request]) -> None:
    """All of it. Ends with the cluster stopped, since the last witness is the log on disk."""
    judge(requests)
    repeats_get_the_first_answer(cluster, space, requests)
    spent_tokens_open_nothing(cluster, space, requests)
    scopes_are_there_once(cluster, space, scope_id, requests)
    events = events_are_the_same(cluster, space)
    watchers_missed_nothing(requests, events)
    digests = cluster.digests()
    assert len(set(digests.values())) == 1, digests
    cluster.stop()
    replay = Replay(committed_log(cluster))
    replay.holds_every_reply(requests)
    replay.holds_nothing_twice(requests)
    replay.has_an_event_for_every_owner(events)


def repeats_get_the_first_answer(cluster: Cluster, space: Space, requests: list[Request]) -> None:
    """Of operations whose answer is kept, through every node, with the index that decided then."""
    for kind in ("claim.acquire", "once.acquire", "scope.create"):
        kept = [one for one in requests if one.kind == kind and one.key and one.succeeded]
        for one in spread([one for one in kept if one.reply.get("state", "ACQUIRED") == "ACQUIRED"]):
            for node in cluster.nodes:
                again = space.call(node, one.method, one.path, one.body, idempotency_key=one.key)
                assert (again.status, again.body, again.replayed) == (one.status, one.reply, True), (one, again)
                assert again.index == (one.index, one.position), (one, again)


def spent_tokens_open_nothing(cluster: Cluster, space: Space, requests: list[Request]) -> None:
    """Every owner of the load has handed back, or its load has ended without a word and a later owner came."""
    owners = [one for one in requests if one.kind == "claim.acquire" and one.succeeded]
    for one in spread(owners):
        token, path = {"token": one.reply["token"]}, f"/claims/{one.reply['key']}"
        for node in cluster.nodes:
            refused = space.call(node, "POST", f"{path}/renew", token)
            assert refused.code == "STALE_CLAIM", (one, refused)
            assert space.do(node, "POST", f"{path}/verify", token) == {"valid": False}


def scopes_are_there_once(cluster: Cluster, space: Space, scope_id: str, requests: list[Request]) -> None:
    """Those that were acknowledged, and of those without an answer at most one each."""
    created = [one for one in requests if one.kind == "scope.create"]
    made = {one.reply["id"]: one.reply["name"] for one in created if one.succeeded}
    unknown = {one.body["name"] for one in created if not one.status and one.body}
    for node in cluster.nodes:
        listed = {one["id"]: one["name"] for one in _all(space, node, f"/scopes?parentId={scope_id}", "scopes")}
        assert made.items() <= listed.items()
        assert len(set(listed.values())) == len(listed), "one name was made twice"
        assert {listed[extra] for extra in listed.keys() - made.keys()} <= unknown


def events_are_the_same(cluster: Cluster, space: Space) -> list[dict[str, Any]]:
    """All retained events, which every node gives in the same order."""
    first, *others = (_all(space, node, "/events?", "events") for node in cluster.nodes)
    assert first
    assert all(other == first for other in others)
    assert all(earlier["eventId"] < later["eventId"] for earlier, later in pairwise(first))
    return first


def watchers_missed_nothing(requests: list[Request], events: list[dict[str, Any]]) -> None:
    """What each watcher got, page by page through changing nodes, is what happened meanwhile: all, once, in order."""
    pages: dict[str, list[Request]] = {}
    for one in requests:
        if one.kind == "watch" and one.succeeded:
            pages.setdefault(one.client, []).append(one)
    assert pages
    for client, seen in pages.items():
        ids = [event["eventId"] for page in seen[1:] for event in page.reply["events"]]
        start, end = seen[0].reply["nextCursor"], seen[-1].reply["nextCursor"]
        expected = [event["eventId"] for event in events if start < event["eventId"] <= end]
        assert ids == expected, (client, _difference(ids, expected))
        assert expected, f"{client} saw nothing: this proves nothing"


def _difference(ids: list[str], expected: list[str]) -> dict[str, list[str]]:
    return {"doubled or invented": sorted(set(ids) - set(expected)), "missed": sorted(set(expected) - set(ids))}


def _all(space: Space, node: Node, path: str, plural: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor = ""
    while True:
        page = space.do(node, "GET", f"{path}&limit=1000{cursor}")
        found += page[plural]
        if not page[plural] or not page["nextCursor"]:
            return found
        cursor = f"&cursor={page['nextCursor']}"


def spread(requests: list[Request]) -> list[Request]:
    """Some of them, from the first to the last."""
    assert requests
    return requests[:: max(1, len(requests) // SAMPLES)]
