"""Endpoints of the node itself, which the machine has no part in: declared with what OpenAPI says about them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec

from api.call import Call
from api.endpoint import Result
from api.respond import JSON
from statemachine.declare import Access
from statemachine.errors import ErrorCode
from statemachine.types import Request


@dataclass(frozen=True, slots=True)
class OwnEndpoint:
    """respond: gives the result, and judges the caller itself where access names a key.

    request, response: types of the bodies for the schema, None for none or no JSON. query: the request whose fields are
    its parameters. errors: beyond what any call may
    be refused with.
    """

    name: str
    method: str
    template: str
    access: Access | None
    doc: str
    respond: Callable[[Call], Awaitable[Result]]
    request: type[msgspec.Struct] | None = None
    query: type[Request] | None = None
    response: type[msgspec.Struct] | None = None
    content_type: str = JSON
    errors: tuple[ErrorCode, ...] = ()

    async def answer(self, call: Call) -> Result:
        return await self.respond(call)
