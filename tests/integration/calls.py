"""One HTTP request at a time, as the tests make them: plain, no retry, no redirect, every answer visible."""

import http.client
import json
import select
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

# A node without a leader holds a request for up to 8 s.
ANSWER_SECONDS = 12.0

NoAnswer = (OSError, http.client.HTTPException)


@dataclass(frozen=True)
class Reply:
    """status: of HTTP. body: the JSON object, {} of an empty one. headers: lower-case names."""

    status: int
    body: dict[str, Any]
    headers: Mapping[str, str]

    @property
    def code(self) -> str:
        """Of an error answer; "" of a success."""
        return str(self.body["error"]["code"]) if self.status >= 400 else ""

    @property
    def replayed(self) -> bool:
        return self.headers.get("idempotency-replayed") == "true"

    @property
    def index(self) -> tuple[int, int]:
        """The log index that decided, or that was read at, and the position in the entry."""
        index, _, position = self.headers["x-raft-index"].partition("/")
        return int(index), int(position or 0)


class OpenConnection:
    """A connection that is kept alive: what is sent on it lies in the node's socket, whether the node runs or not."""

    def __init__(self, url: str, key: str, within_seconds: float = ANSWER_SECONDS) -> None:
        """Connects, and has one request answered so that the node has taken the connection in."""
        address = urlsplit(url)
        self._connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=within_seconds)
        self._headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
        self.send("GET", "/healthz")
        assert self.answer().status == 200

    def send(self, method: str, path: str, body: object = None) -> None:
        self._connection.request(method, path, body=None if body is None else json.dumps(body), headers=self._headers)

    def answer(self) -> Reply:
        """The answer to what was sent. Raises one of NoAnswer."""
        return _read(self._connection)

    @property
    def has_answer(self) -> bool:
        """Whether something has come that was not read."""
        readable, _, _ = select.select([self._connection.sock], [], [], 0)
        return bool(readable)

    def close(self) -> None:
        self._connection.close()


def call(
    url: str,
    method: str,
    path: str,
    body: object = None,
    *,
    key: str | None = None,
    idempotency_key: str | None = None,
    within_seconds: float = ANSWER_SECONDS,
) -> Reply:
    """One request to one node. Raises one of NoAnswer when there is none in time."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=within_seconds)
    headers = {"Content-Type": "application/json"}
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    if idempotency_key is not None:
        headers["Idempotency-Key"] = idempotency_key
    try:
        connection.request(method, path, body=None if body is None else json.dumps(body), headers=headers)
        return _read(connection)
    finally:
        connection.close()


def _read(connection: http.client.HTTPConnection) -> Reply:
    response = connection.getresponse()
    text = response.read()
    parsed = json.loads(text) if text else {}
    assert isinstance(parsed, dict), text
    return Reply(response.status, parsed, {name.lower(): value for name, value in response.getheaders()})
