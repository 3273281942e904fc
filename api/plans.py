"""The bound of a space's plan on payloads, as this node knows it.

It may be a moment behind. A call that it refuses is judged again behind a read index; one that it lets through although
the bound was just lowered arrived before that bound was in force everywhere.
"""

from __future__ import annotations

from api.replica import Replica
from statemachine.organizations import ORGANIZATIONS
from statemachine.spaces import SPACES
from statemachine.types import PAYLOAD_BYTES_MAX


class Plans:
    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    def payload_bytes_max(self, space_id: str) -> int:
        store = self._replica.machine.store
        space = store.rows(SPACES).get(space_id)
        organization = None if space is None else store.rows(ORGANIZATIONS).get(space.organization_id)
        bound = None if organization is None else organization.plan.payload_bytes
        return PAYLOAD_BYTES_MAX if bound is None else min(bound, PAYLOAD_BYTES_MAX)
