"""Spaces: projects or environments of an organization. Everything but the cluster itself lives in one."""

from __future__ import annotations

from statemachine.store import Ordered, Table
from statemachine.types import Record


class Settings(Record, frozen=True):
    """What an operator may set of a space. Days are wall time; the others are counts, bytes and seconds."""

    max_hold_seconds: int = 86_400
    max_lapses: int = 20
    max_records: int = 5_000_000
    max_bytes: int = 8 << 30
    result_days: int = 30
    event_days: int = 7
    event_count: int = 100_000


class Space(Record, frozen=True):
    id: str
    name: str
    organization_id: str
    settings: Settings
    suspended: bool
    created_at_ms: int


ALL: Ordered[Space] = Ordered(group=lambda _: 0, order=lambda s: s.id)

SPACES = Table("spaces", Space, key=lambda s: s.id, indexes=(ALL,))
