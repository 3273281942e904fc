"""What an image of a machine consists of, and a machine made of it again. Pure: who keeps the bytes is not known here.

An image is the machine's own values and one pair of bytes a record: its name (table and key) and its content. Indexes,
due items and sums are not in it; a machine loaded from an image equals the one that it was taken of.

The content digest is the sum modulo 2^128 of a hash of every record, so that one change is one subtraction and one
addition, in any order, and nodes with equal records have equal digests.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import msgspec

from statemachine.indexes import OrderedIndex, TallyIndex, UniqueIndex
from statemachine.store import TABLES, Dirty, Rows, Store
from statemachine.types import Record

FORMATS = {1: 1}  # feature level to the format that images are written in; the last two are read
HASH_BYTES = 16
DROPPED_AT_ONCE = 4096

_LONG = b"\xc1"  # never the first byte of a key in msgpack
_LONGEST_KEY = 384
_MODULUS = 1 << 128

_encode = msgspec.msgpack.Encoder().encode


class ImageStateError(Exception):
    """The bytes are no image that this build can load: damaged, or of another release."""


class Values(msgspec.Struct, frozen=True, array_like=True):
    """What a machine has besides its records. Later formats add fields at the end.

    index: of the last entry that it applied. chain: the chain digest after it.
    """

    format: int
    feature_level: int
    cluster_id: str
    index: int
    lease_now_ms: int
    wall_now_ms: int
    chain: bytes


class Frozen(msgspec.Struct, frozen=True):
    """A machine between two entries: its values, and the records that changed since it was frozen the last time."""

    values: Values
    dirty: Dirty


def format_of(feature_level: int) -> int:
    """The format to write while the cluster is at this feature level; before genesis it is at level 0."""
    return FORMATS[max(feature_level, 1)]


def check_values(values: Values) -> None:
    """Raises ImageStateError for what this build cannot read."""
    if values.format not in FORMATS.values() or values.feature_level > max(FORMATS):
        raise ImageStateError(
            f"it has format {values.format} of feature level {values.feature_level}, this build reads formats "
            f"{', '.join(map(str, sorted(FORMATS.values())))} up to level {max(FORMATS)}: start a newer build"
        )


# ---------------------------------------------------------------------- records as bytes


def record_name(table: str, key: Any) -> bytes:
    """The name of a record in an image: unique, at most 450 bytes, and in the order of keys for the usual ones."""
    encoded = _encode(key)
    if len(encoded) > _LONGEST_KEY:
        encoded = _LONG + blake2b(encoded, digest_size=32).digest()
    return b"%b\x00%b" % (table.encode(), encoded)


def encode_record(record: Record) -> bytes:
    return _encode(record)


def record_hash(name: bytes, data: bytes | memoryview) -> bytes:
    """What a record adds to the content digest, HASH_BYTES of it."""
    hashed = blake2b(name, digest_size=HASH_BYTES)
    hashed.update(data)
    return hashed.digest()


class Content:
    """The content digest of a set of records, and how many there are."""

    __slots__ = ("_sum", "records")

    def __init__(self, digest: bytes = bytes(HASH_BYTES), records: int = 0) -> None:
        self._sum = int.from_bytes(digest, "big")
        self.records = records

    @property
    def digest(self) -> bytes:
        return self._sum.to_bytes(HASH_BYTES, "big")

    def add(self, hashed: bytes) -> None:
        """A record came."""
        self._sum = (self._sum + int.from_bytes(hashed, "big")) % _MODULUS
        self.records += 1

    def remove(self, hashed: bytes) -> None:
        """A record went."""
        self._sum = (self._sum - int.from_bytes(hashed, "big")) % _MODULUS
        self.records -= 1


def content_of(store: Store) -> Content:
    """Of a whole store, by going through all of it."""
    content = Content()
    for rows in store._rows.values():
        for key, record in rows._records.items():
            content.add(record_hash(record_name(rows.table.name, key), encode_record(record)))
    return content


# ---------------------------------------------------------------------- a store from an image, and the end of one


class Loader:
    """Fills a store from the records of an image, in any order; indexes, due items and sums follow."""

    def __init__(self) -> None:
        self.store = Store()
        self.content = Content()
        self._readers: dict[bytes, tuple[Rows[Any], Any]] = {}

    def add(self, name: bytes, data: bytes | memoryview) -> bytes:
        """Returns the hash. Raises ImageStateError for a record that is none, or that is there already."""
        hashed = record_hash(name, data)
        self.content.add(hashed)
        table = name.partition(b"\x00")[0]
        try:
            rows, decode = self._readers.get(table) or self._reader(table)
            record = decode(data)
            key = rows.table.key(record)
            assert key not in rows, f"{key!r} is there twice"
            rows._replace(key, None, record)
        except (msgspec.MsgspecError, KeyError, UnicodeError, AssertionError, TypeError, ValueError) as error:
            raise ImageStateError(f"record {name[:80]!r} is none of this build: {error}") from error
        return hashed

    def _reader(self, table: bytes) -> tuple[Rows[Any], Any]:
        rows = self.store.rows(TABLES[table.decode()])
        reader = self._readers[table] = rows, msgspec.msgpack.Decoder(rows.table.record).decode
        return reader


def drop(store: Store) -> Iterator[None]:
    """Take a store that nobody uses any more apart, in steps: all of it at once would hold its thread for long."""
    for rows in store._rows.values():
        yield from _empty(rows._records)
        for index in rows._index_list:
            match index:
                case UniqueIndex():
                    yield from _empty(index.keys)
                case TallyIndex():
                    yield from _empty(index.sums)
                case OrderedIndex():
                    for members in index.groups.values():
                        yield from _shorten(members)
                    yield from _empty(index.groups)
    for items in store.due.values():
        yield from _empty(items._at)
        while items._heap:
            del items._heap[-DROPPED_AT_ONCE:]
            yield


def _empty(kept: dict[Any, Any]) -> Iterator[None]:
    while kept:
        for _ in range(min(DROPPED_AT_ONCE, len(kept))):
            kept.popitem()
        yield


def _shorten(members: Any) -> Iterator[None]:
    """Leave few enough members of an index's group that the rest goes in one step."""
    while len(members) > DROPPED_AT_ONCE:
        for _ in range(DROPPED_AT_ONCE):
            members.remove(members[len(members) - 1])
        yield
