"""From a result to the bytes on the wire: status, headers, and the envelope of errors.

A response is rendered into one byte string and written at once. aiohttp's own response object builds and serializes a
header map for every answer, which was a third of the whole cost of a small request (DESIGN.md has the figures).
"""

from __future__ import annotations

import asyncio
import json
from email.utils import formatdate
from http import HTTPStatus

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

from api.endpoint import Page
from api.limits import RETRY_AFTER_SECONDS
from api.replica import Replica
from statemachine.errors import METHOD_NOT_ALLOWED, Refused
from statemachine.machine import Outcome, refusal

JSON = "application/json"
RETRY_AFTER_DEFAULT_MS = {429: 1_000, 503: 500}
_REFRESH_SECONDS = 0.1

_STATUS_LINES = {int(status): f"HTTP/1.1 {int(status)} {status.phrase}\r\n" for status in HTTPStatus}


class Rendered(web.StreamResponse):
    """A response that is bytes already. aiohttp asks it to prepare, to write and whether to keep the connection."""

    def __init__(self, code: int, data: bytes, *, keep_alive: bool) -> None:
        # The parent's constructor would build the header map that this class is there to avoid.
        self.code = code
        self.data = data
        self._keep_alive = keep_alive

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        await request.writer.write_eof(self.data)
        return request.writer

    async def write_eof(self, data: bytes = b"") -> None:
        """Nothing is left to write: `prepare` wrote it all."""


class Unanswered(Rendered):
    """No response at all: the connection is closed."""

    def __init__(self) -> None:
        super().__init__(0, b"", keep_alive=False)

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        raise ConnectionResetError("closed without an answer: the outcome is unknown and a repeat would not be safe")


class Responder:
    """Renders results. The leader's URL and the date are looked up ten times a second, not for every response, but for
    every one as long as there is no leader."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._time = asyncio.get_running_loop().time
        self._fresh_until = 0.0
        self._tail = ""

    def render(
        self,
        request_id: str,
        result: Outcome | Page,
        *,
        extra: str = "",
        keep_alive: bool = True,
        with_body: bool = True,
    ) -> Rendered:
        """extra: further header lines, each with its line end. with_body: not for HEAD."""
        if self._time() >= self._fresh_until:
            self._look()
        if isinstance(result, Page):
            body, about = result.body, f"Content-Type: {result.content_type}\r\n" + _retry_after(result.status, None)
        else:
            body, about = self._of_outcome(request_id, result)
        length = "" if result.status == 204 else f"Content-Length: {len(body)}\r\n"
        closing = "" if keep_alive else "Connection: close\r\n"
        head = (
            f"{_STATUS_LINES[result.status]}{about}{length}X-Request-Id: {request_id}\r\n"
            f"{extra}{closing}{self._tail}\r\n"
        ).encode()
        return Rendered(result.status, head + body if with_body else head, keep_alive=keep_alive)

    def _of_outcome(self, request_id: str, outcome: Outcome) -> tuple[bytes, str]:
        about = f"Content-Type: {JSON}\r\n" if outcome.body else ""
        if outcome.index:
            about += f"X-Raft-Index: {outcome.index}/{outcome.position}\r\n"
        if outcome.status < 400:
            return outcome.body, about + "Idempotency-Replayed: true\r\n" if outcome.replayed else about
        about += _retry_after(outcome.status, outcome.retry_after_ms)
        if outcome.status == 401:
            about += "WWW-Authenticate: Bearer\r\n"
        return with_request_id(outcome.body, request_id), about

    def refused(self, request_id: str, refused: Refused, index: int, **options: bool) -> Rendered:
        """The response to a refusal of this node's own. index: of the state it was judged by, 0 without one."""
        extra = ""
        if refused.error is METHOD_NOT_ALLOWED:
            extra = f"Allow: {', '.join(refused.details['allow'])}\r\n"
        return self.render(request_id, refusal(refused, index, 0), extra=extra, **options)

    def leader_url(self) -> str | None:
        """Of the node that leads, as of now."""
        return self._replica.status().leader_url

    def _look(self) -> None:
        status = self._replica.status()
        leader = f"X-Raft-Leader: {status.leader_url}\r\n" if status.leader_url else ""
        self._tail = f"{leader}Date: {formatdate(usegmt=True)}\r\n"
        self._fresh_until = self._time() + _REFRESH_SECONDS if leader else 0.0


def _retry_after(status: int, wait_ms: int | None) -> str:
    """The header line, where a wait is known or the status asks for one."""
    if wait_ms is None:
        wait_ms = RETRY_AFTER_DEFAULT_MS.get(status)
    if wait_ms is None:
        return ""
    low, high = RETRY_AFTER_SECONDS
    return f"Retry-After: {min(max(wait_ms / 1000, low), high):g}\r\n"


def with_request_id(error_body: bytes, request_id: str) -> bytes:
    """The body of a refusal with the id of the request in its envelope."""
    assert error_body.endswith(b"}}"), error_body
    return error_body[:-2] + b',"requestId":' + json.dumps(request_id).encode() + b"}}"
