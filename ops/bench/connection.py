"""One HTTP/1.1 connection that is kept alive, with one request in flight: what a client costs at least.

Requests are bytes, and of an answer only what is needed is read, so that a request costs the client some 20 µs and the
nodes are what is measured. It knows answers with Content-Length or without a body, which is all that nodes send.
"""

import asyncio
from dataclasses import dataclass
from typing import cast


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes


class Connection(asyncio.Protocol):
    """Made by `connect`. Not for two requests at once."""

    def __init__(self, headers: str) -> None:
        self._headers = headers
        self._received = b""
        self._answer: asyncio.Future[Answer] | None = None
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def connect(cls, host: str, port: int, api_key: str) -> "Connection":
        """Raises OSError when nobody listens there."""
        headers = f"Host: {host}:{port}\r\nAuthorization: Bearer {api_key}\r\nContent-Type: application/json\r\n"
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(lambda: cls(headers), host, port)
        return connection

    async def request(self, method: str, path: str, body: bytes = b"", idempotency_key: str = "") -> Answer:
        """Raises ConnectionError when the connection ends before the answer."""
        assert self._answer is None
        assert self._transport is not None
        if self._transport.is_closing():
            raise ConnectionError("the connection is closed")
        key = f"Idempotency-Key: {idempotency_key}\r\n" if idempotency_key else ""
        head = f"{method} {path} HTTP/1.1\r\n{self._headers}{key}Content-Length: {len(body)}\r\n\r\n"
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(head.encode() + body)
        try:
            return await self._answer
        finally:
            self._answer = None

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    # ------------------------------------------------------------------ asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none of asyncio's classes

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, separator, rest = self._received.partition(b"\r\n\r\n")
        if not separator:
            return
        length = _content_length(head)
        if len(rest) < length:
            return
        self._received = rest[length:]
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(Answer(int(head[9:12]), rest[:length]))

    def connection_lost(self, error: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionError(f"the node closed the connection: {error}"))


def _content_length(head: bytes) -> int:
    lower = head.lower()
    start = lower.find(b"\r\ncontent-length:")
    if start < 0:
        assert b"\r\ntransfer-encoding:" not in lower, head
        return 0
    start += len(b"\r\ncontent-length:")
    end = lower.find(b"\r\n", start)
    return int(lower[start : end if end >= 0 else None])
