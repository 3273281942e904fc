"""The small interfaces through which the Raft core reaches disk, network and clocks.

The core knows nothing else of the outside, so a simulation that implements these owns everything a node can suffer:
power loss, partitions, clocks that jump. The running node puts `cluster.journal`, `cluster.image_folder`,
`cluster.worker`, `cluster.transport` and `SystemClocks` behind them.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias, TypeVar

from cluster.journal_records import InstallMark

T = TypeVar("T")
LogRecord: TypeAlias = tuple[bytes, int, int]  # (command, index, term), as the Raft library has it
Message: TypeAlias = dict[str, Any]


class JournalPort(Protocol):
    """The durable log with term and vote. Everything is buffered until `sync`, one transaction."""

    @property
    def first_index(self) -> int: ...
    @property
    def last_index(self) -> int: ...
    @property
    def last_term(self) -> int: ...
    @property
    def dirty(self) -> bool: ...
    @property
    def durable_index(self) -> int: ...
    @property
    def durable_term(self) -> int: ...
    @property
    def durable_vote(self) -> str | None: ...
    def term_at(self, index: int) -> int: ...
    @property
    def mark(self) -> InstallMark | None: ...
    def sync(self) -> None: ...
    def clear(self) -> None: ...
    def set_mark(self, mark: InstallMark | None) -> None: ...
    def add(self, command: bytes, idx: int, term: int) -> None: ...
    def deleteEntriesFrom(self, entryFrom: int) -> None: ...  # noqa: N802, N803
    def deleteEntriesTo(self, entryTo: int) -> None: ...  # noqa: N802, N803
    def setRaftCommitIndex(self, raftCommitIndex: int) -> None: ...  # noqa: N802, N803
    def entries(self, index: int, count: int, max_bytes: int = ...) -> list[LogRecord]: ...
    def __len__(self) -> int: ...


class ImageTransaction(Protocol):
    """Changes of an image that become durable together, or not at all."""

    def replace(self, key: bytes, value: bytes) -> bytes | None:
        """Put; returns what was there."""

    def pop(self, key: bytes) -> bytes | None:
        """Remove; returns what was there."""


class ImageSnapshot(Protocol):
    """An image as it was when the snapshot was taken, whatever is written meanwhile."""

    def meta(self) -> bytes | None:
        """What is stored under `image_records.META_KEY`."""

    def after(self, name: bytes | None, max_bytes: int) -> list[tuple[bytes, bytes]]:
        """Records behind this name (None: from the first on) in order, so many that the last one reaches max_bytes."""

    def close(self) -> None: ...


class ImageFile(Protocol):
    """One image on a disk. A draft's transactions are durable only after `flush`. Raises ImageError."""

    def transaction(self) -> AbstractContextManager[ImageTransaction]: ...
    def snapshot(self) -> ImageSnapshot: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


class ImageFolder(Protocol):
    """The images of a node: the current one, and those that are being filled or were replaced. Raises ImageError."""

    def current(self) -> str | None:
        """The name of the current one; None when there was never one."""

    def names(self) -> list[str]: ...
    def open(self, name: str, *, draft: bool = False) -> ImageFile: ...

    def switch(self, name: str) -> None:
        """Make it the current one, durably. Its file must have been flushed."""

    def remove(self, name: str) -> None:
        """Delete one that is closed and not the current one."""


class Worker(Protocol):
    """A thread that does slow things in the order in which they were asked for."""

    def do(self, job: Callable[[], T], done: Callable[[T], None] = ...) -> None:
        """Run the job in the thread, then `done` with its result on the loop. What either raises ends the node."""

    async def run(self, job: Callable[[], T]) -> T:
        """Wait for a job. What it raises is raised here, and the node goes on."""

    def look(self, passed_s: float) -> None:
        """End the node when a job hangs. Called now and then; passed_s: since the last time."""

    def close(self) -> None:
        """Do what was asked for, and end. Results reach nobody any more."""


class PeerInfo(Protocol):
    """What a connected peer said of itself in its hello."""

    @property
    def incarnation(self) -> int: ...
    @property
    def http_url(self) -> str: ...
    @property
    def pid(self) -> int | None: ...


class TransportPort(Protocol):
    """Connections to the other members, at most one each; messages on one arrive in order or not at all."""

    on_turn: Callable[[], None]  # called once after each batch of received messages
    before_send: Callable[[Message], None]  # called before a message leaves

    def send(self, node: Any, message: Message) -> bool: ...
    def peer_info(self, node_id: str) -> PeerInfo | None: ...
    def certificate_ends(self) -> dict[str, float]: ...
    async def start(self) -> None: ...
    async def close(self) -> None: ...


class Clocks(Protocol):
    """The two clocks of a machine. One monotonic clock judges every timeout; wall time is only ever compared."""

    def monotonic(self) -> float: ...
    def wall_ms(self) -> int: ...


class SystemClocks:
    """The clocks of the machine that we run on.

    skew_ms: added to the wall clock, so that tests can give each node its own.
    """

    def __init__(self, skew_ms: int = 0) -> None:
        self._skew_ms = skew_ms
        self.monotonic = time.monotonic

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self._skew_ms
