"""Tables of immutable records, behind one door.

A record changes only by `Rows.put` and `Rows.delete`; both keep the undo list, the indexes, the due items and the sums
per space. Everything but the records is derived from them and never stored: a store loaded from a dump equals the store
that was dumped. Nothing here may depend on the order in which a dict was filled.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import msgspec
from sortedcontainers import SortedList

from statemachine.due import DueItems
from statemachine.types import Record

R = TypeVar("R", bound=Record)
Topic: TypeAlias = tuple[str, Any]  # (table name, what a waiting reader of it names)


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


@dataclass(frozen=True, eq=False)
class Due(Generic[R]):
    """Something to do with a record once its time has come; `at` is None while there is nothing.

    clock: "lease" or "wall". run must change the record so that it is not due any more at the same time.
    """

    kind: str
    clock: str
    at: Callable[[R], int | None]
    run: Callable[[Any, R], None]  # (Context, record)


@dataclass(frozen=True, eq=False)
class Table(Generic[R]):
    """The declaration of a table. Declared once at import; `TABLES` has all of them.

    key: the record's key, a str or a tuple of str and int, of one shape. space: the space that the record counts for,
    None for what no space pays for. weight: its size in bytes for the space's bound, roughly, from the record alone.
    topic: what a reader who waits for a change of the record names; by default the key.
    """

    name: str
    record: type[R]
    key: Callable[[R], Any]
    space: Callable[[R], str] | None = None
    weight: Callable[[R], int] = lambda _: 256
    topic: Callable[[R], Any] | None = None
    indexes: tuple[Unique[R] | Ordered[R] | Tally[R], ...] = ()
    due: tuple[Due[R], ...] = ()

    def __post_init__(self) -> None:
        assert self.name not in TABLES, self.name
        TABLES[self.name] = self
        for due in self.due:
            assert due.clock in ("lease", "wall"), due
            assert due.kind not in DUE_KINDS, due.kind
            DUE_KINDS[due.kind] = (self, due)


TABLES: dict[str, Table[Any]] = {}
DUE_KINDS: dict[str, tuple[Table[Any], Due[Any]]] = {}


class _Index(Protocol):
    def remove(self, key: Any, record: Any) -> None: ...
    def add(self, key: Any, record: Any) -> None: ...


class _UniqueIndex:
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


class _OrderedIndex:
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


class _TallyIndex:
    def __init__(self, declared: Tally[Any]) -> None:
        self.group, self.amount = declared.group, declared.amount
        self.sums: dict[Hashable, int] = {}

    def remove(self, key: Any, record: Any) -> None:
        group = self.group(record)
        if group is not None:
            left = self.sums[group] - self.amount(record)
            if left:
                self.sums[group] = left
            else:
                del self.sums[group]

    def add(self, key: Any, record: Any) -> None:
        group = self.group(record)
        if group is not None:
            amount = self.amount(record)
            if amount:
                self.sums[group] = self.sums.get(group, 0) + amount


def _build(declared: Unique[Any] | Ordered[Any] | Tally[Any]) -> _Index:
    match declared:
        case Unique():
            return _UniqueIndex(declared)
        case Ordered():
            return _OrderedIndex(declared)
        case Tally():
            return _TallyIndex(declared)


@dataclass(slots=True)
class Usage:
    """What a space keeps: number of records and their rough size in bytes."""

    records: int = 0
    bytes: int = 0


Change: TypeAlias = tuple["Rows[Any]", Any, Any, Any]  # rows, key, old record, new record


class Rows(Generic[R]):
    """The records of one table in one store."""

    def __init__(self, table: Table[R], store: Store) -> None:
        self.table = table
        self._store = store
        self._records: dict[Any, R] = {}
        self._indexes: dict[Any, _Index] = {declared: _build(declared) for declared in table.indexes}
        self._index_list = tuple(self._indexes.values())
        self._due = tuple((due.kind, due.at, store.due[due.clock]) for due in table.due)

    def __len__(self) -> int:
        return len(self._records)

    def get(self, key: Any) -> R | None:
        return self._records.get(key)

    def __getitem__(self, key: Any) -> R:
        return self._records[key]

    def __contains__(self, key: Any) -> bool:
        return key in self._records

    def put(self, record: R) -> R:
        """Add the record, or replace the one of its key. Returns it."""
        key = self.table.key(record)
        self._change(key, self._records.get(key), record)
        return record

    def delete(self, key: Any) -> None:
        """Remove an existing record."""
        self._change(key, self._records[key], None)

    def find(self, index: Unique[R], value: Hashable) -> R | None:
        found = self._indexes[index]
        assert isinstance(found, _UniqueIndex)
        key = found.keys.get(value)
        return None if key is None else self._records[key]

    def tally(self, index: Tally[R], group: Hashable) -> int:
        found = self._indexes[index]
        assert isinstance(found, _TallyIndex)
        return found.sums.get(group, 0)

    def count(self, index: Ordered[R], group: Hashable) -> int:
        found = self._indexes[index]
        assert isinstance(found, _OrderedIndex)
        members = found.groups.get(group)
        return 0 if members is None else len(members)

    def ordered(self, index: Ordered[R], group: Hashable, after: Any = None) -> Iterator[R]:
        """The group's records in order, behind the given order value; nothing may change while it is read."""
        found = self._indexes[index]
        assert isinstance(found, _OrderedIndex)
        members = found.groups.get(group)
        if members is None:
            return
        start = 0
        if after is not None:
            start = members.bisect_left((after,))
            while start < len(members) and members[start][0] == after:
                start += 1
        for _, key in members.islice(start):
            yield self._records[key]

    def first(self, index: Ordered[R], group: Hashable) -> R | None:
        found = self._indexes[index]
        assert isinstance(found, _OrderedIndex)
        members = found.groups.get(group)
        return None if members is None else self._records[members[0][1]]

    def _change(self, key: Any, old: R | None, new: R | None) -> None:
        self._store.changes.append((self, key, old, new))
        self._replace(key, old, new)

    def _replace(self, key: Any, old: R | None, new: R | None) -> None:
        """The only place where records, indexes, due items and sums change."""
        if old is not None:
            for index in self._index_list:
                index.remove(key, old)
        if new is not None:
            self._records[key] = new
            for index in self._index_list:
                index.add(key, new)
        else:
            del self._records[key]
        for kind, at, items in self._due:
            before = None if old is None else at(old)
            after = None if new is None else at(new)
            if before != after:
                items.set(kind, key, after)
        if self.table.space is not None:
            self._count(old, new)

    def _count(self, old: R | None, new: R | None) -> None:
        space, weight, usage = self.table.space, self.table.weight, self._store.usage
        assert space is not None
        if old is not None:
            counted = usage[space(old)]
            counted.records -= 1
            counted.bytes -= weight(old)
            if not counted.records:
                del usage[space(old)]
        if new is not None:
            counted = usage.setdefault(space(new), Usage())
            counted.records += 1
            counted.bytes += weight(new)


@dataclass
class Store:
    """All tables of one replica, with the list of changes since it was last settled."""

    changes: list[Change] = field(default_factory=list)
    usage: dict[str, Usage] = field(default_factory=dict)
    due: dict[str, DueItems] = field(default_factory=lambda: {"lease": DueItems(), "wall": DueItems()})
    _rows: dict[Table[Any], Rows[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._rows = {table: Rows(table, self) for table in TABLES.values()}

    def rows(self, table: Table[R]) -> Rows[R]:
        return self._rows[table]

    def undo(self, mark: int) -> None:
        """Take back every change behind the mark (a former length of `changes`), newest first."""
        changes = self.changes
        while len(changes) > mark:
            rows, key, old, new = changes.pop()
            rows._replace(key, new, old)

    def settle(self) -> list[Topic]:
        """Forget the changes; returns the topics that they touched, for those who wait."""
        touched: dict[Topic, None] = {}
        for rows, key, old, new in self.changes:
            topic = rows.table.topic
            name = key if topic is None else topic(new if new is not None else old)
            touched[(rows.table.name, name)] = None
        self.changes = []
        return list(touched)

    def dump(self) -> dict[str, dict[bytes, bytes]]:
        """Every record, encoded: table name to encoded key to encoded record, in key order."""
        encode = msgspec.msgpack.encode
        return {
            table.name: dict(sorted((encode(key), encode(record)) for key, record in rows._records.items()))
            for table, rows in sorted(self._rows.items(), key=lambda item: item[0].name)
        }

    def load(self, dump: Mapping[str, Mapping[bytes, bytes]]) -> None:
        """Fill an empty store from a dump; indexes, due items and sums are rebuilt."""
        for name, records in dump.items():
            rows = self._rows[TABLES[name]]
            decoder = msgspec.msgpack.Decoder(rows.table.record)
            for data in records.values():
                rows.put(decoder.decode(data))
        self.changes = []
