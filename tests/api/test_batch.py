"""Batches: many operations in one request, each by itself."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from statemachine.entry import decode_operation
from tests.api.served import Api, Reply, served
from tests.api.test_operations import held_for

CLAIM = {"holder": "h", "holderSession": "s"}


async def batch(api: Api, *items: dict[str, Any], **options: Any) -> Reply:
    return await api.call("POST", "/batch", {"operations": list(items)}, **options)


def acquire(run: str, key: str, **more: Any) -> dict[str, Any]:
    return {"method": "POST", "path": "/claims", "body": {**CLAIM, "key": key, "scopeId": run}, **more}


@served
async def test_each_operation_has_its_own_outcome_in_order(api: Api) -> None:
    run = await api.run()
    reply = await batch(
        api,
        acquire(run, "a"),
        acquire(run, "a"),
        {"method": "POST", "path": "/claims", "body": {}},
        {"method": "POST", "path": f"/v1/spaces/{api.space}/scopes", "body": None},
        {"method": "POST", "path": "/claims/a%2Fb/renew", "body": {"token": "t"}},
        {"method": "PUT", "path": "/runs/run"},
    )
    results = reply["results"]
    assert [result["status"] for result in results] == [201, 409, 400, 201, 409, 200]
    assert results[0]["body"]["key"] == "a"
    assert [result["body"].get("error", {}).get("code") for result in results[1:5]] == [
        "CLAIM_HELD",
        "VALIDATION_FAILED",
        None,
        "STALE_CLAIM",
    ]
    assert results[1]["body"]["error"]["requestId"] == reply.headers["X-Request-Id"]
    assert results[5]["body"]["id"] == run
    assert all(result["index"] > 0 for result in results)
    applied = [(result["index"], result["position"]) for result in results]
    assert reply.headers["X-Raft-Index"] == "{}/{}".format(*max(applied))


@served
async def test_operations_of_a_batch_share_an_entry(api: Api) -> None:
    run = await api.run()
    before = len(api.replica.entries)
    reply = await batch(api, *[acquire(run, f"k{n}") for n in range(256)])
    assert {result["status"] for result in reply["results"]} == {201}
    (entry,) = api.replica.entries[before:]
    keys = [decode_operation(data).arguments for data in entry]
    assert len(keys) == 256
    assert b'"key":"k0"' in keys[0]
    assert b'"key":"k255"' in keys[255]


@served
async def test_idempotency_keys_are_those_of_the_operations(api: Api) -> None:
    run = await api.run()
    one = await batch(api, acquire(run, "a", idempotencyKey="i"))
    two = await batch(api, acquire(run, "a", idempotencyKey="i"), acquire(run, "b", idempotencyKey="i"))
    first, again, other = one["results"] + two["results"]
    assert again == {**first, "replayed": True}
    assert other["body"]["error"]["code"] == "IDEMPOTENCY_CONFLICT"
    alone = await api.call(
        "POST", "/claims", b'{"holder": "h", "holderSession": "s", "key": "a", "scopeId": "%b"}' % run.encode(),
        idempotency_key="i",
    )  # fmt: skip
    assert alone.headers["Idempotency-Replayed"] == "true", "the same bytes at the same path are the same request"


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"method": "GET", "path": "/scopes"}, "no operation for a batch"),
        ({"method": "POST", "path": "/batch"}, "no operation for a batch"),
        ({"method": "POST", "path": "/nothing"}, "there is no path"),
        ({"method": "DELETE", "path": "/claims"}, "takes GET, POST"),
        ({"method": "POST", "path": "/scopes?x=1"}, "x: unknown query parameter"),
        ({"method": "POST", "path": "/claims/%zz/renew"}, "path: has a %"),
        ({"method": "POST", "path": "/scopes", "body": [1]}, "must be a JSON object"),
        ({"method": "POST", "path": "/scopes", "idempotencyKey": ""}, "Idempotency-Key: must have 1 to 255"),
        ({"method": "POST", "path": "/v1/spaces/spc_other/scopes"}, "there is no path"),
        ({"method": "GET", "path": "http://host/healthz"}, "there is no path"),
    ],
)
@served
async def test_what_is_no_operation_of_the_space_is_refused_by_itself(
    api: Api, item: dict[str, Any], message: str
) -> None:
    result, fine = (await batch(api, item, {"method": "POST", "path": "/scopes"}))["results"]
    assert result["status"] in (400, 404, 405)
    assert message in result["body"]["error"]["message"]
    assert fine["status"] == 201


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "operations: required"),
        (b"[]", "body: must be a JSON object"),
        (b'{"operations":1}', "operations: must be a list"),
        (b'{"operations":[1]}', "operations[0]: must be a JSON object"),
        (b'{"operations":[{"path":"/x"}]}', "operations[0].method: required"),
        (b'{"operations":[{"method":"POST","path":"/x","x":1}]}', "operations[0].x: unknown field"),
        (b'{"operations":[],"x":1}', "x: unknown field"),
        (b'{"operations":[' + b",".join([b'{"method":"POST","path":"/x"}'] * 257) + b"]}", "operations: must be"),
        (b'{"operations":[', "body: is not valid JSON"),
    ],
)
@served
async def test_a_batch_that_is_none_is_refused_as_a_whole(api: Api, body: bytes, message: str) -> None:
    reply = await api.call("POST", "/batch", body)
    assert (reply.status, reply.code) == (400, "VALIDATION_FAILED")
    assert message in reply.error["message"]
    assert (await api.call("POST", "/batch", body, key="unknown")).status == 401


@served
async def test_an_empty_batch_is_for_those_who_may_ask(api: Api) -> None:
    assert (await batch(api)).body == {"results": []}
    assert (await batch(api, key="unknown")).status == 401
    assert (await batch(api, key=await api.make_key(space=await api.make_space()))).status == 403


@served
async def test_permissions_are_those_of_each_operation(api: Api) -> None:
    reader = await api.make_key("read")
    (result,) = (await batch(api, {"method": "POST", "path": "/scopes"}, key=reader))["results"]
    assert (result["status"], result["body"]["error"]["code"]) == (403, "FORBIDDEN")
    (result,) = (await batch(api, {"method": "POST", "path": "/scopes"}, key="unknown"))["results"]
    assert (result["status"], result["body"]["error"]["code"]) == (401, "UNAUTHENTICATED")


@served
async def test_an_outcome_that_nobody_knows_ends_the_batch_unless_repeats_are_safe(api: Api) -> None:
    run = await api.run()
    api.replica.losing = True
    with held_for(pytest.MonkeyPatch(), 0.05):
        (result,) = (await batch(api, acquire(run, "a", idempotencyKey="i")))["results"]
        assert result["status"] == 503
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await batch(api, acquire(run, "b", idempotencyKey="j"), acquire(run, "c"))
