"""Who may do what: judged where the operation is applied, or behind a read index, never from unconfirmed state.

The order is fixed, so that an answer gives nothing away: is there a key (401), is it of this space (403), is the space
open (403); then idempotency; then the permission (403).
"""

from __future__ import annotations

from statemachine.context import View
from statemachine.declare import Access, Operation, Permission, Query
from statemachine.entry import OPERATOR, SYSTEM
from statemachine.errors import FORBIDDEN, SPACE_SUSPENDED, UNAUTHENTICATED, Refused
from statemachine.keys import BY_HASH, KEYS, ApiKey
from statemachine.spaces import SPACES


def identify(view: View, declared: Operation | Query) -> ApiKey | None:
    """The key behind the request; None for the operator and the cluster itself.

    Raises UNAUTHENTICATED, FORBIDDEN (another space, or the operator's call without the operator's key) or
    SPACE_SUSPENDED.
    """
    actor = view.actor
    if actor in (OPERATOR, SYSTEM):
        if actor == SYSTEM and declared.access is Access.SYSTEM:
            return None
        if actor == OPERATOR and declared.access is Access.OPERATOR:
            return None
        raise Refused(UNAUTHENTICATED, "this call needs an API key of the space")
    key = view.rows(KEYS).find(BY_HASH, actor)
    space = None if key is None else view.rows(SPACES).get(key.space)
    expired = key is not None and key.expires_at_ms is not None and key.expires_at_ms <= view.wall_now_ms
    if key is None or space is None or space.deleted or expired:
        raise Refused(UNAUTHENTICATED, "the API key is unknown, expired or revoked")
    if declared.access is Access.OPERATOR:
        raise Refused(FORBIDDEN, "this call needs the operator key")
    if declared.access is not Access.KEY:
        if key.space != view.space:
            raise Refused(FORBIDDEN, "the API key belongs to another space")
        if space.suspended:
            raise Refused(SPACE_SUSPENDED, "the space is suspended; ask the operator")
    return key


def permit(key: ApiKey | None, declared: Operation | Query, permissions: frozenset[Permission] | None = None) -> None:
    """Raises FORBIDDEN when the key has none of the permissions that the call needs.

    permissions: what is needed instead of what is declared, for a part of the call that needs less.
    """
    needs = declared.permissions if permissions is None else permissions
    if key is None or declared.access in (Access.SYSTEM, Access.KEY) or not needs:
        return
    if needs.isdisjoint(key.permissions):
        needed = " or ".join(sorted(needs))
        raise Refused(FORBIDDEN, f"the API key lacks the permission {needed}")
