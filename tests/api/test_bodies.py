"""Bodies of requests, up to their bound."""

from __future__ import annotations

import asyncio

import pytest

from api import bodies
from api.limits import BODY_BYTES
from tests.api.served import Api, served


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
async def test_a_body_that_does_not_come_is_not_waited_for(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "BODY_SECONDS", 0.05)
    head = f"POST /v1/spaces/{api.space}/scopes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {api.key}\r\n"
    answer = await api.wire(f"{head}Content-Length: 100\r\n\r\n{{".encode())
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"body: did not come within 0.05 s" in answer
