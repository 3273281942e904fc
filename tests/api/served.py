"""Tests of the HTTP front against a real server on a real socket.

    @served
    async def test_something(api: Api) -> None:
        reply = await api.call("POST", "/claims", {...})

gives the test a server before a replica in this process, with a space and a key in it. Other parameters of the test
are pytest's. A defect of the machine or an INTERNAL answer that the test did not ask for fails it.
"""

from __future__ import annotations

import asyncio
import inspect
import io
import json
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import wraps
from hashlib import sha256
from typing import Any

import aiohttp
import uvloop
from yarl import URL

from api.app import HttpServer
from tests.api.local import LocalReplica

OPERATOR_KEY = "rsop_of-the-tests-of-the-front"
_ABSENT: Any = object()


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.content) if self.content else None

    @property
    def error(self) -> Any:
        """The error envelope, checked for what every one must have."""
        assert self.status >= 400, (self.status, self.content)
        error = self.body["error"]
        assert set(error) <= {"code", "message", "requestId", "details"}, error
        assert error["requestId"] == self.headers["X-Request-Id"], (error, self.headers)
        assert error["message"], error
        return error

    @property
    def code(self) -> str:
        return "" if self.status < 400 else str(self.error["code"])

    def __getitem__(self, field: str) -> Any:
        assert self.status < 400, (self.status, self.content)
        return self.body[field]


class Api:
    """One server, its replica, and a client."""

    def __init__(self, replica: LocalReplica, server: HttpServer, url: str, session: aiohttp.ClientSession) -> None:
        self.replica = replica
        self.server = server
        self.url = url
        self.session = session
        self.space = ""
        self.key = ""

    @property
    def port(self) -> int:
        port = URL(self.url).port
        assert port is not None
        return port

    async def call(self, method: str, path: str, body: Any = _ABSENT, **options: Any) -> Reply:
        """A call below the space, with its key. body: JSON, or bytes as they are."""
        return await self.request(method, f"/v1/spaces/{self.space}{path}", body, **{"key": self.key, **options})

    async def operate(self, method: str, path: str, body: Any = _ABSENT, **options: Any) -> Reply:
        """A call of the operator."""
        return await self.request(method, f"/admin/v1{path}", body, **{"key": OPERATOR_KEY, **options})

    async def request(
        self,
        method: str,
        path: str,
        body: Any = _ABSENT,
        *,
        key: str | None = None,
        idempotency_key: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Any request. path: as it goes over the wire, percent-encoded by the caller."""
        given = dict(headers or {})
        if key is not None:
            given["Authorization"] = f"Bearer {key}"
        if idempotency_key is not None:
            given["Idempotency-Key"] = idempotency_key
        data = None
        if body is not _ABSENT:
            data = io.BytesIO(body if isinstance(body, bytes) else json.dumps(body).encode())
        async with self.session.request(
            method, URL(self.url + path, encoded=True), data=data, headers=given, allow_redirects=False
        ) as response:
            return Reply(response.status, response.headers.copy(), await response.read())

    async def wire(self, data: bytes, *, end: bool = False) -> bytes:
        """Send bytes over a connection of their own and read until the server closes it. end: half-close after them."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(data)
            if end:
                writer.write_eof()
            async with asyncio.timeout(10):
                return await reader.read()
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def make_key(self, *permissions: str, space: str | None = None) -> str:
        body = {"permissions": list(permissions)} if permissions else {}
        reply = await self.operate("POST", f"/spaces/{space or self.space}/keys", body)
        return str(reply["key"])

    async def make_space(self, name: str = "other") -> str:
        return str((await self.operate("POST", "/spaces", {"name": name}))["id"])

    async def run(self, name: str = "run", **body: Any) -> str:
        return str((await self.call("PUT", f"/runs/{name}", body))["id"])


@asynccontextmanager
async def serving(replica: LocalReplica | None = None) -> AsyncIterator[Api]:
    """A server with a space and a key."""
    replica = LocalReplica() if replica is None else replica
    listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    replica.url = url
    server = HttpServer(replica, sha256(OPERATOR_KEY.encode()).digest())
    await server.listen(listening, "", 0)
    try:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            api = Api(replica, server, url, session)
            api.space = await api.make_space("default")
            api.key = await api.make_key()
            yield api
    finally:
        await server.stop(1.0)


def served(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run the test in a loop of its own, with an `Api` as its first argument."""
    _, *others = inspect.signature(test).parameters.values()

    @wraps(test)
    def run(**arguments: Any) -> None:
        async def scenario() -> None:
            replica = LocalReplica()
            async with serving(replica) as api:
                await test(api, **arguments)
            assert not replica.defects, replica.defects

        logged = _Defects()
        logger = logging.getLogger("runstate.http")
        logger.addHandler(logged)
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(scenario())
        finally:
            logger.removeHandler(logged)
        assert not logged.records, logged.records

    run.__signature__ = inspect.Signature(others)  # type: ignore[attr-defined]
    del run.__wrapped__  # type: ignore[attr-defined]
    return run


class _Defects(logging.Handler):
    """Keeps what the front logs as its own fault."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.records: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(self.format(record))
