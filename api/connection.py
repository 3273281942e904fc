"""Connections of clients: aiohttp's protocol with what it lacks.

It tells who waits that the client has gone (aiohttp neither cancels a handler nor says so), answers requests that are
no HTTP in the same envelope as every other error, and bounds how many connections a node holds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong

from api import limits
from api.respond import Rendered, Responder
from api.stall import StallWatch
from statemachine.errors import SERVICE_RATE_LIMITED, VALIDATION_FAILED, Refused

_log = logging.getLogger("runstate.http")

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Connection(web.RequestHandler):
    """One connection. `watch` calls back once when it is lost."""

    __slots__ = ("_front", "_watchers", "lost")

    def __init__(self, front: HttpFront, *, loop: asyncio.AbstractEventLoop, **settings: Any) -> None:
        super().__init__(front, loop=loop, **settings)
        self._front = front
        self._watchers: list[Callable[[], None]] = []
        self.lost = False

    def watch(self, callback: Callable[[], None]) -> None:
        self._watchers.append(callback)

    def unwatch(self, callback: Callable[[], None]) -> None:
        self._watchers.remove(callback)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._front.count += 1
        if self._front.count > self._front.most and self.transport is not None:
            refused = Refused(SERVICE_RATE_LIMITED, f"the node has its maximum of {self._front.most} connections")
            self.transport.write(self._front.refusal(refused).data)
            self.force_close()

    def data_received(self, data: bytes) -> None:
        if not self._front.stall_watch.stood_still():
            super().data_received(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        if not self.lost:
            self.lost = True
            self._front.on_lost()
        super().connection_lost(exc)
        watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            watcher()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to what the parser could not read; the handler answers for its own errors itself."""
        # Never in an answer or a log: the line that was too long, which may hold a key.
        if isinstance(exc, LineTooLong):
            reason = f"the request line or a header has more than {min(limits.LINE_BYTES, limits.HEADER_BYTES)} bytes"
        else:
            reason = (message or "it cannot be read").strip().splitlines()[0].rstrip(":")
        _log.debug("a request that is no HTTP: %s", reason)
        return self._front.refusal(Refused(VALIDATION_FAILED, f"request: is not valid HTTP: {reason}"))


class HttpFront(web.Server):
    """Makes the connections of one listening socket. count: those that are open. most: how many there may be."""

    def __init__(self, handler: Handler, responder: Responder, request_id: Callable[[], str], most: int) -> None:
        super().__init__(handler)
        self._responder = responder
        self._request_id = request_id
        self.count = 0
        self.most = most
        self.stall_watch = StallWatch(self.abort_all)
        self._empty: asyncio.Future[None] | None = None

    def on_lost(self) -> None:
        """A connection has ended."""
        self.count -= 1
        if not self.count and self._empty is not None and not self._empty.done():
            self._empty.set_result(None)

    async def wait_empty(self, seconds: float) -> None:
        """Wait until there is no connection, at most that long."""
        if self.count:
            self._empty = asyncio.get_running_loop().create_future()
            await asyncio.wait((self._empty,), timeout=seconds)

    def __call__(self) -> Connection:
        return Connection(
            self,
            loop=asyncio.get_running_loop(),
            access_log=None,
            auto_decompress=False,
            keepalive_timeout=limits.IDLE_SECONDS,
            lingering_time=limits.LINGER_SECONDS,
            max_line_size=limits.LINE_BYTES,
            max_field_size=limits.HEADER_BYTES,
            max_headers=limits.HEADERS,
        )

    def abort_all(self) -> None:
        """Drop every connection with whatever was sent on it."""
        for connection in self.connections:
            if connection.transport is not None:
                connection.transport.abort()

    def refusal(self, refused: Refused) -> Rendered:
        """The response to a request that never became one."""
        return self._responder.refused(self._request_id(), refused, 0, keep_alive=False)
