"""Deleting a space: it stops at once, and what it kept is removed in bounded steps.

From the entry of the deletion on, the space is not found, and its keys are unknown. The steps remove its runs with all
that is in them, then what other primitives keep beside the runs, its keys and events, and the space itself at the end.
The audit record keeps what was ever done to it.
"""

from __future__ import annotations

import msgspec

from statemachine import dependents, events, keys, scopes, spaces
from statemachine.context import Context
from statemachine.declare import Access, operation
from statemachine.errors import NOT_FOUND
from statemachine.spaces import SPACES
from statemachine.store import Due, Table
from statemachine.types import Answer, Id, Record, Request

STEP_RECORDS = 256


class Deletion(Record, frozen=True):
    """A space that is being removed. at_ms: lease time of the next step."""

    space: str
    at_ms: int


def _step(context: Context, deletion: Deletion) -> None:
    space = deletion.space
    context.space = space
    left = STEP_RECORDS
    while left > 0 and (scope := context.rows(scopes.SCOPES).first(scopes.IN_SPACE, space)) is not None:
        left -= scopes.remove_subtree(context, scope.id, left)  # the oldest run has none above it
    left -= dependents.remove_of_space(context, space, max(left, 0))
    left -= events.remove(context.store, space, max(left, 0))
    if left > 0:
        context.rows(SPACES).delete(space)
        context.rows(DELETIONS).delete(space)
    else:
        context.rows(DELETIONS).put(msgspec.structs.replace(deletion, at_ms=context.lease_now_ms + 1))


DELETIONS = Table(
    "space_deletions",
    Deletion,
    key=lambda d: d.space,
    due=(Due("spaces.delete", "lease", at=lambda d: d.at_ms, run=_step),),
)

dependents.of_space("keys", dependents.deleting(keys.KEYS, keys.IN_SPACE))


class DeleteSpace(Request, frozen=True):
    space_id: Id


class Deleted(Answer, frozen=True):
    id: str
    deleted: bool


@operation("spaces.delete", "DELETE /spaces/{spaceId}", access=Access.OPERATOR, errors=(NOT_FOUND,))
def delete(context: Context, request: DeleteSpace) -> Deleted:
    """Delete a space with everything in it. Its keys stop at once; the rest follows in the background."""
    space = spaces.find(context, request.space_id)
    context.rows(SPACES).put(msgspec.structs.replace(space, deleted=True))
    context.rows(DELETIONS).put(Deletion(space=space.id, at_ms=context.lease_now_ms))
    return Deleted(id=space.id, deleted=True)
