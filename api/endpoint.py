"""What stands behind a path: an endpoint takes a call and gives a result, or raises a refusal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias

from aiohttp import web

from api.call import Call
from statemachine.declare import Access
from statemachine.machine import Outcome


class NoAnswer(Exception):
    """The outcome is unknown and a repeat would not be safe: the connection is closed without an answer."""


@dataclass(frozen=True, slots=True)
class Page:
    """An answer that the log has no part in."""

    status: int
    content_type: str
    body: bytes


Result: TypeAlias = Outcome | Page | web.StreamResponse  # the last one: a stream, which has been sent already


class Endpoint(Protocol):
    """name: the label of its metrics. access: whose call it is, None when it needs no key. template: the whole path.

    answer may raise Refused, Unavailable (nothing was changed) or NoAnswer.
    """

    @property
    def name(self) -> str: ...
    @property
    def method(self) -> str: ...
    @property
    def template(self) -> str: ...
    @property
    def access(self) -> Access | None: ...

    async def answer(self, call: Call) -> Result: ...
