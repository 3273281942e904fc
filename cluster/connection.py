"""One peer connection: frames in, frames out, and why it ended.

Invariants: nothing is read or sent after `close`; what waits to be sent is bounded by its owner through
`buffered_bytes`. The first frame of a turn leaves at once; the others of that turn leave together at its end, in the
order in which they were sent. It knows nothing of hellos, members or Raft; its owner does.
"""

import asyncio
import socket
from typing import Any, Protocol, cast

from cluster.certs import Certified, certified
from cluster.framing import FrameReader, FramingError
from cluster.hello import PeerInfo

OTHER_SIDE_CLOSED = "the other side closed it"


class Owner(Protocol):
    """Who hears of a connection. Called on the loop; `on_lost` exactly once, after it no `on_frames`."""

    def on_open(self, connection: "Connection") -> None: ...
    def on_frames(self, connection: "Connection", frames: list[object]) -> None: ...
    def on_lost(self, connection: "Connection", reason: str) -> None: ...


class Connection(asyncio.Protocol):
    """dialled: the node that this side dialled, None when the other side did. limit_bytes: of a received frame."""

    def __init__(self, owner: Owner, dialled: str | None, limit_bytes: int) -> None:
        self._owner = owner
        self.dialled = dialled
        self.reader = FrameReader(limit_bytes)
        self.info: PeerInfo | None = None  # what the other side said of itself, once it was accepted
        self.host = self.remote = "nobody"
        self.certified: Certified | None = None  # what its certificate says, None without TLS
        self.closed = asyncio.Event()
        self.opened_at = self.heard_at = self.sent_at = 0.0
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._turn_begun = False

    # ------------------------------------------------------------------ asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.opened_at = self.heard_at = self.sent_at = self._loop.time()
        connected: socket.socket | None = transport.get_extra_info("socket")
        if connected is not None and connected.family in (socket.AF_INET, socket.AF_INET6):
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        address: Any = transport.get_extra_info("peername")
        if isinstance(address, tuple):
            self.host, self.remote = address[0], f"{address[0]}:{address[1]}"
        encrypted = transport.get_extra_info("ssl_object")
        self.certified = None if encrypted is None else certified(encrypted)
        self._owner.on_open(self)

    def data_received(self, data: bytes) -> None:
        if self.closed.is_set():
            return
        self.heard_at = self._loop.time()
        try:
            frames = self.reader.feed(data)
        except FramingError as error:
            self.close(str(error))
            return
        if frames:
            self._owner.on_frames(self, frames)

    def connection_lost(self, error: Exception | None) -> None:
        self.close(OTHER_SIDE_CLOSED if error is None else str(error))

    # ------------------------------------------------------------------ its owner's side

    def send(self, frame: bytes) -> None:
        """Never blocks. What a closed connection is given is dropped."""
        if self._turn_begun:
            self._waiting.append(frame)
            self._waiting_bytes += len(frame)
            return
        self._turn_begun = True
        self._loop.call_soon(self._end_turn)
        self._write(frame)

    def _end_turn(self) -> None:
        self._turn_begun = False
        if self._waiting:
            frames, self._waiting, self._waiting_bytes = self._waiting, [], 0
            self._write(b"".join(frames))

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self.closed.is_set():
            self.sent_at = self._loop.time()
            self._transport.write(data)

    @property
    def buffered_bytes(self) -> int:
        """What was sent and has not been taken by the kernel yet."""
        if self._transport is None or self.closed.is_set():
            return 0
        return self._waiting_bytes + self._transport.get_write_buffer_size()

    def close(self, reason: str, last_frame: bytes | None = None) -> None:
        """End it, at once, and tell the owner why. With a last_frame, that and what was sent before still leave."""
        if self.closed.is_set():
            return
        if self._transport is not None:
            if last_frame is None:
                self._transport.abort()
            else:
                self._end_turn()
                self._transport.write(last_frame)
                self._transport.close()
        self.closed.set()
        self._owner.on_lost(self, reason)
