"""JSON over HTTP for the commands: plain `http.client`, no proxies, no redirects, one request a connection.

A command must work beside a broken node, so every call names its endpoint and a reason why it gave no answer. What
changes something carries an idempotency key: a repeat through another node is the same operation.
"""

import http.client
import json
import socket
import uuid
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec

from api.cli.connection import Connection
from api.cli.failure import CommandError

# A node without a leader holds a request for up to 8 s before it gives up; a command waits a little longer.
TIMEOUT_SECONDS = 12.0


class Unreachable(Exception):
    """An endpoint gave no answer. The message is the reason in few words."""


class Answer(msgspec.Struct, frozen=True):
    """What a node said: the HTTP status and the JSON object of the body."""

    status: int
    body: dict[str, Any]

    @property
    def error(self) -> str:
        """Code and message of an error answer, for people."""
        error = self.body.get("error")
        if not isinstance(error, dict):
            return f"HTTP {self.status}"
        return f"{error.get('code')}: {error.get('message')}"


def request(
    endpoint: str,
    method: str,
    path: str,
    *,
    body: object = None,
    key: str | None = None,
    idempotency_key: str | None = None,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> Answer:
    """One request to one node. Raises Unreachable when there is no JSON answer within the time."""
    url = urlsplit(endpoint)
    connect = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    connection = connect(url.hostname or "", url.port, timeout=timeout_seconds)
    headers = {"Accept": "application/json"}
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    if idempotency_key is not None:
        headers["Idempotency-Key"] = idempotency_key
    content = None
    if body is not None:
        headers["Content-Type"] = "application/json"
        content = json.dumps(body).encode()
    try:
        connection.request(method, url.path + path, body=content, headers=headers)
        response = connection.getresponse()
        text = response.read()
    except TimeoutError:
        raise Unreachable(f"no answer within {timeout_seconds:g} s") from None
    except ConnectionRefusedError:
        raise Unreachable("connection refused") from None
    except socket.gaierror as error:
        raise Unreachable(f"no such host: {error.strerror}") from None
    except (OSError, http.client.HTTPException) as error:
        raise Unreachable(str(error) or type(error).__name__) from None
    finally:
        connection.close()
    try:
        parsed = json.loads(text) if text else {}
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        raise Unreachable(f"HTTP {response.status} that is no JSON object; is this a node of runstate?")
    return Answer(response.status, parsed)


def operator_call(connection: Connection, method: str, path: str, body: object = None) -> dict[str, Any]:
    """One call of the operator API through the first node that can answer it; the body of a success.

    Raises CommandError with what the cluster said, or with what every endpoint failed with.
    """
    if connection.operator_key is None:
        raise CommandError(
            "this needs the operator key: give --operator-key-file, set RUNSTATE_OPERATOR_KEY, or name the directory "
            "of a local cluster with --data"
        )
    idempotency_key = None if method == "GET" else uuid.uuid4().hex
    failures: list[str] = []
    for endpoint in connection.endpoints:
        try:
            answer = request(
                endpoint, method, path, body=body, key=connection.operator_key, idempotency_key=idempotency_key
            )
        except Unreachable as error:
            failures.append(f"{endpoint}: {error}")
            continue
        if answer.status < 400:
            return answer.body
        if answer.status < 500:
            raise CommandError(answer.error)
        failures.append(f"{endpoint}: {answer.error}")
    raise CommandError(_nobody(connection.endpoints, failures))


def operator_list(connection: Connection, path: str, plural: str) -> list[dict[str, Any]]:
    """All rows of a list of the operator API, however many pages it has. plural: the field that holds them."""
    rows: list[dict[str, Any]] = []
    cursor = None
    while True:
        query = urlencode({"limit": 1000} if cursor is None else {"limit": 1000, "cursor": cursor})
        page = operator_call(connection, "GET", f"{path}?{query}")
        rows += page[plural]
        cursor = page.get("nextCursor")
        if cursor is None:
            return rows


def _nobody(endpoints: Sequence[str], failures: Sequence[str]) -> str:
    tried = "the node did not answer" if len(endpoints) == 1 else f"none of {len(endpoints)} nodes answered"
    return "\n  ".join([tried + ":", *failures])
