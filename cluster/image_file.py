"""The LMDB file of one image: transactions that are on disk when they return, and snapshots that nothing disturbs.

A draft (an image that is still being filled) is written without a sync for each transaction and made durable at once at
its end; until then nobody may rely on it. Otherwise sync and metasync are on and there is no writemap, always.

Snapshots are consistent and may be read while others write; LMDB keeps the pages that an open one can see, so it must
be closed soon. Used by the image thread, which is the only one that writes.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import lmdb

from cluster.image_records import FIRST_NAME, META_KEY, ImageError
from cluster.pages import first_problem
from cluster.ports import ImageSnapshot, ImageTransaction

# Address space, not disk: the file grows with its content. 32-bit machines have not more to give.
MAP_SIZE_BYTES = 64 << 30 if sys.maxsize > 2**32 else 1 << 30
DATA_FILE = "data.mdb"


class LmdbFile:
    """`cluster.ports.ImageFile` on a disk."""

    def __init__(self, path: str, *, draft: bool = False, map_size_bytes: int = MAP_SIZE_BYTES) -> None:
        """Open the file in the directory `path`, or make it there. All pages of one that is there are checked.

        Raises ImageError when it is damaged or cannot be opened.
        """
        self.path = path
        data_file = os.path.join(path, DATA_FILE)
        if os.path.exists(data_file) and (problem := first_problem(data_file)) is not None:
            raise ImageError(f"the image in {path} is damaged: {problem}")
        try:
            self._env = lmdb.open(path, map_size=map_size_bytes, mode=0o700, sync=not draft, max_spare_txns=1)
        except (lmdb.Error, OSError) as error:
            raise ImageError(f"the image in {path} cannot be opened: {error}") from error
        flags = dict(self._env.flags())
        expected = {"sync": not draft, "metasync": True, "writemap": False, "map_async": False, "lock": True}
        if wrong := {name: flags[name] for name, value in expected.items() if flags[name] is not value}:
            self._env.close()
            raise ImageError(f"the image in {path} was opened with flags {wrong}, which would lose writes")

    @contextmanager
    def transaction(self) -> Iterator[ImageTransaction]:
        """Everything put and removed within, or nothing; durable at the end unless this is a draft."""
        try:
            with self._env.begin(write=True) as transaction:
                yield _Transaction(transaction)
        except lmdb.MapFullError as error:
            raise ImageError(
                f"the image in {self.path} has reached its greatest size: it needs a larger map"
            ) from error
        except (lmdb.Error, OSError) as error:
            raise ImageError(
                f"the image in {self.path} could not be written: {error or type(error).__name__}. "
                "Free space on the disk or replace it, then start the node again"
            ) from error

    def snapshot(self) -> ImageSnapshot:
        return _Snapshot(self.path, self._env)

    def flush(self) -> None:
        """Make a draft durable."""
        try:
            self._env.sync(True)
        except (lmdb.Error, OSError) as error:
            raise ImageError(f"the image in {self.path} could not be synced: {error}") from error

    def close(self) -> None:
        """Every snapshot must be closed before."""
        self._env.close()


class _Transaction:
    def __init__(self, transaction: "lmdb.Transaction[bytes]") -> None:
        self.replace = transaction.replace
        self.pop = transaction.pop


class _Snapshot:
    def __init__(self, path: str, env: lmdb.Environment) -> None:
        self._path = path
        try:
            self._transaction = env.begin()
        except lmdb.Error as error:
            raise ImageError(f"the image in {path} cannot be read: {error}") from error

    def meta(self) -> bytes | None:
        return self._transaction.get(META_KEY)

    def after(self, name: bytes | None, max_bytes: int) -> list[tuple[bytes, bytes]]:
        records: list[tuple[bytes, bytes]] = []
        try:
            cursor = self._transaction.cursor()
            if cursor.set_range(FIRST_NAME if name is None else name + b"\x00"):
                for record in cursor.iternext():
                    records.append(record)
                    max_bytes -= len(record[0]) + len(record[1])
                    if max_bytes <= 0:
                        break
        except lmdb.Error as error:
            raise ImageError(f"the image in {self._path} cannot be read: {error}") from error
        return records

    def close(self) -> None:
        self._transaction.abort()
