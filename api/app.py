"""The HTTP server of a node: puts the front together, listens, and stops without cutting anybody off."""

from __future__ import annotations

import asyncio
import socket

from api.admin import Admin
from api.auth import Authenticator, read_operator_key
from api.batch import Batches
from api.connection import HttpFront
from api.endpoint import Endpoint
from api.front import Front
from api.health import Health
from api.limits import FAREWELL_SECONDS
from api.measures import Measures
from api.metrics import Counts, MetricsPage
from api.nowhere import Nowhere
from api.open_files import connections_allowed
from api.openapi import OpenApiPages
from api.operations import OperationEndpoint, Writes
from api.plans import Plans
from api.queries import QueryEndpoint
from api.replica import Replica
from api.respond import Responder
from api.router import Router
from api.stream import EventStream
from api.waiting import Hub
from cluster.addresses import parse_address
from cluster.config import NodeConfig
from statemachine.declare import OPERATIONS, QUERIES

BACKLOG = 1024
CLOSE_SECONDS = 1.0


class HttpServer:
    """A node's HTTP front, listening until it is stopped. endpoints: everything that it serves."""

    def __init__(self, replica: Replica, operator: bytes | None) -> None:
        """operator: SHA-256 of the operator key, None when nobody is the operator."""
        measures = Measures()
        batches, pages = Batches(replica, measures), OpenApiPages()
        self._hub = Hub(replica)
        health = Health(replica, lambda: self.front.draining)
        counts = Counts(
            replica,
            measures,
            connections=lambda: self._http.count,
            in_flight=lambda: self.front.in_flight,
            long_polls=lambda: len(self._hub),
        )
        responder = Responder(replica)
        self.endpoints: list[Endpoint] = [
            *declared(replica, self._hub, measures),
            *health.endpoints(),
            *Admin(replica).endpoints(),
            *pages.endpoints(),
            MetricsPage(counts).endpoint(),
            EventStream(replica, self._hub, responder).endpoint(),
            batches.endpoint(),
        ]
        router = Router(self.endpoints)
        nowhere = Nowhere(router, replica)
        batches.begin(router, nowhere)
        pages.begin(self.endpoints)
        self.front = Front(router, nowhere, Authenticator(operator), responder, measures)
        self._http = HttpFront(self.front.handle, responder, self.front.request_id, connections_allowed())
        self._listening: asyncio.Server | None = None

    async def listen(self, listening: socket.socket | None, host: str, port: int) -> None:
        """Accept connections at the address, or on a socket that is bound already."""
        loop = asyncio.get_running_loop()
        where = {"host": host, "port": port} if listening is None else {"sock": listening}
        self._listening = await loop.create_server(self._http, backlog=BACKLOG, **where)

    async def stop(self, drain_seconds: float) -> None:
        """Take no new connections, answer polls early and the rest within drain_seconds, then close.

        A connection that is closed while its client sends leaves the client without an answer. So every answer from
        now on ends its connection, and those that say nothing for a second are closed only then.
        """
        ends_at = asyncio.get_running_loop().time() + drain_seconds
        self.front.draining = True
        self._hub.drain()
        self._http.stall_watch.close()
        if self._listening is not None:
            self._listening.close()
        await self._http.wait_empty(min(FAREWELL_SECONDS, drain_seconds))
        self._http.pre_shutdown()
        await self.front.wait_idle(ends_at - asyncio.get_running_loop().time())
        await self._http.shutdown(CLOSE_SECONDS)


def declared(replica: Replica, hub: Hub, measures: Measures) -> list[Endpoint]:
    """The endpoints of all declared operations and queries that have a path."""
    writes, plans = Writes(replica, hub, measures), Plans(replica)
    operations = [
        OperationEndpoint(operation, writes, plans.payload_bytes_max)
        for operation in OPERATIONS.values()
        if operation.path
    ]
    return [*operations, *(QueryEndpoint(query, replica, hub) for query in QUERIES.values())]


async def serve_http(replica: Replica, config: NodeConfig, *, listening: socket.socket | None = None) -> HttpServer:
    """Serve HTTP for a replica, from before it has started, until the server is stopped.

    listening: a bound socket, instead of `config.listen`. Raises OperatorKeyError, OSError when the address is taken.
    """
    server = HttpServer(replica, read_operator_key(config.operator_key_file))
    address = parse_address(config.listen)
    assert listening is not None or address is not None, config.listen
    await server.listen(listening, *(address or ("", 0)))
    return server
