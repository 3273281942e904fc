"""Images on their way from the leader to followers whose place in the log is gone (Raft paper, section 7).

A transfer offers the current image, and once the follower wants it sends it in chunks, a bounded number of which may be
unconfirmed; it is read in the image thread from a snapshot that nothing disturbs. From the image's entry on the log is
kept while the transfer runs, so that the follower can go on from there; if the log grows too much meanwhile, or nothing
moves for too long, the transfer is given up and a new one begins with a newer image.

It has succeeded when the follower acknowledges the image's entry as it acknowledges any (`cluster.replication`).
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import msgspec

from cluster import failpoints
from cluster.engine import Engine
from cluster.frames import Install, InstallChunk, InstallProgress
from cluster.image import Image
from cluster.image_limits import ImageLimits
from cluster.image_records import ImageMeta, encode_meta
from cluster.outbox import Outbox
from cluster.ports import Clocks, ImageSnapshot, Worker
from cluster.replication import Replication

CHUNK = failpoints.declare("transfer.chunk", "the leader is about to read a chunk of an image for a follower")

log = logging.getLogger(__name__)

_encode = msgspec.msgpack.Encoder().encode


@dataclass
class _Transfer:
    number: int
    meta: ImageMeta
    snapshot: ImageSnapshot | None  # None once everything was read
    log_bytes: int  # when it began
    moved_at: float
    wanted: bool = False  # by the follower
    reading: bool = False
    name: bytes | None = None  # of the last record read
    sent: int = 0  # chunks
    received: int = 0
    loaded: int = 0  # records


class Transfers:
    """image: the current one. log_bytes: how much was logged since the start. kick: takes a turn soon."""

    def __init__(
        self,
        engine: Engine,
        outbox: Outbox,
        replication: Replication,
        image: Callable[[], Image],
        worker: Worker,
        clocks: Clocks,
        limits: ImageLimits,
        points: failpoints.Failpoints,
        log_bytes: Callable[[], int],
        kick: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._outbox = outbox
        self._replication = replication
        self._image = image
        self._worker = worker
        self._clocks = clocks
        self._limits = limits
        self._points = points
        self._log_bytes = log_bytes
        self._kick = kick
        self._running: dict[str, _Transfer] = {}
        self._opening: dict[str, int] = {}  # node to the number that its transfer will have
        self._not_before: dict[str, float] = {}
        self._number = 0

    def needed_index(self) -> int | None:
        """From where the log must be kept; None when no transfer runs."""
        return min((transfer.meta.index for transfer in self._running.values()), default=None)

    # ------------------------------------------------------------------ begin

    def begin(self, node_id: str, now: float) -> None:
        """The follower needs an image. Does nothing while one is on its way to it."""
        if node_id in self._running or node_id in self._opening or now < self._not_before.get(node_id, 0.0):
            return
        self._number += 1
        self._opening[node_id] = number = self._number
        self._worker.do(self._image().snapshot, lambda found: self._offer(node_id, number, *found))

    def _offer(self, node_id: str, number: int, meta: ImageMeta, snapshot: ImageSnapshot) -> None:
        if self._opening.get(node_id) != number:
            self._worker.do(snapshot.close)
            return
        del self._opening[node_id]
        now = self._clocks.monotonic()
        self._running[node_id] = _Transfer(number, meta, snapshot, self._log_bytes(), now)
        log.info("%s needs an image: that of entry %d, %d records", node_id, meta.index, meta.records)
        (command, _, _), engine = self._engine.records(meta.index, 1, 1)[0], self._engine
        self._outbox.put(
            node_id,
            Install(
                engine.term,
                number,
                self._replication.next_round(),
                meta.index,
                meta.term,
                command,
                encode_meta(meta),
                engine.commit_index,
            ),
        )
        self._kick()

    # ------------------------------------------------------------------ chunks

    def on_progress(self, node_id: str, frame: InstallProgress, now: float) -> None:
        """An answer of the current term."""
        transfer = self._running.get(node_id)
        if transfer is None or frame.transfer != transfer.number:
            return
        if frame.received < 0:
            self._end(node_id, f"{node_id} could not take it", again_at=now + self._limits.again_s)
            return
        if not transfer.wanted or (frame.received, frame.loaded) > (transfer.received, transfer.loaded):
            transfer.moved_at = now
        transfer.wanted = True
        transfer.received = min(max(transfer.received, frame.received), transfer.sent)
        transfer.loaded = max(transfer.loaded, frame.loaded)
        self._read(node_id, transfer)

    def _read(self, node_id: str, transfer: _Transfer) -> None:
        unconfirmed = transfer.sent - transfer.received
        if transfer.reading or transfer.snapshot is None or unconfirmed >= self._limits.window_chunks:
            return
        transfer.reading = True
        self._worker.do(
            partial(self._chunk, transfer.snapshot, transfer.name),
            lambda chunk: self._send(node_id, transfer, *chunk),
        )

    def _chunk(self, snapshot: ImageSnapshot, name: bytes | None) -> tuple[bytes | None, bytes]:
        """In the image thread: the next records, encoded, and the name of the last one; None when there are no more."""
        self._points.reach(CHUNK)
        records = snapshot.after(name, self._limits.chunk_bytes)
        return (records[-1][0] if records else None), _encode(records)

    def _send(self, node_id: str, transfer: _Transfer, name: bytes | None, records: bytes) -> None:
        transfer.reading = False
        if self._running.get(node_id) is not transfer:
            return
        frame = InstallChunk(self._engine.term, transfer.number, transfer.sent, records, name is None)
        self._outbox.put(node_id, frame)
        transfer.sent += 1
        transfer.name = name
        if name is None:
            self._close(transfer)
        self._read(node_id, transfer)
        self._kick()

    # ------------------------------------------------------------------ the end

    def turn(self) -> None:
        """End what is done: the follower acknowledged the image's entry, or does not need it any more."""
        for node_id in [node for node in self._running if not self._replication.needs_image(node)]:
            log.info("%s is caught up by the image of entry %d", node_id, self._running[node_id].meta.index)
            self._end(node_id)

    def tick(self, now: float) -> None:
        """Give up what stands still, and what makes the log too long."""
        limits = self._limits
        for node_id, transfer in list(self._running.items()):
            if now - transfer.moved_at > limits.stalled_s:
                self._end(node_id, f"no progress for {limits.stalled_s:.0f} s", again_at=now + limits.again_s)
            elif self._log_bytes() - transfer.log_bytes > limits.transfer_log_bytes:
                self._end(node_id, "the log grew too much meanwhile")

    def lost_connection(self, node_id: str) -> None:
        self._opening.pop(node_id, None)
        if node_id in self._running:
            self._end(node_id, "the connection ended")

    def stop(self) -> None:
        """This node leads no more."""
        self._opening.clear()
        self._not_before.clear()
        for node_id in list(self._running):
            self._end(node_id, "this node leads no more")

    def _end(self, node_id: str, why: str = "", again_at: float = 0.0) -> None:
        transfer = self._running.pop(node_id)
        self._not_before[node_id] = again_at
        if why:
            log.warning("the transfer of the image of entry %d to %s ends: %s", transfer.meta.index, node_id, why)
        self._close(transfer)

    def _close(self, transfer: _Transfer) -> None:
        if transfer.snapshot is not None:
            self._worker.do(transfer.snapshot.close)
            transfer.snapshot = None
