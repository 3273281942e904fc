"""Liveness and readiness."""

from __future__ import annotations

import os

from tests.api.served import Api, served


@served
async def test_a_node_that_serves_is_ready(api: Api) -> None:
    assert (await api.request("GET", "/healthz")).body == {"status": "ok", "node": "n1"}
    reply = await api.request("GET", "/readyz")
    index = api.replica.machine.index
    assert (reply.status, reply.body) == (
        200,
        {
            "node": "n1",
            "role": "leader",
            "leader": "n1",
            "leaderUrl": api.url,
            "term": 1,
            "applied": index,
            "commit": index,
            "leaderPid": os.getpid(),
        },
    )


@served
async def test_without_a_leader_it_lives_but_is_not_ready(api: Api) -> None:
    api.replica.led = False
    assert (await api.request("GET", "/healthz")).status == 200
    reply = await api.request("GET", "/readyz")
    assert (reply.status, reply.code) == (503, "UNAVAILABLE")
    assert reply.body["reason"] == "there is no leader"
    assert reply.body["leader"] is None
    assert float(reply.headers["Retry-After"]) > 0


@served
async def test_a_draining_node_is_not_ready(api: Api) -> None:
    api.replica.draining = True
    reply = await api.request("GET", "/readyz")
    assert (reply.status, reply.body["reason"]) == (503, "the node drains and stops soon")
