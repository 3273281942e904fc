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
    watch = stall.StallWatch(api.server._http.abort_all)
    index = api.replica.machine.index
    _, writer = await asyncio.open_connection("127.0.0.1", api.port)
    while api.server._http.count < 2:
        await asyncio.sleep(0.001)
    head = f"PUT /v1/spaces/{api.space}/runs/x HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {api.key}\r\n"
    writer.write(f"{head}Content-Length: 0\r\n\r\n".encode())
    time.sleep(0.5)  # the loop stands still; nothing can be awaited
    while api.server._http.count:
        await asyncio.sleep(0.001)
    assert api.replica.machine.index == index
    watch.close()
    writer.close()


@served
async def test_an_awake_loop_drops_nothing(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stall, "LOOK_SECONDS", 0.005)
    dropped: list[int] = []
    watch = stall.StallWatch(lambda: dropped.append(1))
    await asyncio.sleep(0.05)
    watch.close()
    assert not dropped
