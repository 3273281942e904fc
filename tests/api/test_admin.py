"""The operator's view of the cluster."""

from __future__ import annotations

from tests.api.served import Api, served


@served
async def test_members_with_what_is_known_of_them(api: Api) -> None:
    body = (await api.operate("GET", "/cluster")).body
    index = api.replica.machine.index
    assert (body["node"], body["leader"], body["leaderUrl"]) == ("n1", "n1", api.url)
    assert (body["clusterId"], body["featureLevel"], body["term"]) == ("cls_local", 1, 1)
    assert (body["commit"], body["applied"], body["last"]) == (index, index, index)
    assert body["members"] == [
        {
            "id": "n1",
            "url": api.url,
            "state": "leader",
            "match": index,
            "lag": 0,
            "connected": True,
            "counts": True,
            "certificateExpiresAt": "2026-01-01T00:00:00.000Z",
        },
        {
            "id": "n2",
            "url": None,
            "state": "unreachable",
            "match": index - 1,
            "lag": 1,
            "connected": False,
            "counts": None,
            "certificateExpiresAt": None,
        },
    ]


@served
async def test_it_is_told_without_a_leader_but_never_without_the_key(api: Api) -> None:
    assert (await api.operate("GET", "/cluster", key=api.key)).code == "FORBIDDEN"
    assert (await api.operate("GET", "/cluster", key=None)).code == "UNAUTHENTICATED"
    assert (await api.operate("GET", "/cluster", key="unknown")).code == "UNAUTHENTICATED"
    api.replica.led = False
    assert (await api.operate("GET", "/cluster"))["leader"] is None
