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


@served
async def test_the_bound_on_bodies(api: Api) -> None:
    padded = b'{"name":"x"' + b" " * (BODY_BYTES - 12) + b"}"
    assert len(padded) == BODY_BYTES
    assert (await api.call("POST", "/scopes", padded)).status == 201
    for body in (padded + b" ", b"[" * (4 * BODY_BYTES)):
        reply = await api.call("POST", "/scopes", body)
        assert (reply.status, reply.code) == (400, "VALIDATION_FAILED")
        assert reply.error["message"] == "body exceeds 1048576 bytes"


@served
async def test_a_body_in_chunks_has_the_same_bound(api: Api) -> None:
    async def chunks(size: int) -> bytes:
        head = f"POST /v1/spaces/{api.space}/scopes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {api.key}\r\n"
        head += "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
        body = b'{"name":"x"' + b" " * (size - 12) + b"}"
        parts = [body[at : at + 50_000] for at in range(0, size, 50_000)]
        return await api.wire(
            head.encode() + b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
        )

    assert (await chunks(BODY_BYTES)).startswith(b"HTTP/1.1 201 ")
    answer = await chunks(BODY_BYTES + 1)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"body exceeds 1048576 bytes" in answer


@served
async def test_who_expects_to_be_asked_for_the_body_is_asked(api: Api) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", api.port)
    head = f"POST /v1/spaces/{api.space}/scopes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {api.key}\r\n"
    writer.write(f"{head}Content-Length: 2\r\nExpect: 100-continue\r\n\r\n".encode())
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(b"{}")
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 201 ")
    writer.close()
    await writer.wait_closed()


@served
async def test_who_expects_to_be_asked_for_too_much_is_told_at_once(api: Api) -> None:
    head = f"POST /v1/spaces/{api.space}/scopes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {api.key}\r\n"
    answer = await api.wire(f"{head}Content-Length: 9999999\r\nExpect: 100-continue\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"body exceeds 1048576 bytes" in answer


@served
async def test_idempotency_keys_have_a_bound(api: Api) -> None:
    run = await api.run()
    for key in ("x", "x" * 255, "é" * 100, "with space"):
        claim = {**CLAIM, "key": key, "scopeId": run}
        assert (await api.call("POST", "/claims", claim, idempotency_key=key)).status == 201, key
    for key in ("", "x" * 256):
        reply = await api.call("POST", "/claims", {**CLAIM, "scopeId": run}, idempotency_key=key)
        assert (reply.status, reply.code) == (400, "VALIDATION_FAILED"), key
        assert "Idempotency-Key" in reply.error["message"]


@served
async def test_an_idempotency_key_of_bytes_that_are_no_text(api: Api) -> None:
    request = f"POST /v1/spaces/{api.space}/scopes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {api.key}\r\n"
    answer = await api.wire(
        request.encode() + b"Idempotency-Key: \xff\xfe\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    )
    assert answer.startswith(b"HTTP/1.1 400 "), answer
    assert b"Idempotency-Key: must be UTF-8" in answer


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
