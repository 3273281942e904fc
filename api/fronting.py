"""Operations with fields that the node fills in: the hash of a new key's secret, the incarnation of a member.

The secret is made here, goes into this one answer and nowhere else: not into the log, not into the idempotency record,
so that a replay comes without it.
"""

from __future__ import annotations

import json
import secrets
from base64 import b64encode
from collections.abc import Awaitable, Callable
from hashlib import sha256

from api.call import Call
from api.replica import Replica
from statemachine.declare import Operation
from statemachine.errors import UNAVAILABLE, Refused
from statemachine.machine import Outcome

SECRET_BYTES = 32
SECRET_PREFIX = "rsk_"

Propose = Callable[[Operation, Call, tuple[str, bytes] | None, bytes], Awaitable[Outcome]]


class Fronting:
    def __init__(self, declared: Operation, replica: Replica) -> None:
        assert declared.front_fields in (("hash",), ("incarnation",)), declared.name
        self._declared = declared
        self._replica = replica

    async def run(
        self, call: Call, idempotency: tuple[str, bytes] | None, arguments: bytes, propose: Propose
    ) -> Outcome:
        """Propose the operation with what the node adds, and add to its first answer what only the caller may see."""
        if self._declared.front_fields == ("incarnation",):
            return await propose(self._declared, call, idempotency, self._with_incarnation(call, arguments))
        secret = SECRET_PREFIX + secrets.token_urlsafe(SECRET_BYTES)
        hashed = b64encode(sha256(secret.encode()).digest()).decode()
        outcome = await propose(self._declared, call, idempotency, _with(arguments, "hash", hashed))
        if outcome.status >= 400 or outcome.replayed:
            return outcome
        return Outcome(outcome.status, "", _with(outcome.body, "key", secret), outcome.index, outcome.position)

    def _with_incarnation(self, call: Call, arguments: bytes) -> bytes:
        (node_id,) = call.values
        if node_id not in self._replica.machine.member_ids():
            return arguments  # the machine says that there is no such member
        incarnation = self._replica.incarnation_of(node_id)
        if incarnation is None:
            raise Refused(UNAVAILABLE, f"{node_id} is not connected to this node; start it, or ask another node")
        return _with(arguments, "incarnation", incarnation)


def _with(body: bytes, name: str, value: str | int) -> bytes:
    """The JSON object with one more field."""
    separator = b"" if body == b"{}" else b","
    return body[:-1] + separator + f'"{name}":{json.dumps(value)}}}'.encode()
