"""The small interfaces through which the Raft core reaches disk, network and clocks.

The core knows nothing else of the outside, so a simulation that implements these three owns everything a node can
suffer: power loss, partitions, clocks that jump. The running node puts `cluster.journal`, `cluster.transport` and
`SystemClocks` behind them.
"""

import time
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

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
    def sync(self) -> None: ...
    def add(self, command: bytes, idx: int, term: int) -> None: ...
    def deleteEntriesFrom(self, entryFrom: int) -> None: ...  # noqa: N802, N803
    def setRaftCommitIndex(self, raftCommitIndex: int) -> None: ...  # noqa: N802, N803
    def entries(self, index: int, count: int, max_bytes: int = ...) -> list[LogRecord]: ...
    def __len__(self) -> int: ...


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
