"""Connections: what is no HTTP, who has gone, how many there may be."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from api import limits
from tests.api.served import Api, served


def envelope(answer: bytes) -> dict[str, str]:
    head, _, body = answer.partition(b"\r\n\r\n")
    error: dict[str, str] = json.loads(body)["error"]
    assert b"X-Request-Id: %b" % error["requestId"].encode() in head
    assert b"Connection: close" in head
    assert b"Content-Type: application/json" in head
    return error


@pytest.mark.parametrize(
    "request_",
    [
        b"GARBAGE\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nA\x00: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: odd\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n" + b"".join(b"H%d: x\r\n" % i for i in range(limits.HEADERS + 10)) + b"\r\n",
        b"GET /" + b"a" * (limits.LINE_BYTES + 10) + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
    ids=range(14),
)
@served
async def test_what_is_no_http_is_answered_in_the_envelope(api: Api, request_: bytes) -> None:
    answer = await api.wire(request_)
    assert answer.startswith(b"HTTP/1.1 400 "), answer
    assert envelope(answer)["code"] == "VALIDATION_FAILED"


@served
async def test_a_header_that_is_too_long_is_not_echoed(api: Api) -> None:
    secret = b"rsk_" + b"s" * limits.HEADER_BYTES
    answer = await api.wire(b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + secret + b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"rsk_" not in answer
    assert "16384 bytes" in envelope(answer)["message"]


@served
async def test_broken_chunks_are_answered_in_the_envelope(api: Api) -> None:
    head = f"POST /v1/spaces/{api.space}/scopes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {api.key}\r\n"
    for chunks in (b"zz\r\n", b"2\r\n{}x"):
        answer = await api.wire(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + chunks)
        assert answer.startswith(b"HTTP/1.1 400 "), answer
        assert envelope(answer)["code"] == "VALIDATION_FAILED"


@served
async def test_a_client_that_leaves_in_the_middle_of_its_body_is_no_defect(api: Api) -> None:
    head = f"POST /v1/spaces/{api.space}/scopes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {api.key}\r\n"
    assert await api.wire(f"{head}Content-Length: 100\r\n\r\n{{".encode(), end=True) == b""
    assert (await api.request("GET", "/healthz")).status == 200


@served
async def test_requests_in_a_pipeline_are_answered_in_order(api: Api) -> None:
    get = f"GET /v1/spaces/{api.space}/scopes?limit=%d HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {api.key}\r\n\r\n"
    last = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    answer = await api.wire((get % 5 + get % 0 + get % 5).encode() + last)
    assert re.findall(rb"HTTP/1.1 (\d+) ", answer) == [b"200", b"400", b"200", b"200"]


@served
async def test_http_1_0_is_answered_and_closed(api: Api) -> None:
    answer = await api.wire(b"GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    assert b"Connection: close" in answer
    assert answer.endswith(b'"node":"n1"}')


@served
async def test_a_connection_over_the_bound_is_told_so(api: Api) -> None:
    http = api.server._http
    http.most = http.count + 1
    _, kept = await asyncio.open_connection("127.0.0.1", api.port)
    while http.count < http.most:
        await asyncio.sleep(0)
    answer = await api.wire(b"")
    assert answer.startswith(b"HTTP/1.1 429 "), answer
    assert envelope(answer)["code"] == "SERVICE_RATE_LIMITED"
    kept.close()
    await kept.wait_closed()
    assert (await api.request("GET", "/healthz")).status == 200
