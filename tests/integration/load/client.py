"""A careful client: many nodes, one idempotency key a request, a record of everything.

Keyed requests and reads are repeated through the next node until there is an answer; a request without a key is sent at
most once, but for a refused connection, over which nothing was sent. Each client has connections of its own, so that
one killed node disturbs only requests that were with it.
"""

import asyncio
import os
import random
import time
import uuid
from collections.abc import Sequence
from typing import Any

import aiohttp

from tests.integration.load.record import Request, encode_line

# A node without a leader holds a request for up to 8 s.
ATTEMPT_SECONDS = 12.0
REQUEST_SECONDS = 45.0
_PAUSE_SECONDS = 0.05
# How often a client turns to another node without need, so that no node is left alone for good.
_MOVES = 0.05


class GaveUp(Exception):
    """A keyed request or a read had no answer for REQUEST_SECONDS: the cluster was down for too long."""


class Client:
    def __init__(
        self,
        name: str,
        session: aiohttp.ClientSession,
        urls: Sequence[str],
        space_id: str,
        records: int,
        dice: random.Random,
    ) -> None:
        """records: file descriptor that is open for appending."""
        self.name = name
        self.dice = dice
        self.cursor = ""  # how far it has read the events
        self._session = session
        self._urls = list(urls)
        self._base = f"/v1/spaces/{space_id}"
        self._records = records
        self._preferred = dice.randrange(len(urls))

    async def ask(
        self,
        kind: str,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        *,
        keyed: bool = True,
        elsewhere: bool = False,
    ) -> Request:
        """One request, recorded. keyed: with an idempotency key (reads need none). elsewhere: through any other node.

        Raises GaveUp.
        """
        key = uuid.UUID(int=self.dice.getrandbits(128)).hex if keyed and method != "GET" else None
        if self.dice.random() < _MOVES:
            self._preferred = self.dice.randrange(len(self._urls))
        place = self._preferred + (self.dice.randrange(1, len(self._urls)) if elsewhere and len(self._urls) > 1 else 0)
        began_ns = time.monotonic_ns()
        faults: list[str] = []
        answer: dict[str, Any] = {}
        while not answer:
            url = self._urls[place % len(self._urls)]
            try:
                answer = await self._attempt(url, method, path, body, key)
            except (aiohttp.ClientError, TimeoutError) as error:
                faults.append(f"{url}: {error!r}")
                if not (key or method == "GET" or isinstance(error, aiohttp.ClientConnectorError)):
                    break
            else:
                if answer["status"] == 503 and (key or method == "GET"):
                    faults.append(f"{url}: {answer['reply']}")
                    answer = {}
            if not answer:
                place += 1
                if time.monotonic_ns() - began_ns > REQUEST_SECONDS * 1e9:
                    raise GaveUp(f"{method} {path}: {faults[-3:]}")
                await asyncio.sleep(_PAUSE_SECONDS)
        if not elsewhere:
            self._preferred = place % len(self._urls)
        request = Request(
            client=self.name,
            kind=kind,
            url=url,
            method=method,
            path=path,
            body=body,
            key=key,
            began_ns=began_ns,
            ended_ns=time.monotonic_ns(),
            faults=faults,
            **answer,
        )
        os.write(self._records, encode_line(request))
        return request

    async def _attempt(
        self, url: str, method: str, path: str, body: dict[str, Any] | None, key: str | None
    ) -> dict[str, Any]:
        headers = {} if key is None else {"Idempotency-Key": key}
        async with self._session.request(method, f"{url}{self._base}{path}", json=body, headers=headers) as response:
            reply = {} if response.status == 204 else await response.json()
            index, _, position = response.headers.get("X-Raft-Index", "0").partition("/")
            return {
                "status": response.status,
                "reply": reply,
                "index": int(index),
                "position": int(position or 0),
                "replayed": response.headers.get("Idempotency-Replayed") == "true",
            }
