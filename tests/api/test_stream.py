"""Server-Sent Events."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest
from yarl import URL

from api import stream
from tests.api.served import Api, served
from tests.api.test_operations import eventually


class Reader:
    """One stream as a client of Server-Sent Events reads it."""

    def __init__(self, api: Api, query: str = "", last: str | None = None) -> None:
        headers = {"Authorization": f"Bearer {api.key}"} | ({} if last is None else {"Last-Event-ID": last})
        url = URL(f"{api.url}/v1/spaces/{api.space}/watch/stream{query}", encoded=True)
        self._opening = api.session.get(url, headers=headers)
        self.response: aiohttp.ClientResponse
        self.last = ""

    async def __aenter__(self) -> Reader:
        self.response = await self._opening
        return self

    async def __aexit__(self, *_: object) -> None:
        self.response.close()

    async def block(self) -> dict[str, str]:
        """The next block of lines; {} at the end."""
        fields: dict[str, str] = {}
        async for line in self.response.content:
            text = line.decode().rstrip("\n")
            if not text:
                self.last = fields.get("id", self.last)
                return fields
            name, _, value = text.partition(": ")
            fields[name] = value
        return {}

    async def event(self) -> dict[str, Any]:
        while True:
            fields = await self.block()
            assert fields, "the stream ended"
            if "data" in fields:
                return {"event": fields["event"], **json.loads(fields["data"])}


@served
async def test_events_come_as_they_happen(api: Api) -> None:
    async with Reader(api, "?types=scope.created") as reader:
        assert reader.response.headers["Content-Type"] == "text/event-stream"
        assert reader.response.headers["X-Request-Id"]
        assert reader.response.headers["X-Raft-Leader"] == api.url
        first = await api.run("one")
        event = await reader.event()
        assert (event["event"], event["type"], event["scopeId"]) == ("scope.created", "scope.created", first)
        assert reader.last == event["eventId"]
        await api.call("POST", f"/scopes/{first}/cancel")
        second = await api.run("two")
        assert (await reader.event())["scopeId"] == second


@served
async def test_a_reader_resumes_where_it_was(api: Api) -> None:
    async with Reader(api) as reader:
        await api.run("one")
        await reader.event()
        last = reader.last
    two, three = await api.run("two"), await api.run("three")
    async with Reader(api, "?types=scope.created", last) as reader:
        assert [(await reader.event())["scopeId"] for _ in range(2)] == [two, three]
    async with Reader(api, f"?cursor={last}&limit=1&types=scope.created") as reader:
        assert [(await reader.event())["scopeId"] for _ in range(2)] == [two, three]


@served
async def test_the_cursor_moves_while_nothing_matches(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "BREATH_SECONDS", 0.02)
    async with Reader(api, "?types=claim.acquired") as reader:
        first = (await reader.block())["id"]
        await api.run()
        ids = {(await reader.block())["id"] for _ in range(3)}
        assert max(ids) > first


@served
async def test_what_is_wrong_is_told_before_it_begins(api: Api) -> None:
    for query, status in (("?x=1", 400), ("?cursor=none", 400), ("?scopeId=none", 404), ("?limit=0", 400)):
        assert (await api.call("GET", f"/watch/stream{query}")).status == status
    assert (await api.call("GET", "/watch/stream", key="unknown")).status == 401
    assert (await api.call("GET", "/watch/stream", key=await api.make_key("work"))).status == 403
    assert (await api.call("GET", "/watch/stream?x=1", key="unknown")).status == 401


@served
async def test_head_is_no_stream(api: Api) -> None:
    reply = await api.call("HEAD", "/watch/stream")
    assert (reply.status, reply.headers["Content-Type"]) == (200, "text/event-stream")


@served
async def test_a_key_that_is_revoked_ends_the_stream(api: Api) -> None:
    keys = (await api.operate("GET", f"/spaces/{api.space}/keys"))["keys"]
    async with Reader(api) as reader:
        other = await api.make_key()
        await api.operate("DELETE", f"/spaces/{api.space}/keys/{keys[0]['id']}")
        await api.call("PUT", "/runs/x", {}, key=other)
        event = await reader.event()
        assert (event["event"], event["error"]["code"]) == ("error", "UNAUTHENTICATED")
        assert await reader.block() == {}


@served
async def test_it_ends_with_its_client_and_with_the_node(api: Api) -> None:
    async with Reader(api):
        await eventually(lambda: len(api.server._hub) == 1)
    await eventually(lambda: api.server.front.in_flight == 0)
    async with Reader(api) as reader:
        await eventually(lambda: len(api.server._hub) == 1)
        stopping = asyncio.create_task(api.server.stop(5.0))
        while await reader.block():
            pass
        await stopping
