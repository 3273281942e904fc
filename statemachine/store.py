"""Tables of immutable records, behind one door.

A record changes only by `Rows.put` and `Rows.delete`; both keep the undo list, the indexes, the due items and the sums
per space. Everything but the records is derived from them and never stored: a store loaded from a dump equals the store
that was dumped. Nothing here may depend on the order in which a dict was filled.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from statemachine.due import DueItems
from statemachine.indexes import Index, Ordered, OrderedIndex, Tally, TallyIndex, Unique, UniqueIndex, build
from statemachine.types import Record

R = TypeVar("R", bound=Record)
Topic: TypeAlias = tuple[str, Any]  # (table name, what a waiting reader of it names)


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


@dataclass(slots=True)
class Usage:
    """What a space keeps: number of records and their rough size in bytes."""

    records: int = 0
    bytes: int = 0


Change: TypeAlias = tuple["Rows[Any]", Any, Any, Any]  # rows, key, old record, new record
Charge: TypeAlias = tuple[str, int]  # the space that pays for a record, its size in bytes
Dirty: TypeAlias = dict[tuple[str, Any], Record | None]  # (table name, key) to the record as it is now, None for none


class Rows(Generic[R]):
    """The records of one table in one store."""

    get: Callable[[Any], R | None]  # the record of a key, if there is one

    def __init__(self, table: Table[R], store: Store) -> None:
        self.table = table
        self._store = store
        self._records: dict[Any, R] = {}
        self.get = self._records.get
        self._indexes: dict[Any, Index] = {declared: build(declared) for declared in table.indexes}
        self._index_list = tuple(self._indexes.values())
        self._due = tuple((due.kind, due.at, store.due[due.clock]) for due in table.due)

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, key: Any) -> R:
        return self._records[key]

    def __contains__(self, key: Any) -> bool:
        return key in self._records

    def put(self, record: R) -> R:
        """Add the record, or replace the one of its key. Returns it."""
        key = self.table.key(record)
        old = self._records.get(key)
        self._replace(key, old, record)
        self._store.changes.append((self, key, old, record))
        return record

    def delete(self, key: Any) -> None:
        """Remove an existing record."""
        old = self._records[key]
        self._replace(key, old, None)
        self._store.changes.append((self, key, old, None))

    def find(self, index: Unique[R], value: Hashable) -> R | None:
        found = self._indexes[index]
        assert isinstance(found, UniqueIndex)
        key = found.keys.get(value)
        return None if key is None else self._records[key]

    def tally(self, index: Tally[R], group: Hashable) -> int:
        found = self._indexes[index]
        assert isinstance(found, TallyIndex)
        return found.sums.get(group, 0)

    def count(self, index: Ordered[R], group: Hashable, after: Any = None) -> int:
        """How many records the group has, behind the given order value (a tuple may be cut short)."""
        found = self._indexes[index]
        assert isinstance(found, OrderedIndex)
        members = found.groups.get(group)
        return 0 if members is None else len(members) - _behind(members, after)

    def ordered(self, index: Ordered[R], group: Hashable, after: Any = None) -> Iterator[R]:
        """The group's records in order, behind the given order value; nothing may change while it is read."""
        found = self._indexes[index]
        assert isinstance(found, OrderedIndex)
        members = found.groups.get(group)
        if members is None:
            return
        for _, key in members.islice(_behind(members, after)):
            yield self._records[key]

    def first(self, index: Ordered[R], group: Hashable) -> R | None:
        found = self._indexes[index]
        assert isinstance(found, OrderedIndex)
        members = found.groups.get(group)
        return None if members is None else self._records[members[0][1]]

    def _replace(self, key: Any, old: R | None, new: R | None) -> None:
        """The only place where records, indexes, due items and sums change. Changes nothing when it raises."""
        moved = None
        for kind, at, items in self._due:
            after = None if new is None else at(new)
            if after != (None if old is None else at(old)):
                moved = moved or []
                moved.append((items, kind, after))
        space, weight = self.table.space, self.table.weight
        if space is not None:
            less = None if old is None else (space(old), weight(old))
            more = None if new is None else (space(new), weight(new))
        if self._index_list:
            self._reindex(key, old, new)
        if new is not None:
            self._records[key] = new
        else:
            del self._records[key]
        if moved is not None:
            for items, kind, after in moved:
                items.set(kind, key, after)
        if space is not None:
            self._store.charge(less, more)

    def _reindex(self, key: Any, old: R | None, new: R | None) -> None:
        done = 0
        try:
            for index in self._index_list:
                index.move(key, old, new)
                done += 1
        except Exception:  # a value that is taken, or a defect in a declared function
            for index in self._index_list[:done]:
                index.move(key, new, old)
            raise


def _behind(members: Any, after: Any) -> int:
    """The place in an index's list of the first member behind the order value; None is before all."""
    if after is None:
        return 0
    place: int = members.bisect_left((after,))
    while place < len(members) and members[place][0] == after:
        place += 1
    return place


@dataclass
class Store:
    """All tables of one replica, with the list of changes since it was last settled."""

    changes: list[Change] = field(default_factory=list)
    usage: dict[str, Usage] = field(default_factory=dict)
    due: dict[str, DueItems] = field(default_factory=lambda: {"lease": DueItems(), "wall": DueItems()})
    # What was changed since it was last taken, for whoever writes images; None while nobody does.
    dirty: Dirty | None = None
    _rows: dict[Table[Any], Rows[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._rows = {table: Rows(table, self) for table in TABLES.values()}

    def rows(self, table: Table[R]) -> Rows[R]:
        return self._rows[table]

    def charge(self, less: Charge | None, more: Charge | None) -> None:
        """Count one record less, and one more. Called by Rows alone."""
        if less is not None:
            usage = self.usage[less[0]]
            if more is not None and more[0] == less[0]:
                usage.bytes += more[1] - less[1]
                return
            usage.records -= 1
            usage.bytes -= less[1]
            if not usage.records:
                del self.usage[less[0]]
        if more is not None:
            usage = self.usage.setdefault(more[0], Usage())
            usage.records += 1
            usage.bytes += more[1]

    def undo(self, mark: int) -> None:
        """Take back every change behind the mark (a former length of `changes`), newest first."""
        changes = self.changes
        while len(changes) > mark:
            rows, key, old, new = changes.pop()
            rows._replace(key, new, old)

    def settle(self) -> list[Topic]:
        """Forget the changes; returns the topics that they touched, for those who wait."""
        touched: dict[Topic, None] = {}
        dirty = self.dirty
        for rows, key, old, new in self.changes:
            table = rows.table
            place = (table.name, key)
            topic = table.topic
            touched[place if topic is None else (table.name, topic(new if new is not None else old))] = None
            if dirty is not None:
                dirty[place] = new
        self.changes = []
        return list(touched)

    def take_dirty(self) -> Dirty:
        """Every record changed by an entry since the last call, in O(1); begins to note changes with the first call.

        Only between two entries.
        """
        assert not self.changes, "an entry is being applied"
        dirty, self.dirty = self.dirty or {}, {}
        return dirty

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


__all__ = [
    "DUE_KINDS",
    "TABLES",
    "Change",
    "Dirty",
    "Due",
    "Ordered",
    "Rows",
    "Store",
    "Table",
    "Tally",
    "Topic",
    "Unique",
    "Usage",
]
