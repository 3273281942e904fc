"""What a key is: its space and what it may do there."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from statemachine.context import View
from statemachine.declare import ANY, Access, query
from statemachine.keys import BY_HASH, KEYS
from statemachine.spaces import SPACES
from statemachine.types import Answer, Request, time_text


class WhoAmI(Request, frozen=True):
    pass


class Identity(Answer, frozen=True):
    space_id: str
    space_name: str
    key_id: str
    name: str | None
    permissions: list[str]
    expires_at: str | UnsetType = UNSET


@query("whoami", "GET /whoami", access=Access.KEY, permissions=ANY)
def whoami(view: View, request: WhoAmI) -> Identity:
    """The space, name and permissions of the key that asks; also while its space is suspended."""
    key = view.rows(KEYS).find(BY_HASH, view.actor)
    assert key is not None  # whoever asks was identified by it
    return Identity(
        space_id=key.space,
        space_name=view.rows(SPACES)[key.space].name,
        key_id=key.id,
        name=key.name,
        permissions=list(key.permissions),
        expires_at=UNSET if key.expires_at_ms is None else time_text(key.expires_at_ms),
    )
