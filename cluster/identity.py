"""A node's data directory: whose it is, that nobody else uses it, and how its journal begins.

`identity.json` is written when the directory is first used and gives it a random incarnation, for ever. The journal
begins with the cluster's genesis and repeats the identity. So a directory that lost its journal, was pieced together
from two, or belongs to another node is told apart from a new one, and refused: a node that forgot its promises must
not vote under its old name.

Invariant: while a process holds the DataDirectory, its exclusive lock is held; no other process opens the journal.
It must never make a new incarnation for a directory that had one.
"""

import fcntl
import json
import os
import secrets
from pathlib import Path

import msgspec

from cluster.failpoints import Failpoints
from cluster.filesystem import make_directory, network_file_system, sync_directory, write_durably
from cluster.journal import FORMAT, Journal, JournalError, JournalIdentity
from cluster.journal_store import DATA_FILE, JournalStore
from statemachine.entry import FEATURE_LEVEL, FormatError, decode_entry, decode_operation
from statemachine.membership import Genesis

IDENTITY_FILE = "identity.json"
LOCK_FILE = "lock"
JOURNAL_FOLDER = "journal"

_ADMIT = (
    "If its disk was lost, move what is left away, start with an empty directory and admit the node's new incarnation."
)


class DataDirectoryError(Exception):
    """The data directory cannot be used. The message says why and what to do."""


class _Identity(msgspec.Struct, frozen=True, rename="camel"):
    """What identity.json holds. cluster_id: None until genesis was written."""

    format: int
    node_id: str
    incarnation: int
    cluster_id: str | None = None


def read_genesis(entry: bytes) -> Genesis:
    """The genesis in an encoded entry. Raises ValueError when it is none."""
    try:
        operations = [decode_operation(operation) for operation in decode_entry(entry).operations]
        if [operation.name for operation in operations] != ["cluster.genesis"]:
            raise ValueError("the entry is no genesis")
        return msgspec.json.decode(operations[0].arguments, type=Genesis)
    except (FormatError, msgspec.DecodeError) as error:
        raise ValueError(f"the entry is no genesis: {error}") from error


def open_data_directory(path: str | Path, node_id: str) -> "DataDirectory":
    """Take the directory for this process, making it when it is not there, and check that it is this node's.

    Raises DataDirectoryError when it is in use, another node's, damaged, incomplete or on a network file system.
    """
    return DataDirectory(Path(path), node_id)


class DataDirectory:
    """One node's directory, locked for as long as this object is open. Made by `open_data_directory`."""

    def __init__(self, path: Path, node_id: str) -> None:
        self.path = path
        self.node_id = node_id
        self.journal_path = str(path / JOURNAL_FOLDER)
        try:
            make_directory(path)
            self._lock = self._take()
        except OSError as error:
            raise DataDirectoryError(
                f"{path} cannot be used: {error.strerror}; `data` must name a directory that this user may write"
            ) from error
        try:
            if (kind := network_file_system(path)) is not None:
                raise DataDirectoryError(f"{path} is on {kind}: the journal needs a local disk, where a sync is a sync")
            self._identity = self._load()
            self._compare(self._journal_identity())
        except BaseException:
            os.close(self._lock)
            raise

    def _take(self) -> int:
        """Lock the directory until this process ends."""
        lock = os.open(self.path / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(lock, 32).decode(errors="replace").strip() or "unknown"
            os.close(lock)
            raise DataDirectoryError(
                f"{self.path} is in use by process {holder}: stop that one, or give this node a directory of its own"
            ) from None
        os.ftruncate(lock, 0)
        os.write(lock, str(os.getpid()).encode())
        return lock

    def _load(self) -> _Identity:
        file = self.path / IDENTITY_FILE
        if not file.exists():
            if self._has_journal_file():
                raise DataDirectoryError(
                    f"{self.path} has a journal but no {IDENTITY_FILE}: put that file back where it came from. {_ADMIT}"
                )
            identity = _Identity(FORMAT, self.node_id, secrets.randbelow(2**63 - 1) + 1)
            self._save(identity)
            return identity
        try:
            identity = msgspec.json.decode(file.read_bytes(), type=_Identity)
        except msgspec.DecodeError as error:
            raise DataDirectoryError(f"{file} is damaged ({error}): restore it from a copy. {_ADMIT}") from error
        if identity.format != FORMAT:
            raise DataDirectoryError(
                f"{self.path} has format {identity.format}, this release reads {FORMAT}: start the release that made it"
            )
        if identity.node_id != self.node_id:
            raise DataDirectoryError(
                f"{self.path} belongs to node {identity.node_id}, this is {self.node_id}: check `data` and `id`"
            )
        return identity

    def _save(self, identity: _Identity) -> None:
        write_durably(self.path / IDENTITY_FILE, json.dumps(msgspec.to_builtins(identity), indent=2).encode() + b"\n")
        self._identity = identity

    def _has_journal_file(self) -> bool:
        file = Path(self.journal_path, DATA_FILE)
        return file.exists() and file.stat().st_size > 0

    def _journal_identity(self) -> JournalIdentity | None:
        if not self._has_journal_file():
            return None
        try:
            store = JournalStore(self.journal_path, create=self._identity.cluster_id is None)
        except JournalError as error:
            raise DataDirectoryError(f"{self.path}: {error}") from error
        try:
            return store.identity
        finally:
            store.close()

    def _compare(self, journal: JournalIdentity | None) -> None:
        """Raise DataDirectoryError unless journal and identity.json are of one node, incarnation and cluster."""
        mine = self._identity
        if journal is None:
            if mine.cluster_id is not None:
                raise DataDirectoryError(
                    f"{self.path} was {self.node_id} of cluster {mine.cluster_id}, but its journal is gone. {_ADMIT}"
                )
            return
        told = (mine.node_id, mine.incarnation, mine.cluster_id or journal.cluster_id)
        if (journal.node_id, journal.incarnation, journal.cluster_id) != told:
            raise DataDirectoryError(
                f"{self.path} was pieced together: its journal is of node {journal.node_id}, incarnation "
                f"{journal.incarnation}, cluster {journal.cluster_id}, its {IDENTITY_FILE} says node {mine.node_id}, "
                f"incarnation {mine.incarnation}, cluster {mine.cluster_id}. Put back what belongs together. {_ADMIT}"
            )
        if mine.cluster_id is None:  # a crash between the two writes of write_genesis
            self._save(msgspec.structs.replace(mine, cluster_id=journal.cluster_id))

    # ------------------------------------------------------------------ what it is

    @property
    def incarnation(self) -> int:
        """63 random bits, made when the directory was new."""
        return self._identity.incarnation

    @property
    def cluster_id(self) -> str | None:
        """The cluster that it belongs to; None before genesis."""
        return self._identity.cluster_id

    @property
    def has_journal(self) -> bool:
        """Whether the cluster was bootstrapped as far as this node knows."""
        return self._identity.cluster_id is not None

    # ------------------------------------------------------------------ what can be done with it

    def write_genesis(self, entry: bytes) -> None:
        """Begin the journal with this entry as entry 1 of term 1 (`cluster.journal` says why), durable on return.

        Raises ValueError when the entry is no genesis that lists this node and incarnation; DataDirectoryError when
        there is a journal already; JournalError when it cannot be written.
        """
        if read_genesis(entry).members.get(self.node_id) != self.incarnation:
            raise ValueError(f"the genesis does not list {self.node_id} with its incarnation {self.incarnation}")
        self._begin(entry)

    def join(self, entry: bytes) -> None:
        """As `write_genesis`, for a member whose disk was lost: the genesis lists an earlier incarnation of it.

        The node follows from here and counts for nothing until the members admit its new incarnation.
        """
        if read_genesis(entry).members.get(self.node_id) in (None, self.incarnation):
            raise ValueError(f"the genesis does not list an earlier incarnation of {self.node_id}")
        self._begin(entry)

    def _begin(self, entry: bytes) -> None:
        if self.has_journal:
            raise DataDirectoryError(f"{self.path} has a journal of cluster {self.cluster_id}: it is left as it is")
        genesis = read_genesis(entry)
        if genesis.feature_level > FEATURE_LEVEL:
            raise ValueError(
                f"the genesis has feature level {genesis.feature_level}, {self.node_id} has {FEATURE_LEVEL}"
            )
        identity = JournalIdentity(genesis.cluster_id, self.node_id, self.incarnation, FORMAT, genesis.feature_level)
        Journal.create(self.journal_path, identity, entry).close()
        sync_directory(Path(self.journal_path))
        sync_directory(self.path)
        self._save(msgspec.structs.replace(self._identity, cluster_id=genesis.cluster_id))

    def open_journal(self, failpoints: Failpoints | None = None) -> Journal:
        """The journal, fully checked. Raises JournalError."""
        return Journal(self.journal_path, failpoints=failpoints)

    def close(self) -> None:
        """Give the directory up. The journal must be closed before. A second call does nothing."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
