"""API keys of a space. Only the SHA-256 of a secret is ever kept; the secret is made at the node and shown once.

A key stops at every node with the entry that revokes it, or once wall time has reached its expiry. Keys are made and
revoked by the operator, or by an `admin` key for its own space.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from statemachine import spaces
from statemachine.context import Context, View
from statemachine.declare import ADMIN, Access, Permission, operation, query
from statemachine.errors import CONFLICT, NOT_FOUND, RESOURCE_EXHAUSTED, VALIDATION_FAILED, Refused
from statemachine.paging import page
from statemachine.store import Due, Ordered, Table, Unique
from statemachine.types import (
    LIST_LIMIT_DEFAULT,
    Answer,
    Cursor,
    Id,
    Limit,
    Name,
    Record,
    Request,
    Time,
    time_ms,
    time_text,
)

PERMISSIONS_DEFAULT = (Permission.WORK, Permission.RESOURCE_CONFIG, Permission.READ)
KEYS_MAX = 10_000  # of one space
EXPIRED_KEPT_MS = 30 * 86_400_000  # wall time for which an expired key is still listed
HASH_BYTES = 32


class ApiKey(Record, frozen=True):
    id: str
    space: str
    name: str | None
    hash: bytes
    permissions: tuple[str, ...]  # sorted
    expires_at_ms: int | None  # wall time
    created_at_ms: int


def _forget(context: Context, key: ApiKey) -> None:
    context.rows(KEYS).delete(key.id)


BY_HASH: Unique[ApiKey] = Unique(by=lambda k: k.hash)
IN_SPACE: Ordered[ApiKey] = Ordered(group=lambda k: k.space, order=lambda k: k.id)

KEYS = Table(
    "keys",
    ApiKey,
    key=lambda k: k.id,
    space=lambda k: k.space,
    indexes=(BY_HASH, IN_SPACE),
    due=(
        Due(
            "keys.forget",
            "wall",
            at=lambda k: None if k.expires_at_ms is None else k.expires_at_ms + EXPIRED_KEPT_MS,
            run=_forget,
        ),
    ),
)


class CreateKey(Request, frozen=True):
    """hash: SHA-256 of the secret, filled in by the node."""

    name: Name | None = None
    permissions: Annotated[tuple[Permission, ...], Meta(min_length=1)] | None = None
    expires_at: Time | None = None
    hash: bytes = b""


class CreateKeyOf(CreateKey, frozen=True, kw_only=True):
    space_id: Id


class ListKeys(Request, frozen=True):
    limit: Limit = LIST_LIMIT_DEFAULT
    cursor: Cursor | None = None


class ListKeysOf(ListKeys, frozen=True, kw_only=True):
    space_id: Id


class RevokeKey(Request, frozen=True):
    key_id: Id


class RevokeKeyOf(RevokeKey, frozen=True, kw_only=True):
    space_id: Id


class KeyView(Answer, frozen=True, kw_only=True):
    """key: the secret, added by the node to the first answer to its creation; nothing shows it again."""

    id: str
    key: str | UnsetType = UNSET
    space_id: str
    name: str | None
    permissions: list[str]
    expires_at: str | None
    created_at: str


class Keys(Answer, frozen=True):
    keys: list[KeyView]
    next_cursor: str | None


class Revoked(Answer, frozen=True):
    id: str
    revoked: bool


def _view(key: ApiKey) -> KeyView:
    return KeyView(
        id=key.id,
        space_id=key.space,
        name=key.name,
        permissions=list(key.permissions),
        expires_at=None if key.expires_at_ms is None else time_text(key.expires_at_ms),
        created_at=time_text(key.created_at_ms),
    )


def _create(context: Context, space_id: str, request: CreateKey) -> KeyView:
    rows = context.rows(KEYS)
    assert len(request.hash) == HASH_BYTES, "the node fills in the hash"
    expires_at_ms = None if request.expires_at is None else time_ms(request.expires_at)
    if expires_at_ms is not None and expires_at_ms <= context.wall_now_ms:
        raise Refused(VALIDATION_FAILED, f"expiresAt: must be after now, which is {time_text(context.wall_now_ms)}")
    if rows.find(BY_HASH, request.hash) is not None:
        raise Refused(CONFLICT, "this secret is in use already; ask again for another")
    if rows.count(IN_SPACE, space_id) >= KEYS_MAX:
        raise Refused(RESOURCE_EXHAUSTED, f"the space has its maximum of {KEYS_MAX} keys; revoke some first")
    key = ApiKey(
        id=context.new_id("key"),
        space=space_id,
        name=request.name,
        hash=request.hash,
        permissions=tuple(sorted(set(request.permissions or PERMISSIONS_DEFAULT))),
        expires_at_ms=expires_at_ms,
        created_at_ms=context.wall_now_ms,
    )
    rows.put(key)
    context.mark_created()
    return _view(key)


def _list(view: View, space_id: str, request: ListKeys) -> Keys:
    rows, cursor = page(view.rows(KEYS), IN_SPACE, space_id, request.limit, request.cursor)
    return Keys(keys=[_view(row) for row in rows], next_cursor=cursor)


def _revoke(context: Context, space_id: str, request: RevokeKey) -> Revoked:
    key = context.rows(KEYS).get(request.key_id)
    if key is None or key.space != space_id:
        raise Refused(NOT_FOUND, f"there is no key {request.key_id!r} in this space")
    context.rows(KEYS).delete(key.id)
    return Revoked(id=key.id, revoked=True)


# ---------------------------------------------------------------------- with an admin key of the space

_CREATE_ERRORS = (CONFLICT, RESOURCE_EXHAUSTED)


@operation("keys.create", "POST /keys", permissions=ADMIN, errors=_CREATE_ERRORS, front_fields=("hash",))
def create(context: Context, request: CreateKey) -> KeyView:
    """Make an API key of this space. Its secret is in this answer alone."""
    return _create(context, context.space, request)


@query("keys.list", "GET /keys", permissions=ADMIN)
def list_all(view: View, request: ListKeys) -> Keys:
    """The keys of this space, oldest first, without their secrets."""
    return _list(view, view.space, request)


@operation("keys.revoke", "DELETE /keys/{keyId}", permissions=ADMIN, urgent=True, errors=(NOT_FOUND,))
def revoke(context: Context, request: RevokeKey) -> Revoked:
    """End a key of this space at once, at every node."""
    return _revoke(context, context.space, request)


# ---------------------------------------------------------------------- with the operator key


@operation(
    "spaces.create-key",
    "POST /spaces/{spaceId}/keys",
    access=Access.OPERATOR,
    errors=(NOT_FOUND, *_CREATE_ERRORS),
    front_fields=("hash",),
)
def create_of(context: Context, request: CreateKeyOf) -> KeyView:
    """Make an API key of a space. Its secret is in this answer alone."""
    return _create(context, spaces.find(context, request.space_id).id, request)


@query("spaces.list-keys", "GET /spaces/{spaceId}/keys", access=Access.OPERATOR, errors=(NOT_FOUND,))
def list_of(view: View, request: ListKeysOf) -> Keys:
    """The keys of a space, oldest first, without their secrets."""
    return _list(view, spaces.find(view, request.space_id).id, request)


@operation("spaces.revoke-key", "DELETE /spaces/{spaceId}/keys/{keyId}", access=Access.OPERATOR, errors=(NOT_FOUND,))
def revoke_of(context: Context, request: RevokeKeyOf) -> Revoked:
    """End a key of a space at once, at every node."""
    return _revoke(context, spaces.find(context, request.space_id).id, request)
