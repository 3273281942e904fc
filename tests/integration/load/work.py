"""What the clients do: a coroutine a kind of work, in a loop until it is told to stop.

Each kind is made so that its record can be judged: names say whose they are, keys are shared between clients, leases
outlast the test, and reads go through another node than the write that they must see.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

from tests.integration.load.client import Client

LOCKS = 8
LEASE_SECONDS = 600

Work = Callable[[Client, str, int], Awaitable[None]]


async def hold_claim(client: Client, scope_id: str, number: int) -> None:
    """Take one of a few keys, look at it from elsewhere, renew it, hand it back."""
    key = f"lock-{client.dice.randrange(LOCKS)}"
    session = f"{client.name}-{number}"
    body: dict[str, Any] = {"key": key, "scopeId": scope_id, "holder": client.name, "holderSession": session}
    got = await client.ask("claim.acquire", "POST", "/claims", {**body, "leaseSeconds": LEASE_SECONDS})
    if not got.succeeded:
        return
    token = {"token": got.reply["token"]}
    if client.dice.random() < 0.3:
        await client.ask("claim.read", "GET", f"/claims?scopeId={scope_id}&key={key}", elsewhere=True)
    if client.dice.random() < 0.3:
        await client.ask("claim.renew", "POST", f"/claims/{key}/renew", token)
    await client.ask("claim.release", "POST", f"/claims/{key}/release", token)


async def do_once(client: Client, scope_id: str, number: int) -> None:
    """All clients walk through the same keys: one of them does the work, the others see its result."""
    key = f"work-{number}"
    body: dict[str, Any] = {"scopeId": scope_id, "key": key, "holder": client.name, "holderSession": client.name}
    got = await client.ask("once.acquire", "POST", "/once/acquire", {**body, "leaseSeconds": LEASE_SECONDS})
    if got.reply.get("state") == "ACQUIRED":
        result = {"by": client.name, "number": number}
        done = {"scopeId": scope_id, "key": key, "token": got.reply["token"], "result": result}
        await client.ask("once.complete", "POST", "/once/complete", done)
        await client.ask("once.read", "GET", f"/once?scopeId={scope_id}&key={key}", elsewhere=True)
    elif got.reply.get("state") == "HELD":
        await client.ask("once.read", "GET", f"/once?scopeId={scope_id}&key={key}&waitMs=2000", elsewhere=True)


async def create_scope(client: Client, scope_id: str, number: int) -> None:
    """A child run with a name of its own, with an idempotency key or without, seen from elsewhere at once."""
    keyed = client.dice.random() < 0.5
    name = f"{client.name}-{number}{'-keyed' if keyed else ''}"
    made = await client.ask("scope.create", "POST", "/scopes", {"name": name, "parentId": scope_id}, keyed=keyed)
    if made.succeeded:
        await client.ask("scope.read", "GET", f"/scopes/{made.reply['id']}", elsewhere=True)


async def join_run(client: Client, scope_id: str, number: int) -> None:
    """A named run that all clients join."""
    await client.ask("run.join", "PUT", f"/runs/{quote(f'of {scope_id}, {number}')}", {})


async def watch(client: Client, scope_id: str, number: int) -> None:
    """The next events of the space, each page through another node."""
    cursor = f"&cursor={client.cursor}" if client.cursor else ""
    page = await client.ask("watch", "GET", f"/watch?limit=1000&waitSeconds=1{cursor}", elsewhere=True)
    if page.succeeded:
        client.cursor = page.reply["nextCursor"]


KINDS: dict[str, Work] = {
    "claims": hold_claim,
    "once": do_once,
    "scopes": create_scope,
    "runs": join_run,
    "watch": watch,
}


async def repeat(work: Work, client: Client, scope_id: str, stop: asyncio.Event, pause_seconds: float) -> None:
    """Do it again and again until told to stop; a round that has begun is brought to its end."""
    number = 0
    while not stop.is_set():
        await work(client, scope_id, number)
        number += 1
        await asyncio.sleep(pause_seconds)
