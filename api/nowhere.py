"""Paths and methods that nothing stands behind: 404 and 405 in the envelope.

Below a space, under a key and for the operator they are told only to who may ask there.
"""

from __future__ import annotations

from collections.abc import Sequence

from api.call import Call
from api.endpoint import Endpoint, Result
from api.gate import Gate
from api.replica import Replica
from api.router import Router, access_of
from statemachine.declare import NONE, Access, Query
from statemachine.errors import METHOD_NOT_ALLOWED, NOT_FOUND, Refused
from statemachine.types import Answer, Request

NAME = "nowhere"


class _Nowhere:
    """One request to nowhere, as an endpoint."""

    name = NAME
    method = ""
    template = ""

    def __init__(self, access: Access | None, gate: Gate, why: Refused) -> None:
        self.access = access
        self._gate = gate
        self._why = why

    async def answer(self, call: Call) -> Result:
        if self.access is not None:
            await self._gate.require(call, stand_in(self.access))
        raise self._why


class Nowhere:
    def __init__(self, router: Router, replica: Replica) -> None:
        self._router = router
        self._gate = Gate(replica)

    def endpoint(self, call: Call, parts: Sequence[str]) -> Endpoint:
        """What refuses this call."""
        access = access_of(parts)
        if access is Access.SPACE:
            call.space = parts[2]
        return self.refusing(access, self._why(call, parts))

    def refusing(self, access: Access | None, why: Refused) -> Endpoint:
        """An endpoint that gives this refusal to those who may ask there."""
        return _Nowhere(access, self._gate, why)

    def _why(self, call: Call, parts: Sequence[str]) -> Refused:
        path = call.path[:200]
        allowed = self._router.allowed(parts)
        if allowed:
            return Refused(METHOD_NOT_ALLOWED, f"{path} takes {', '.join(allowed)}", allow=allowed)
        if parts and not parts[-1] and self._router.allowed(parts[:-1]):
            return Refused(NOT_FOUND, f"there is no path {path}; without the slash at its end there is")
        return Refused(NOT_FOUND, f"there is no path {path}")


def stand_in(access: Access) -> Query:
    """What stands for a declaration where only the caller's key and space are judged."""
    return Query(
        name=NAME,
        method="",
        path="",
        access=access,
        permissions=NONE,
        request=Request,
        answer=Answer,
        errors=(),
        topics=None,
        settled=None,
        again=None,
        doc="",
        answer_from=_never,
    )


def _never(*_: object) -> Answer:
    raise AssertionError("nothing stands behind this path")
