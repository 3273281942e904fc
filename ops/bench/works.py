"""What is measured: each work is one operation in a loop over one connection, counted and timed as a whole.

Keys are the connection's own, so that nothing waits for anything but the cluster. Mutations carry an idempotency key,
as those of the clients do.
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count

from ops.bench.connection import Answer, Connection

Operation = Callable[[], Awaitable[None]]

_connections = count()


@dataclass(frozen=True)
class Place:
    """Where the work happens: the path of the space and a run in it."""

    space_path: str
    scope_id: str


class UnexpectedAnswer(Exception):
    """A node answered with an error: the figures would mean nothing."""


def claim_pair(connection: Connection, place: Place) -> Operation:
    """Take a claim and release it: two writes, one after the other."""
    me = f"b{next(_connections)}"
    numbers = count()
    body = _json(key=me, scopeId=place.scope_id, holder=me, holderSession=me, leaseSeconds=60)

    async def operation() -> None:
        number = next(numbers)
        got = await connection.request("POST", f"{place.space_path}/claims", body, f"{me}-{number}")
        token = _expect(got, 201)["token"]
        path = f"{place.space_path}/claims/{me}/release"
        _expect(await connection.request("POST", path, _json(token=token), f"{me}-{number}-r"), 200)

    return operation


def once_pair(connection: Connection, place: Place) -> Operation:
    """Acquire a piece of work that nobody did and record its result: two writes."""
    me = f"b{next(_connections)}"
    numbers = count()

    async def operation() -> None:
        key = f"{me}-{next(numbers)}"
        body = _json(key=key, scopeId=place.scope_id, holder=me, holderSession=me, leaseSeconds=60)
        got = await connection.request("POST", f"{place.space_path}/once/acquire", body, key)
        done = _json(key=key, scopeId=place.scope_id, token=_expect(got, 200)["token"], result={"ok": True})
        _expect(await connection.request("POST", f"{place.space_path}/once/complete", done, f"{key}-c"), 200)

    return operation


def put_run(connection: Connection, place: Place) -> Operation:
    """Make a run of a new name: one write."""
    me = f"b{next(_connections)}"
    numbers = count()

    async def operation() -> None:
        _expect(await connection.request("PUT", f"{place.space_path}/runs/{me}-{next(numbers)}", b"{}"), 201)

    return operation


def get_scope(connection: Connection, place: Place) -> Operation:
    """A linearizable read of one small thing."""

    async def operation() -> None:
        _expect(await connection.request("GET", f"{place.space_path}/scopes/{place.scope_id}"), 200)

    return operation


WORKS: dict[str, Callable[[Connection, Place], Operation]] = {
    "claim acquire + release": claim_pair,
    "PUT run": put_run,
    "once acquire + complete": once_pair,
    "linearizable GET": get_scope,
}


def _json(**values: object) -> bytes:
    return json.dumps(values, separators=(",", ":")).encode()


def _expect(answer: Answer, status: int) -> dict[str, str]:
    if answer.status != status:
        raise UnexpectedAnswer(f"HTTP {answer.status}: {answer.body[:300]!r}")
    body: dict[str, str] = json.loads(answer.body)
    return body
