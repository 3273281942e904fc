"""Looks inside a store: its records, and everything that is derived from them, in a form that compares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from statemachine.store import Rows, Store, Usage


def snapshot(store: Store) -> dict[str, Any]:
    """Records and everything derived from them; records are shared, not copied, for they never change."""
    state: dict[str, Any] = {f"records {rows.table.name}": dict(rows._records) for rows in store._rows.values()}
    state.update(derived(store))
    return state


def derived(store: Store) -> dict[str, Any]:
    """Indexes, due items and sums."""
    state: dict[str, Any] = {}
    for rows in store._rows.values():
        for number, index in enumerate(rows._index_list):
            state[f"index {rows.table.name} {number}"] = _index(index)
    for clock, items in store.due.items():
        state[f"due {clock}"] = dict(items._at)
    state["usage"] = {space: (usage.records, usage.bytes) for space, usage in store.usage.items()}
    return state


def rebuilt(store: Store) -> dict[str, Any]:
    """What `derived` ought to be, worked out from the records alone by a fresh store."""
    fresh = Store()
    fresh.load(store.dump())
    return derived(fresh)


def counted(store: Store) -> dict[str, tuple[int, int]]:
    """The sums per space, added up anew, apart from the store's own code."""
    sums: dict[str, Usage] = {}
    for rows in store._rows.values():
        _count(rows, sums)
    return {space: (usage.records, usage.bytes) for space, usage in sums.items()}


def overdue(store: Store, clock: str, now_ms: int) -> list[tuple[int, str, Any]]:
    """Every item of the clock that is due by now, worked out from the records alone, in order."""
    return sorted(
        (at_ms, due.kind, key)
        for rows in store._rows.values()
        for due in rows.table.due
        if due.clock == clock
        for key, record in rows._records.items()
        if (at_ms := due.at(record)) is not None and at_ms <= now_ms
    )


def differences(left: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, Any]:
    """The parts in which two states differ, each as (only left, only right)."""
    found: dict[str, Any] = {}
    for name in sorted({*left, *right}):
        one, two = left.get(name, {}), right.get(name, {})
        if one != two:
            found[name] = (
                {key: value for key, value in one.items() if two.get(key) != value},
                {key: value for key, value in two.items() if one.get(key) != value},
            )
    return found


def _count(rows: Rows[Any], sums: dict[str, Usage]) -> None:
    if rows.table.space is None:
        return
    for record in rows._records.values():
        usage = sums.setdefault(rows.table.space(record), Usage())
        usage.records += 1
        usage.bytes += rows.table.weight(record)


def _index(index: Any) -> dict[Any, Any]:
    for name in ("keys", "sums"):
        if hasattr(index, name):
            return dict(getattr(index, name))
    return {group: list(members) for group, members in index.groups.items()}
