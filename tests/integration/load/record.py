"""One line a request: what was asked, through which nodes, and what came back. Written by the load, read by checks.

Times are of the machine's monotonic clock, which all its processes share, so that "ended before the other began" can be
said across processes. A line is written when the request has ended; a file that ends in half a line belongs to a
process that was killed, and its last request counts as never recorded.
"""

from pathlib import Path
from typing import Any

import msgspec


class Request(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request of a client, with all its repeats.

    kind: what it was for. key: idempotency key; a request without one is sent at most once. status: of the answer, 0
    when there was none, so that nobody knows what became of it. index, position: what decided. faults: what went wrong
    before the answer, one an attempt.
    """

    client: str
    kind: str
    url: str
    method: str
    path: str
    body: dict[str, Any] | None = None
    key: str | None = None
    began_ns: int
    ended_ns: int
    status: int = 0
    reply: dict[str, Any] = {}
    index: int = 0
    position: int = 0
    replayed: bool = False
    faults: list[str] = []

    @property
    def succeeded(self) -> bool:
        return 200 <= self.status < 300

    @property
    def code(self) -> str:
        return str(self.reply["error"]["code"]) if self.status >= 400 else ""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Request).decode


def encode_line(request: Request) -> bytes:
    return _encode(request) + b"\n"


def read_records(path: Path) -> list[Request]:
    """All whole lines of a file, in the order in which the requests ended."""
    lines = path.read_bytes().split(b"\n") if path.exists() else []
    return [_decode(line) for line in lines[:-1]]
