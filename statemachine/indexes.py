"""Indexes over the records of a table: how they are declared, and the structures that follow the records.

Derived from records alone, rebuilt on load, never stored. Each `add` and `remove` either completes or raises before it
has changed anything; `Rows` relies on that to take back a change that failed half way.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from sortedcontainers import SortedList

from statemachine.types import Record

R = TypeVar("R", bound=Record)


@dataclass(frozen=True, eq=False)
class Unique(Generic[R]):
    """Finds at most one record by another value than its key; None leaves a record out."""

    by: Callable[[R], Hashable | None]


@dataclass(frozen=True, eq=False)
class Ordered(Generic[R]):
    """The keys of a group's records in order. `order` must end in something unique within the group."""

    group: Callable[[R], Hashable | None]
    order: Callable[[R], Any]


@dataclass(frozen=True, eq=False)
class Tally(Generic[R]):
    """A sum over the records of a group; 0 for a group that has none."""

    group: Callable[[R], Hashable | None]
    amount: Callable[[R], int] = lambda _: 1


class Index(Protocol):
    """A derived structure that follows the records of one table in one store."""

    def remove(self, key: Any, record: Any) -> None: ...

    def add(self, key: Any, record: Any) -> None: ...


class UniqueIndex:
    def __init__(self, declared: Unique[Any]) -> None:
        self.by = declared.by
        self.keys: dict[Hashable, Any] = {}

    def remove(self, key: Any, record: Any) -> None:
        value = self.by(record)
        if value is not None:
            del self.keys[value]

    def add(self, key: Any, record: Any) -> None:
        value = self.by(record)
        if value is not None:
            assert value not in self.keys, (value, key, self.keys[value])
            self.keys[value] = key


class OrderedIndex:
    def __init__(self, declared: Ordered[Any]) -> None:
        self.group, self.order = declared.group, declared.order
        self.groups: dict[Hashable, SortedList[Any]] = {}

    def remove(self, key: Any, record: Any) -> None:
        group = self.group(record)
        if group is not None:
            members = self.groups[group]
            members.remove((self.order(record), key))
            if not members:
                del self.groups[group]

    def add(self, key: Any, record: Any) -> None:
        group = self.group(record)
        if group is not None:
            members = self.groups.get(group)
            if members is None:
                members = self.groups[group] = SortedList()
            members.add((self.order(record), key))


class TallyIndex:
    def __init__(self, declared: Tally[Any]) -> None:
        self.group, self.amount = declared.group, declared.amount
        self.sums: dict[Hashable, int] = {}

    def remove(self, key: Any, record: Any) -> None:
        group = self.group(record)
        if group is not None:
            self._count(group, -self.amount(record))

    def add(self, key: Any, record: Any) -> None:
        group = self.group(record)
        if group is not None:
            self._count(group, self.amount(record))

    def _count(self, group: Hashable, amount: int) -> None:
        total = self.sums.get(group, 0) + amount
        if total:
            self.sums[group] = total
        else:  # a sum of 0 is not kept, so that equal records have equal sums
            self.sums.pop(group, None)


def build(declared: Unique[Any] | Ordered[Any] | Tally[Any]) -> Index:
    match declared:
        case Unique():
            return UniqueIndex(declared)
        case Ordered():
            return OrderedIndex(declared)
        case Tally():
            return TallyIndex(declared)
