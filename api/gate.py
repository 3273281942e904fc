"""Who may ask, judged behind a read index: for everything that apply does not judge itself.

Only what stands behind a read index may become a 401, 403 or 404. An operation of an unknown key would be refused by
apply as well, but as an entry in every node's log, so that callers without a key could fill it; they stop here.
"""

from __future__ import annotations

from api.call import Call
from api.replica import Replica
from statemachine import idempotency
from statemachine.authorize import identify, permit
from statemachine.declare import Access, Operation, Query
from statemachine.entry import OPERATOR
from statemachine.errors import Refused
from statemachine.keys import BY_HASH, KEYS, ApiKey
from statemachine.machine import Outcome


class Gate:
    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    def is_known(self, call: Call, declared: Operation) -> bool:
        """Whether the caller's key is one, as far as this node knows; only then the operation is worth an entry."""
        if (call.actor == OPERATOR) != (declared.access is Access.OPERATOR):
            return False
        return call.actor == OPERATOR or self._replica.machine.store.rows(KEYS).find(BY_HASH, call.actor) is not None

    async def require(self, call: Call, declared: Operation | Query) -> ApiKey | None:
        """The key of the call, None for the operator.

        Raises UNAUTHENTICATED, FORBIDDEN, SPACE_SUSPENDED or Unavailable.
        """
        await self._replica.read(call.deadline)
        machine = self._replica.machine
        call.read_index = machine.index
        return identify(machine.view(call.space, call.actor), declared)

    async def admit(self, call: Call, declared: Operation | Query) -> Outcome | None:
        """Everything that is checked before the validity of a call: key and space, idempotency record, permission.

        Returns the kept answer when the same request was answered before. Raises what `require` raises, FORBIDDEN or
        IDEMPOTENCY_CONFLICT.
        """
        key = await self.require(call, declared)
        if isinstance(declared, Operation) and not declared.repeatable and (keyed := _idempotency(call)) is not None:
            view = self._replica.machine.view(call.space, call.actor)
            answered = idempotency.recall(view, *keyed)
            if answered is not None:
                return Outcome(answered.status, "", answered.body, answered.index, answered.position, replayed=True)
        permit(key, declared)
        return None


def _idempotency(call: Call) -> tuple[str, bytes] | None:
    try:
        return call.idempotency()
    except Refused:
        return None
