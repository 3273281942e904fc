"""API keys of a space. Only the SHA-256 of a secret is ever kept; the secret is made at the node and shown once."""

from __future__ import annotations

from statemachine.store import Ordered, Table, Unique
from statemachine.types import Record


class ApiKey(Record, frozen=True):
    id: str
    space: str
    name: str | None
    hash: bytes
    permissions: tuple[str, ...]  # sorted
    expires_at_ms: int | None  # wall time
    created_at_ms: int


BY_HASH: Unique[ApiKey] = Unique(by=lambda k: k.hash)
IN_SPACE: Ordered[ApiKey] = Ordered(group=lambda k: k.space, order=lambda k: k.id)

KEYS = Table("keys", ApiKey, key=lambda k: k.id, space=lambda k: k.space, indexes=(BY_HASH, IN_SPACE))
