"""A server from its start to its stop."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import aiohttp
import pytest
import uvloop

from api.app import serve_http
from api.auth import OperatorKeyError
from api.limits import FAREWELL_SECONDS
from cluster.config import NodeConfig
from tests.api.local import LocalReplica
from tests.api.served import Api, served
from tests.api.test_operations import eventually


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


def config(tmp_path: Path, key: str, port: int) -> NodeConfig:
    path = tmp_path / "operator.key"
    path.write_text(key)
    return NodeConfig(
        id="n1", listen=f"127.0.0.1:{port}", peers={"n1": "127.0.0.1:1"}, data=tmp_path, operator_key_file=path
    )


def test_it_listens_where_the_configuration_says(tmp_path: Path) -> None:
    async def scenario() -> None:
        port = free_port()
        server = await serve_http(LocalReplica(), config(tmp_path, "rsop_0123456789abcdef\n", port))
        url = f"http://127.0.0.1:{port}"
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{url}/readyz") as reply:
                assert reply.status == 200
            headers = {"Authorization": "Bearer rsop_0123456789abcdef"}
            async with session.get(f"{url}/admin/v1/spaces", headers=headers) as reply:
                assert reply.status == 200
            await server.stop(1.0)
            with pytest.raises(aiohttp.ClientConnectorError):
                await session.get(f"{url}/readyz")

    uvloop.run(scenario())


def test_it_does_not_start_with_an_operator_key_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(OperatorKeyError):
        asyncio.run(serve_http(LocalReplica(), config(tmp_path, "short", free_port())))


@served
async def test_what_is_in_flight_is_answered_before_it_stops(api: Api) -> None:
    run = await api.run()
    api.replica.led = False
    write = asyncio.create_task(api.call("PUT", "/runs/late", {}))
    await eventually(lambda: api.server.front.in_flight == 1)
    stopping = asyncio.create_task(api.server.stop(5.0))
    await asyncio.sleep(0.05)
    assert not stopping.done()
    api.replica.led = True
    reply = await write
    assert reply.status == 201
    await stopping
    assert api.server._http.count == 0
    assert run


@served
async def test_a_client_that_sends_while_it_stops_is_answered_and_told_to_go(api: Api) -> None:
    await api.run()  # leaves a connection that is kept alive
    stopping = asyncio.create_task(api.server.stop(5.0))
    await asyncio.sleep(0)
    assert api.server.front.draining
    reply = await api.call("PUT", "/runs/late", {})
    assert (reply.status, reply.headers["Connection"]) == (201, "close")
    await asyncio.wait_for(stopping, 0.5)


@served
async def test_a_connection_that_says_nothing_does_not_hold_it_up(api: Api) -> None:
    await api.run()
    assert api.server._http.count == 1
    await asyncio.wait_for(api.server.stop(5.0), FAREWELL_SECONDS + 1)
    assert api.server._http.count == 0


@served
async def test_polls_are_answered_early_when_it_stops(api: Api) -> None:
    run = await api.run()
    await api.call("POST", "/once/acquire", {"key": "w", "scopeId": run, "holder": "h", "holderSession": "s"})
    poll = asyncio.create_task(api.call("GET", f"/once?scopeId={run}&key=w&waitMs=30000"))
    await eventually(lambda: len(api.server._hub) == 1)
    await api.server.stop(5.0)
    assert (await poll)["state"] == "HELD"


@served
async def test_what_does_not_end_in_time_is_cut_off(api: Api) -> None:
    api.replica.led = False
    write = asyncio.create_task(api.call("PUT", "/runs/late", {}))
    await eventually(lambda: api.server.front.in_flight == 1)
    await api.server.stop(0.05)
    with pytest.raises(aiohttp.ClientError):
        await write
