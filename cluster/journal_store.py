"""The journal on disk: one LMDB environment, written by whole transactions, each synced before it returns.

Invariants: after `commit` returned, everything up to it survives a power loss; before, nothing of it is visible.
The log records first_index ... last_index are there without a gap. Records below first_index are leftovers of a
removed head: the state already excludes them, and each commit deletes a bounded number, so that no commit takes long.

LMDB keeps no checksums of its own, therefore its pages and our records are all checked once at open. It must never be
opened with flags that trade durability for speed, nor twice in a process.
"""

import os
import sys
from collections.abc import Iterator, Sequence

import lmdb

from cluster import failpoints
from cluster.journal_records import (
    GENESIS_KEY,
    HEADER_BYTES,
    IDENTITY_KEY,
    MARK_KEY,
    START_EMPTY,
    STATE_KEY,
    InstallMark,
    JournalError,
    JournalIdentity,
    JournalState,
    LogEntry,
    decode_genesis,
    decode_identity,
    decode_mark,
    decode_record,
    decode_state,
    encode_genesis,
    encode_identity,
    encode_mark,
    encode_record,
    encode_state,
    entry_key,
    key_index,
)
from cluster.pages import first_problem

BEFORE_COMMIT = failpoints.declare("journal.before_commit", "a transaction is about to be written and synced")
AFTER_COMMIT = failpoints.declare("journal.after_commit", "a transaction is durable, nobody has been told")

# Address space, not disk: the file grows with its content. 32-bit machines have not more to give.
MAP_SIZE_BYTES = 64 << 30 if sys.maxsize > 2**32 else 1 << 30
SWEEP_RECORDS = 500  # leftovers deleted a commit: a few milliseconds, and far more than a commit adds
DATA_FILE = "data.mdb"

_FLAGS = {"sync": True, "metasync": True, "writemap": False, "map_async": False, "lock": True, "readonly": False}


class JournalStore:
    """The LMDB file of one journal. Used by `cluster.journal` alone."""

    def __init__(
        self,
        path: str,
        *,
        create: bool = False,
        points: failpoints.Failpoints | None = None,
        map_size_bytes: int = MAP_SIZE_BYTES,
    ) -> None:
        """Open the environment in the directory `path` and read its identity and state; the log is read by `scan`.

        Raises JournalError when it cannot be opened, is damaged, or (without `create`) is not there.
        """
        self.path = path
        self._points = points or failpoints.Failpoints()
        data_file = os.path.join(path, DATA_FILE)
        if not os.path.exists(data_file) or not os.path.getsize(data_file):
            if not create:
                raise JournalError(f"there is no journal in {path}.")
        elif (problem := first_problem(data_file)) is not None:
            raise JournalError(f"the journal in {path} is damaged: {problem}. {START_EMPTY}")
        try:
            self._env = lmdb.open(
                path, map_size=map_size_bytes, subdir=True, mode=0o700, create=create, max_spare_txns=1
            )
        except (lmdb.Error, OSError) as error:
            raise JournalError(f"the journal in {path} cannot be opened: {error}. {START_EMPTY}") from error
        try:
            flags = dict(self._env.flags())
            if wrong := {name: flags[name] for name, value in _FLAGS.items() if flags[name] is not value}:
                raise JournalError(f"the journal in {path} was opened with flags {wrong}, which would lose writes.")
            self._load()
        except lmdb.Error as error:
            self.close()
            raise self._unreadable(error) from error
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._env.close()

    def _load(self) -> None:
        with self._env.begin() as transaction:
            records = {key: transaction.get(key) for key in (IDENTITY_KEY, STATE_KEY, GENESIS_KEY, MARK_KEY)}
            cursor = transaction.cursor()
            has_entries = cursor.set_range(entry_key(0))
            self._low = key_index(cursor.key()) if has_entries else 1
        identity, state, genesis = records[IDENTITY_KEY], records[STATE_KEY], records[GENESIS_KEY]
        mark = records[MARK_KEY]
        if (identity is None) != (state is None) or (identity is None and has_entries):
            raise JournalError(f"the journal in {self.path} has lost its identity or state. {START_EMPTY}")
        self.identity = None if identity is None else decode_identity(identity)
        self.state = JournalState() if state is None else decode_state(state)
        self.genesis = None if genesis is None else decode_genesis(genesis)
        self.mark = None if mark is None else decode_mark(mark)
        self._owner = 0 if self.identity is None else self.identity.owner

    def scan(self) -> Iterator[LogEntry]:
        """Every entry of the log in order, each checked; raises JournalError at the first that is not right."""
        state = self.state
        expected, term = state.first_index, 0
        try:
            with self._env.begin(buffers=True) as transaction:
                cursor = transaction.cursor()
                if cursor.set_range(entry_key(self._low)):
                    for key, record in cursor.iternext():
                        index = key_index(key)
                        if index < state.first_index:
                            continue
                        if index != expected:
                            raise JournalError(f"the log has a gap: {index} follows {expected - 1}. {START_EMPTY}")
                        entry = decode_record(index, record, self._owner)
                        if not term <= entry[2] <= state.term:
                            raise JournalError(
                                f"log record {index} has term {entry[2]}, after {term} and with a current term of "
                                f"{state.term}: terms never go down. {START_EMPTY}"
                            )
                        expected, term = index + 1, entry[2]
                        yield entry
        except lmdb.Error as error:
            raise self._unreadable(error) from error
        if expected != state.last_index + 1:
            raise JournalError(
                f"the log ends at {expected - 1}, but {state.first_index} to {state.last_index} were written. "
                f"{START_EMPTY}"
            )

    def read(self, index: int, count: int, max_bytes: int) -> list[LogEntry]:
        """`count` entries from index on; fewer when there is one and more commands would exceed `max_bytes`."""
        entries: list[LogEntry] = []
        try:
            with self._env.begin(buffers=True) as transaction:
                cursor = transaction.cursor()
                found = cursor.set_range(entry_key(index))
                while len(entries) < count:
                    following = index + len(entries)
                    if not found or key_index(cursor.key()) != following:
                        raise JournalError(f"log record {following} is gone from {self.path}. {START_EMPTY}")
                    record = cursor.value()
                    max_bytes -= len(record) - HEADER_BYTES
                    if entries and max_bytes < 0:
                        break
                    entries.append(decode_record(following, record, self._owner))
                    found = cursor.next()
        except lmdb.Error as error:
            raise self._unreadable(error) from error
        return entries

    def commit(
        self,
        state: JournalState,
        entries: Sequence[LogEntry],
        *,
        mark: InstallMark | None = None,
        identity: JournalIdentity | None = None,
        genesis: bytes | None = None,
    ) -> None:
        """Write one transaction and sync it: the new state and mark, with `entries` as the end of the log.

        entries: state.last_index is the last of them; what the file has from the first of them on is replaced.
        Without any, what the file has above state.last_index is removed.
        Raises lmdb.Error or OSError when it failed; then nothing of it is there, or (a crash after the sync) all.
        """
        owner = self._owner if identity is None else identity.owner
        start = entries[0][1] if entries else state.last_index + 1
        self._points.reach(BEFORE_COMMIT)
        with self._env.begin(write=True) as transaction:
            cursor = transaction.cursor()
            if start <= self.state.last_index and cursor.set_range(entry_key(start)):
                while cursor.delete():
                    pass
            for entry in entries:
                transaction.put(entry_key(entry[1]), encode_record(entry, owner), append=True)
            low = self._sweep(transaction, state)
            if identity is not None:
                transaction.put(IDENTITY_KEY, encode_identity(identity))
            if genesis is not None:
                transaction.put(GENESIS_KEY, encode_genesis(genesis))
            if mark is None and self.mark is not None:
                transaction.delete(MARK_KEY)
            elif mark is not None and mark != self.mark:
                transaction.put(MARK_KEY, encode_mark(mark))
            transaction.put(STATE_KEY, encode_state(state))
        self._low, self._owner, self.state, self.mark = low, owner, state, mark
        self.identity = identity or self.identity
        self.genesis = genesis or self.genesis
        self._points.reach(AFTER_COMMIT)

    def _sweep(self, transaction: "lmdb.Transaction[bytes]", state: JournalState) -> int:
        """Delete leftovers of a removed head, oldest first; returns the lowest index that may still be there."""
        if self._low >= state.first_index:
            return state.first_index
        cursor = transaction.cursor()
        cursor.set_range(entry_key(self._low))
        for _ in range(SWEEP_RECORDS):
            key = cursor.key()  # empty behind the last record
            if not key or key_index(key) >= state.first_index:
                return state.first_index
            cursor.delete()
        return key_index(cursor.key()) if cursor.key() else state.first_index

    def _unreadable(self, error: Exception) -> JournalError:
        return JournalError(f"the journal in {self.path} cannot be read: {error}. {START_EMPTY}")
