"""Indexes over the records of a table: how they are declared, and the structures that follow the records.

Derived from records alone, rebuilt on load, never stored. A `move` either completes or raises before it has changed
anything; `Rows` relies on that to take back a change that failed half way. What stays where it was costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from sortedcontainers import SortedList

from statemachine.rising import RisingList
from statemachine.types import Record

R = TypeVar("R", bound=Record)


@dataclass(frozen=True, eq=False)
class Unique(Generic[R]):
    """Finds at most one record by another value than its key; None leaves a record out."""

    by: Callable[[R], Hashable | None]


@dataclass(frozen=True, eq=False)
class Ordered(Generic[R]):
    """The keys of a group's records in order. `order` must end in something unique within the group.

    rising: nearly every new record goes to the end of its group, and the first ones go first.
    """

    group: Callable[[R], Hashable | None]
    order: Callable[[R], Any]
    rising: bool = False


@dataclass(frozen=True, eq=False)
class Tally(Generic[R]):
    """A sum over the records of a group; 0 for a group that has none."""

    group: Callable[[R], Hashable | None]
    amount: Callable[[R], int] = lambda _: 1


class Index(Protocol):
    """A derived structure that follows the records of one table in one store."""

    def move(self, key: Any, old: Any, new: Any) -> None:
        """Follow a change of the record of a key; None where there was, or is, none."""


class UniqueIndex:
    def __init__(self, declared: Unique[Any]) -> None:
        self.by = declared.by
        self.keys: dict[Hashable, Any] = {}

    def move(self, key: Any, old: Any, new: Any) -> None:
        before = None if old is None else self.by(old)
        after = None if new is None else self.by(new)
        if before == after:
            return
        if after is not None:
            assert after not in self.keys, (after, key, self.keys[after])
            self.keys[after] = key
        if before is not None:
            del self.keys[before]


class OrderedIndex:
    def __init__(self, declared: Ordered[Any]) -> None:
        self.group, self.order = declared.group, declared.order
        self.groups: dict[Hashable, Any] = {}  # a SortedList each, or a RisingList
        self.members = RisingList if declared.rising else SortedList

    def move(self, key: Any, old: Any, new: Any) -> None:
        before = None if old is None else self.group(old)
        after = None if new is None else self.group(new)
        place = None if after is None else self.order(new)
        if before is not None:
            left = self.order(old)
            if before == after and left == place:
                return
        if after is not None:
            members = self.groups.get(after)
            if members is None:
                members = self.groups[after] = self.members()
            members.add((place, key))
        if before is not None:
            members = self.groups[before]
            members.remove((left, key))
            if not members:
                del self.groups[before]


class TallyIndex:
    def __init__(self, declared: Tally[Any]) -> None:
        self.group, self.amount = declared.group, declared.amount
        self.sums: dict[Hashable, int] = {}

    def move(self, key: Any, old: Any, new: Any) -> None:
        before = None if old is None else self.group(old)
        after = None if new is None else self.group(new)
        less = 0 if before is None else -self.amount(old)
        more = 0 if after is None else self.amount(new)
        if after is not None:
            self._count(after, more)
        if before is not None:
            self._count(before, less)

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
