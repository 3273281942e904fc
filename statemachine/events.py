"""Events: what happened, kept as records, so that none is lost, doubled or reordered at any node.

An event belongs to the entry that caused it. A space keeps the newest ones up to its bounds on number and age; the
floor says up to where older ones are gone, so that a reader behind it gets CURSOR_EXPIRED instead of a gap.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

import msgspec

from statemachine.store import Due, Ordered, Store, Table
from statemachine.types import Record

_encode = msgspec.json.Encoder().encode

TRIM = 256  # events dropped at once; a space may hold that many more than its bound
DAY_MS = 86_400_000


class Event(Record, frozen=True):
    space: str
    position: int
    type: str
    aggregate_type: str
    aggregate_id: str
    scope_id: str | None
    created_at_ms: int
    payload: bytes  # JSON


class Retention(Record, frozen=True):
    """How many and how old events of a space may be, and where what is kept begins."""

    space: str
    count_max: int
    age_max_ms: int
    floor: int  # events at or below this position are gone
    sweep_at_ms: int


IN_SPACE: Ordered[Event] = Ordered(group=lambda e: e.space, order=lambda e: e.position, rising=True)

EVENTS = Table(
    "events",
    Event,
    key=lambda e: (e.space, e.position),
    topic=lambda e: e.space,
    indexes=(IN_SPACE,),
)


def append(
    store: Store,
    space: str,
    position: int,
    wall_now_ms: int,
    type_: str,
    aggregate: tuple[str, str],
    scope_id: str | None,
    payload: Mapping[str, Any],
) -> None:
    """Add one event and drop the oldest ones over the space's bound."""
    rows = store.rows(EVENTS)
    rows.put(Event(space, position, type_, *aggregate, scope_id, wall_now_ms, _encode(payload)))
    retention = store.rows(RETENTION).get(space)
    if retention is not None and rows.count(IN_SPACE, space) >= retention.count_max + TRIM:
        _drop(store, retention, keep_from_ms=wall_now_ms + 1)


def retain(store: Store, space: str, count_max: int, age_max_days: int, wall_now_ms: int) -> None:
    """Set the bounds of a space: at its creation, or changed by the operator."""
    old = store.rows(RETENTION).get(space)
    floor = 0 if old is None else old.floor
    store.rows(RETENTION).put(
        Retention(
            space=space,
            count_max=count_max,
            age_max_ms=age_max_days * DAY_MS,
            floor=floor,
            sweep_at_ms=wall_now_ms + DAY_MS // 24,
        )
    )


def floor(store: Store, space: str) -> int:
    """The position up to which the events of the space are gone."""
    retention = store.rows(RETENTION).get(space)
    return 0 if retention is None else retention.floor


def remove(store: Store, space: str, budget: int) -> int:
    """Delete events of a space that is going, then its retention. Returns records deleted; below budget: all."""
    rows = store.rows(EVENTS)
    found = [event.position for event in islice(rows.ordered(IN_SPACE, space), budget)]
    for position in found:
        rows.delete((space, position))
    if len(found) < budget and space in store.rows(RETENTION):
        store.rows(RETENTION).delete(space)
    return len(found)


def _drop(store: Store, retention: Retention, keep_from_ms: int) -> int:
    """Drop up to TRIM of the oldest events made before keep_from_ms; returns how many."""
    rows = store.rows(EVENTS)
    oldest: list[Event] = []
    for event in rows.ordered(IN_SPACE, retention.space):
        if len(oldest) == TRIM or event.created_at_ms >= keep_from_ms:
            break
        oldest.append(event)
    for event in oldest:
        rows.delete((event.space, event.position))
    if oldest:
        store.rows(RETENTION).put(msgspec.structs.replace(retention, floor=oldest[-1].position))
    return len(oldest)


def _sweep(context: Any, retention: Retention) -> None:
    dropped = _drop(context.store, retention, keep_from_ms=context.wall_now_ms - retention.age_max_ms)
    rows = context.rows(RETENTION)
    pause_ms = 0 if dropped == TRIM else DAY_MS // 24
    rows.put(msgspec.structs.replace(rows[retention.space], sweep_at_ms=context.wall_now_ms + max(1, pause_ms)))


RETENTION = Table(
    "event_retention",
    Retention,
    key=lambda r: r.space,
    due=(Due("events.sweep", "wall", at=lambda r: r.sweep_at_ms, run=_sweep),),
)
