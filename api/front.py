"""One handler for every request: find its endpoint, learn who asks, read its body, answer, count.

Every failure becomes the error envelope here, of whatever origin. What this file must never do is decide: who may and
whether a request is valid is the endpoints' affair, in the order of checks that the wire contract fixes.
"""

from __future__ import annotations

import asyncio
import secrets
from itertools import count

from aiohttp import HttpVersion10, web

from api.auth import Authenticator
from api.bodies import read_body
from api.call import Call
from api.connection import Connection
from api.endpoint import Endpoint, NoAnswer
from api.failures import as_refused
from api.limits import HOLD_SECONDS
from api.measures import Measures
from api.nowhere import Nowhere
from api.respond import Responder, Unanswered
from api.router import Router
from api.urls import segments, split_target
from statemachine.declare import Access
from statemachine.errors import Refused
from statemachine.machine import Outcome


class Front:
    def __init__(
        self, router: Router, nowhere: Nowhere, authenticator: Authenticator, responder: Responder, measures: Measures
    ) -> None:
        self._router = router
        self._nowhere = nowhere
        self._authenticator = authenticator
        self._responder = responder
        self._measures = measures
        self._prefix = f"req_{secrets.token_hex(5)}"
        self._numbers = count(1)
        self._now = asyncio.get_running_loop().time
        self.draining = False
        self.in_flight = 0
        self._idle: asyncio.Future[None] | None = None

    def request_id(self) -> str:
        """An id that no other request of the cluster has."""
        return f"{self._prefix}{next(self._numbers):07x}"

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """aiohttp's handler: a response to every request, whatever happens."""
        started = self._now()
        connection = request.protocol
        assert isinstance(connection, Connection)
        headers = request.headers
        path, query = split_target(request.raw_path)
        call = Call(
            self.request_id(),
            request.method,
            path,
            query,
            headers.get("Idempotency-Key"),
            connection,
            started,
            started + HOLD_SECONDS,
        )
        call.request = request
        keep_alive = request.keep_alive and request.version > HttpVersion10 and not self.draining
        endpoint = self._find(call)
        code = ""
        self.in_flight += 1
        try:
            if endpoint.access is not None:
                call.actor = self._authenticator.actor(headers.get("Authorization"))
            if request.content.is_eof():  # the body came together with the headers, as small ones do
                call.body = request.content.read_nowait()
            else:
                keep_alive = await self._read_body(request, call) and keep_alive
            result = await endpoint.answer(call)
            if isinstance(result, Outcome):
                code = result.code
            elif isinstance(result, web.StreamResponse):
                self._count(endpoint, result.status, code, call)
                return result
            response = self._responder.render(call.id, result, keep_alive=keep_alive, with_body=call.method != "HEAD")
        except NoAnswer:
            return self._unanswered(connection)
        except Exception as error:
            if connection.lost:
                return self._unanswered(connection)
            refused = as_refused(error)
            code = refused.error.code
            response = self._responder.refused(
                call.id, refused, call.read_index, keep_alive=keep_alive, with_body=call.method != "HEAD"
            )
        finally:
            self.in_flight -= 1
            if self._idle is not None and not self.in_flight and not self._idle.done():
                self._idle.set_result(None)
        self._count(endpoint, response.code, code, call)
        return response

    async def wait_idle(self, seconds: float) -> None:
        """Wait until no request is in flight, at most that long."""
        if self.in_flight:
            self._idle = asyncio.get_running_loop().create_future()
            await asyncio.wait((self._idle,), timeout=seconds)

    async def _read_body(self, request: web.BaseRequest, call: Call) -> bool:
        """Whether the whole body was read; what is wrong with it otherwise is for the endpoint to tell."""
        try:
            call.body = await read_body(request)
        except Refused as invalid:
            call.invalid = call.invalid or invalid
            return False
        return True

    def _find(self, call: Call) -> Endpoint:
        try:
            parts = segments(call.path)
        except Refused as invalid:
            call.invalid = invalid
            parts = call.path.split("/")[1:]
        found = self._router.match(call.method, parts)
        if found is None and call.method == "HEAD":
            found = self._router.match("GET", parts)
        if found is None:
            return self._nowhere.endpoint(call, parts)
        endpoint, values = found
        if endpoint.access is Access.SPACE:
            call.space, *call.values = values
        else:
            call.values = values
        return endpoint

    def _unanswered(self, connection: Connection) -> Unanswered:
        if connection.lost:
            self._measures.gone += 1
        else:
            self._measures.unanswered += 1
        return Unanswered()

    def _count(self, endpoint: Endpoint, status: int, code: str, call: Call) -> None:
        self._measures.requests[endpoint.name, status, code] += 1
        if not call.waited:
            self._measures.seconds[endpoint.name].observe(self._now() - call.started)
