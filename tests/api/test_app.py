"""A server from its start to its stop."""

from __future__ import annotations

import asyncio

from tests.api.served import Api, served


@served
async def test_claims_go_through(api: Api) -> None:
    run = await api.run()
    reply = await api.call(
        "POST", "/claims", {"key": "k", "scopeId": run, "holder": "h", "holderSession": "s", "leaseSeconds": 30}
    )
    assert reply.status == 201, reply
    assert reply["generation"] == 1
    index, position = reply.headers["X-Raft-Index"].split("/")
    assert (int(index), int(position)) == (api.replica.machine.index, 0)
    assert reply.headers["X-Raft-Leader"] == api.url
    assert reply.headers["Content-Type"] == "application/json"
    held = await api.call("POST", "/claims", {"key": "k", "scopeId": run, "holder": "h", "holderSession": "s"})
    assert (held.status, held.code) == (409, "CLAIM_HELD")
    assert held.error["details"]["holder"] == "h"
    assert 0.05 <= float(held.headers["Retry-After"]) <= 30
