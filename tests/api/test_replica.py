"""The front over the replica that serves: a real node with its journal on disk, stopped and started again."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import uvloop

from api.app import serve_http
from api.replica import Replica as NeededReplica
from cluster.bootstrap import bootstrap
from cluster.config import NodeConfig
from cluster.node import Replica
from tests.api.served import OPERATOR_KEY, Api
from tests.api.test_operations import eventually

CLAIM = {"key": "k", "holder": "h", "holderSession": "s"}


def config(directory: Path) -> NodeConfig:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        http, peer = (f"127.0.0.1:{taken.getsockname()[1]}" for taken in (one, two))
    (directory / "operator.key").write_text(OPERATOR_KEY)
    return NodeConfig(
        id="n1",
        listen=http,
        advertise=f"http://{http}",
        peers={"n1": peer},
        peer_listen=peer,
        data=directory / "data",
        operator_key_file=directory / "operator.key",
        election_timeout_ms=(100, 200),
        heartbeat_ms=20,
        local=True,
    )


@asynccontextmanager
async def node(config: NodeConfig) -> AsyncIterator[Api]:
    replica = Replica(config)
    needed: NeededReplica = replica
    server = await serve_http(needed, config)
    starting = asyncio.create_task(replica.start())
    try:
        async with aiohttp.ClientSession() as session:
            api = Api(replica, server, config.advertise, session)  # type: ignore[arg-type]
            reply = await api.request("GET", "/readyz")
            if not replica.ready:
                assert reply.status == 503
            assert (await api.request("GET", "/healthz")).status == 200
            await bootstrap(config.peers)
            await starting
            await eventually(lambda: replica.ready)
            yield api
    finally:
        await server.stop(1.0)
        await replica.stop(1.0)


def test_what_was_answered_is_there_after_a_restart(tmp_path: Path) -> None:
    async def scenario() -> None:
        settings = config(tmp_path)
        async with node(settings) as api:
            api.space = await api.make_space("default")
            api.key = await api.make_key()
            run = await api.run()
            body = {**CLAIM, "scopeId": run}
            first = await api.call("POST", "/claims", body, idempotency_key="i")
            assert (first.status, first["generation"]) == (201, 1)
            assert first.headers["X-Raft-Leader"] == settings.advertise
            replies = await asyncio.gather(
                *[api.call("POST", "/claims", {**body, "key": f"k{number}"}) for number in range(50)]
            )
            assert {reply.status for reply in replies} == {201}
            waiting = asyncio.create_task(api.call("POST", "/claims", {**body, "holder": "next", "waitMs": 20_000}))
            await eventually(lambda: len(api.server._hub) == 1)
            assert (await api.call("POST", "/claims/k/release", {"token": first["token"]})).status == 200
            assert (await waiting)["generation"] == 2
            reply = await api.request("GET", "/readyz")
            assert (reply["leader"], reply["term"] > 0, "leaderPid" in reply.body) == ("n1", True, True)
            space, key = api.space, api.key
        async with node(settings) as api:
            api.space, api.key = space, key
            again = await api.call("POST", "/claims", body, idempotency_key="i")
            assert (again.content, again.headers["Idempotency-Replayed"]) == (first.content, "true")
            held = await api.call("POST", "/claims", body)
            assert held.error["details"]["holder"] == "next"
            assert (await api.call("POST", "/claims/k/renew", {"token": first["token"]})).code == "STALE_CLAIM"
            assert (await api.call("PUT", "/runs/run"))["id"] == run
            metrics = (await api.request("GET", "/metrics")).content.decode()
            assert "runstate_raft_is_leader 1.0" in metrics

    uvloop.run(scenario())
