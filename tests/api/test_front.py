"""Every request through the front: headers out, envelopes, whatever is wrong with the request."""

from __future__ import annotations

import asyncio
import logging
import re

import pytest

from api.call import Call
from api.limits import BODY_BYTES
from api.own import OwnEndpoint
from tests.api.served import OPERATOR_KEY, Api, served, serving

CLAIM = {"key": "k", "holder": "h", "holderSession": "s"}


@served
async def test_every_answer_says_where_it_comes_from(api: Api) -> None:
    run = await api.run()
    ids = set()
    for reply in (
        await api.call("GET", f"/scopes/{run}"),
        await api.call("GET", "/scopes/none"),
        await api.call("POST", "/claims", {**CLAIM, "scopeId": run}),
        await api.call("POST", "/claims", {}),
        await api.call("GET", "/nowhere"),
        await api.call("GET", "/scopes", key="unknown"),
    ):
        ids.add(reply.headers["X-Request-Id"])
        assert reply.headers["X-Raft-Leader"] == api.url
        assert re.fullmatch(r"\d+/\d+", reply.headers["X-Raft-Index"])
        assert int(reply.headers["X-Raft-Index"].partition("/")[0]) <= api.replica.machine.index
        assert reply.headers["Content-Type"] == "application/json"
        assert int(reply.headers["Content-Length"]) == len(reply.content)
        assert reply.code == "" or reply.error
    assert len(ids) == 6


@served
async def test_without_a_leader_there_is_none_to_name(api: Api) -> None:
    api.replica.led = False
    await asyncio.sleep(0.11)  # what a response says of the leader is looked up ten times a second
    reply = await api.request("GET", "/healthz")
    assert "X-Raft-Leader" not in reply.headers


@served
async def test_the_order_of_checks(api: Api) -> None:
    """Key and space, then permission, then validation: each fault hides those behind it."""
    other = await api.make_space()
    reader = await api.make_key("read")
    bad = {"key": 1}
    cases = [
        (await api.call("POST", "/claims", bad, key=None), 401, "UNAUTHENTICATED"),
        (await api.call("POST", "/claims", bad, key="unknown"), 401, "UNAUTHENTICATED"),
        (await api.call("POST", "/claims", bad, key=OPERATOR_KEY), 401, "UNAUTHENTICATED"),
        (await api.request("POST", f"/v1/spaces/{other}/claims", bad, key=api.key), 403, "FORBIDDEN"),
        (await api.request("POST", "/v1/spaces/none/claims", bad, key=api.key), 403, "FORBIDDEN"),
        (await api.call("POST", "/claims", bad, key=reader), 403, "FORBIDDEN"),
        (await api.call("POST", "/claims", bad), 400, "VALIDATION_FAILED"),
        (await api.call("GET", "/scopes?limit=0", key="unknown"), 401, "UNAUTHENTICATED"),
        (await api.request("GET", f"/v1/spaces/{other}/scopes?limit=0", key=api.key), 403, "FORBIDDEN"),
        (await api.call("GET", "/scopes?limit=0"), 400, "VALIDATION_FAILED"),
        (await api.call("POST", "/claims", b"x" * (BODY_BYTES + 1), key="unknown"), 401, "UNAUTHENTICATED"),
        (await api.call("POST", "/claims/%zz/renew", {}, key="unknown"), 401, "UNAUTHENTICATED"),
    ]
    for reply, status, code in cases:
        assert (reply.status, reply.code) == (status, code), reply
    assert cases[0][0].headers["WWW-Authenticate"] == "Bearer"


@served
async def test_nobody_fills_the_log_without_a_key(api: Api) -> None:
    index = api.replica.machine.index
    for key in ("unknown", OPERATOR_KEY, api.space):
        assert (await api.call("POST", "/claims", {**CLAIM, "scopeId": "x"}, key=key)).status == 401
    assert (await api.operate("POST", "/spaces", {"name": "x"}, key=api.key)).status == 403
    assert (await api.operate("POST", "/spaces", {"name": "x"}, key="unknown")).status == 401
    assert api.replica.machine.index == index


@served
async def test_a_key_that_was_revoked_is_gone_at_once(api: Api) -> None:
    key = await api.make_key("work")
    keys = await api.operate("GET", f"/spaces/{api.space}/keys")
    (key_id,) = [k["id"] for k in keys["keys"] if k["permissions"] == ["work"]]
    assert (await api.call("GET", "/scopes", key=key)).status == 200
    assert (await api.operate("DELETE", f"/spaces/{api.space}/keys/{key_id}")).status == 200
    assert (await api.call("GET", "/scopes", key=key)).status == 401
    assert (await api.call("PUT", "/runs/x", {}, key=key)).status == 401


@served
async def test_a_suspended_space_says_so(api: Api) -> None:
    await api.operate("PATCH", f"/spaces/{api.space}", {"suspended": True})
    for reply in (
        await api.call("GET", "/scopes"),
        await api.call("POST", "/scopes", {}),
        await api.call("POST", "/scopes", {"name": 1}),
        await api.call("GET", "/nowhere"),
    ):
        assert (reply.status, reply.code) == (403, "SPACE_SUSPENDED")


@served
async def test_names_go_through_the_path_in_any_spelling(api: Api) -> None:
    for spelled, name in (
        ("a%2Fb%3Ac", "a/b:c"),
        ("a+b", "a+b"),
        ("a%2Bb%20c", "a+b c"),
        ("caf%C3%A9%F0%9F%90%8C", "café🐌"),
        ("%25%2e%2E", "%.."),
        ("~!$&'()*,;=@", "~!$&'()*,;=@"),
        ("x" * 256, "x" * 256),
        ("%F0%9F%90%8C" * 256, "🐌" * 256),
    ):
        made = await api.call("PUT", f"/runs/{spelled}", {})
        assert (made.status, made["name"]) == (201, name), spelled
        assert (await api.call("PUT", f"/runs/{spelled}"))["id"] == made["id"]
    for spelled in ("", ".", "%2e%2E", "%00", "a%00", "x" * 257, "%ff", "%", "%ED%A0%80"):
        reply = await api.call("PUT", f"/runs/{spelled}", {})
        assert (reply.status, reply.code) == (400, "VALIDATION_FAILED"), spelled


@served
async def test_head_is_get_without_a_body(api: Api) -> None:
    reply = await api.call("HEAD", "/scopes")
    assert (reply.status, reply.content) == (200, b"")
    assert int(reply.headers["Content-Length"]) > 0
    assert (await api.call("HEAD", "/scopes/none")).status == 404


@served
async def test_a_body_may_be_absent_empty_or_an_object(api: Api) -> None:
    for body in (b"", b"{}", b" {\n} "):
        assert (await api.call("POST", "/scopes", body)).status == 201
    for body in (b"[]", b"null", b'"x"', b"1", b"{", b"{}{}", b"\xef\xbb\xbf{}", b"\xff", b"{'a':1}", b"[" * 200_000):
        reply = await api.call("POST", "/scopes", body)
        assert (reply.status, reply.code) == (400, "VALIDATION_FAILED"), body
        assert reply.error["message"].startswith("body: "), reply


async def _broken(_: Call) -> None:
    raise RuntimeError("as every defect")


def test_a_defect_is_told_in_the_envelope_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with serving() as api:
            endpoint = OwnEndpoint("broken", "GET", "/healthz", None, "It fails.", _broken)  # type: ignore[arg-type]
            api.server.front._router._root.literals["healthz"].methods["GET"] = endpoint
            reply = await api.request("GET", "/healthz")
            assert (reply.status, reply.code) == (500, "INTERNAL")
            assert "RuntimeError" in reply.error["message"]
            assert "as every defect" not in reply.error["message"]

    with caplog.at_level(logging.ERROR, "runstate.http"):
        asyncio.run(scenario())
    assert "as every defect" in caplog.text
