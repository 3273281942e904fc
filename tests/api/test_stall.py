"""A loop that stood still drops what piled up."""

from __future__ import annotations

import asyncio
import time

import pytest

from api import stall
from tests.api.served import Api, served


@served
async def test_connections_are_dropped_unread(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stall, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(stall, "STALL_SECONDS", 0.2)
    http = api.server._http
    http.stall_watch.close()
    http.stall_watch = stall.StallWatch(http.abort_all)
    index = api.replica.machine.index
    _, writer = await asyncio.open_connection("127.0.0.1", api.port)
    while http.count < 2:
        await asyncio.sleep(0.001)
    head = f"PUT /v1/spaces/{api.space}/runs/x HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {api.key}\r\n"
    writer.write(f"{head}Content-Length: 0\r\n\r\n".encode())
    time.sleep(0.5)  # the loop stands still; nothing can be awaited
    while http.count:
        await asyncio.sleep(0.001)
    assert api.replica.machine.index == index
    writer.close()
    assert (await api.request("GET", "/healthz")).status == 200


@served
async def test_an_awake_loop_drops_nothing(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stall, "LOOK_SECONDS", 0.005)
    dropped: list[int] = []
    watch = stall.StallWatch(lambda: dropped.append(1))
    await asyncio.sleep(0.05)
    assert not watch.stood_still()
    watch.close()
    assert not dropped


@served
async def test_what_arrives_after_a_standstill_is_not_looked_at(api: Api) -> None:
    watch = api.server._http.stall_watch
    await api.request("GET", "/healthz")
    watch._last -= stall.LOOK_SECONDS + stall.STALL_SECONDS + 1
    assert watch.stood_still()
    assert not watch.stood_still()
    while api.server._http.count:
        await asyncio.sleep(0.001)
