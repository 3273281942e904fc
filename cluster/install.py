"""An image from the leader takes the place of this node's own, in four steps (Raft paper, section 7).

1. One journal transaction marks which image is being installed, and where.
2. The image is received into a directory of its own, synced, verified, and loaded beside the serving state.
3. The images' directory switches to it.
4. One journal transaction lets the log begin with the image's last entry and takes the mark away. Then the state is
   exchanged.

Steps 3 and 4 follow each other in one turn, so that nothing comes between. A node that ends before step 3 forgets the
install, after it it finishes it (`cluster.restart`).

Invariants: an image at or below the commit index, or whose last entry the log holds, changes nothing and is answered
with what this node has; commit, applied and acknowledged index never fall.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from cluster import failpoints
from cluster.engine import Engine
from cluster.fatal import Fatal, InvariantBroken
from cluster.frames import Install, InstallChunk, InstallProgress
from cluster.image import Image
from cluster.image_loading import drop_store, load_image
from cluster.image_records import ImageError, ImageMeta, decode_meta
from cluster.image_writer import ImageWriter
from cluster.journal_records import InstallMark
from cluster.outbox import Outbox
from cluster.ports import Clocks
from cluster.restart import ImageGround, begin_log, holds, next_name
from cluster.rpc import AppendHandler
from statemachine.machine import Machine
from statemachine.store import Store

MARKED = failpoints.declare("install.marked", "an install is marked; its directory is about to be made")
FILLING = failpoints.declare("install.filling", "a received chunk is about to be put into the new image")
FILLED = failpoints.declare("install.filled", "the new image has all its records and is about to be synced")
SYNCED = failpoints.declare("install.synced", "the new image is durable and about to be verified and loaded")
LOADED = failpoints.declare("install.loaded", "the new image is loaded; the directory is about to switch to it")
SWITCHED = failpoints.declare("install.switched", "the new image is the current one; the log does not follow it yet")
REPLACED = failpoints.declare("install.replaced", "the log follows the new image; the old one is about to be removed")

log = logging.getLogger(__name__)

_records = msgspec.msgpack.Decoder(list[tuple[bytes, bytes]])


@dataclass(eq=False)
class _Draft:
    """An image that is being received. image: once its directory is made. loaded: once it can take the place."""

    leader_id: str
    term: int
    transfer: int
    round: int
    mark: InstallMark
    meta: ImageMeta
    heard_at: float
    image: Image | None = None
    chunks: int = 0
    complete: bool = False
    loading: asyncio.Task[None] | None = None
    loaded: tuple[ImageMeta, Store] | None = None
    abandoned: bool = False


class Installer:
    """installed: called with the image that took the place. behind: called with the leader's commit index when an
    install begins.
    """

    def __init__(
        self,
        engine: Engine,
        machine: Machine,
        outbox: Outbox,
        append_handler: AppendHandler,
        writer: ImageWriter,
        ground: ImageGround,
        clocks: Clocks,
        end: Fatal,
        *,
        installed: Callable[[ImageMeta], None],
        behind: Callable[[int], None],
        kick: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._machine = machine
        self._outbox = outbox
        self._append_handler = append_handler
        self._writer = writer
        self._ground = ground
        self._clocks = clocks
        self._end = end
        self._installed = installed
        self._behind = behind
        self._kick = kick
        self._draft: _Draft | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # ------------------------------------------------------------------ step 1

    def on_install(self, node_id: str, frame: Install, now: float) -> None:
        engine = self._engine
        if not self._append_handler.hear(node_id, frame.term, now):
            self._outbox.put(node_id, self._progress(frame.transfer, -1))
            return
        if frame.index <= engine.commit_index:
            self._answer(node_id, frame.round, engine.commit_index)
            return
        if holds(engine.journal, frame.index, frame.entry_term):
            self._answer(node_id, frame.round, frame.index)
            return
        draft = self._draft
        if draft is not None:
            if draft.complete:
                return  # it has an image already and is about to take it; then the leader learns how far it is
            self._abandon(draft, "another one is offered")
        try:
            meta = decode_meta(frame.meta)
        except ImageError as error:
            log.error("the image of entry %d from %s is not taken: %s", frame.index, node_id, error)
            self._outbox.put(node_id, self._progress(frame.transfer, -1))
            return
        if meta.owner.cluster_id != self._ground.owner.cluster_id or (meta.index, meta.term) != (
            frame.index,
            frame.entry_term,
        ):
            raise InvariantBroken(f"{node_id} offers the image of another cluster or entry: {meta}")
        mark = InstallMark(frame.index, frame.entry_term, frame.command, meta.content, next_name(self._ground.folder))
        engine.journal.set_mark(mark)
        self._draft = _Draft(node_id, frame.term, frame.transfer, frame.round, mark, meta, now)
        self._behind(frame.commit_index)
        self._outbox.put(node_id, self._progress(frame.transfer, 0))
        log.warning(
            "this node is too far behind for the log: it gets the image of entry %d from %s", meta.index, node_id
        )

    def _progress(self, transfer: int, received: int, loaded: int = 0) -> InstallProgress:
        return InstallProgress(self._engine.term, transfer, received, loaded)

    def _answer(self, node_id: str, round_: int, match_index: int) -> None:
        self._append_handler.acknowledge(node_id, round_, match_index)

    # ------------------------------------------------------------------ step 2

    def on_chunk(self, node_id: str, frame: InstallChunk, now: float) -> None:
        """The next chunk of the present transfer; any other is late or doubled and is dropped."""
        if not self._append_handler.hear(node_id, frame.term, now):
            return
        draft = self._draft
        if draft is None or (draft.leader_id, draft.transfer, draft.chunks) != (node_id, frame.transfer, frame.number):
            return
        draft.heard_at = now
        draft.chunks += 1
        draft.complete = frame.last
        self._ground.worker.do(
            partial(self._fill, draft, frame.records, frame.last), lambda _: self._filled(draft, frame.number + 1)
        )

    def _fill(self, draft: _Draft, records: bytes, last: bool) -> None:
        """In the image thread."""
        folder, owner, points = self._ground.folder, self._ground.owner, self._ground.points
        name = draft.mark.folder
        if draft.image is None:
            points.reach(MARKED)
            draft.image = Image(name, folder.open(name, draft=True), owner)
        points.reach(FILLING)
        draft.image.fill(_records.decode(records))
        if last:
            points.reach(FILLED)
            draft.image.finish(draft.meta)
            draft.image.close()
            draft.image = Image(name, folder.open(name), owner, points)
            points.reach(SYNCED)

    def _filled(self, draft: _Draft, chunks: int) -> None:
        if draft.abandoned:
            return
        self._outbox.put(draft.leader_id, self._progress(draft.transfer, chunks))
        if draft.complete and chunks == draft.chunks:
            draft.loading = self._begin(partial(self._load, draft))
        self._kick()

    async def _load(self, draft: _Draft) -> None:
        assert draft.image is not None

        def progress(records: int) -> None:
            if draft.abandoned:
                raise ImageError("it is not wanted any more")
            self._outbox.put(draft.leader_id, self._progress(draft.transfer, draft.chunks, records))
            self._kick()

        try:
            draft.loaded = await load_image(draft.image, self._ground.worker, progress)
        except ImageError as error:
            draft.loading = None
            if not draft.abandoned:
                self._outbox.put(draft.leader_id, self._progress(draft.transfer, -1))
                self._abandon(draft, str(error))
                return
        if draft.abandoned:
            self._remove(draft)
        self._kick()

    def _begin(self, work: Callable[[], Coroutine[Any, Any, None]]) -> "asyncio.Task[None]":
        async def run() -> None:
            try:
                await work()
            except asyncio.CancelledError:
                raise
            except BaseException as error:
                self._end(f"installing an image failed: {type(error).__name__}: {error}", error)

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # ------------------------------------------------------------------ steps 3 and 4

    def turn(self) -> None:
        """Take a loaded image. Called before the sync of a turn; what is changed here becomes durable with it."""
        draft = self._draft
        if draft is None or draft.loaded is None:
            return
        engine, mark = self._engine, draft.mark
        if engine.is_leader or mark.index <= engine.commit_index or holds(engine.journal, mark.index, mark.term):
            self._abandon(draft, "the log went further meanwhile")
            return
        if not self._writer.hold():
            return  # until the image thread is done with the old image
        if self._append_handler.acknowledged_index >= mark.index:
            raise InvariantBroken(
                f"entry {mark.index} of term {mark.term} is committed, but this node acknowledged another one there"
            )
        points, (meta, store), image = self._ground.points, draft.loaded, draft.image
        assert image is not None
        points.reach(LOADED)
        self._ground.folder.switch(image.name)
        points.reach(SWITCHED)
        begin_log(engine.journal, mark)
        engine.journal.set_mark(None)
        engine.jump_to(mark.index)
        self._draft = None
        old_image, old_store = self._writer.image, self._machine.restore(meta.values, store)
        self._writer.switch(image)
        self._ground.worker.do(partial(self._remove_old, old_image))
        self._begin(partial(drop_store, old_store))
        log.info("this node has the image of entry %d: %d records", meta.index, meta.records)
        self._installed(meta)
        if engine.leader_id is not None:
            # Rounds count within a term: one of an earlier term must never pass for an answer to a later one.
            same = (engine.leader_id, engine.term) == (draft.leader_id, draft.term)
            self._answer(engine.leader_id, draft.round if same else 0, mark.index)

    def _remove_old(self, image: Image) -> None:
        """In the image thread."""
        self._ground.points.reach(REPLACED)
        image.close()
        self._ground.folder.remove(image.name)

    # ------------------------------------------------------------------ giving up

    def tick(self, now: float) -> None:
        draft = self._draft
        if draft is not None and not draft.complete and now - draft.heard_at > self._ground.limits.stalled_s:
            self._abandon(draft, f"nothing came for {self._ground.limits.stalled_s:.0f} s")

    def lost_connection(self, node_id: str) -> None:
        draft = self._draft
        if draft is not None and not draft.complete and draft.leader_id == node_id:
            self._abandon(draft, f"the connection to {node_id} ended")

    def _abandon(self, draft: _Draft, why: str) -> None:
        log.warning("the image of entry %d is not installed: %s", draft.meta.index, why)
        draft.abandoned = True
        self._draft = None
        self._writer.release()
        self._engine.journal.set_mark(None)
        if draft.loading is None or draft.loading.done():
            self._remove(draft)  # else when the loading has ended
        self._kick()

    def _remove(self, draft: _Draft) -> None:
        if draft.loaded is not None:
            self._begin(partial(drop_store, draft.loaded[1]))
            draft.loaded = None
        self._ground.worker.do(partial(self._discard, draft))

    def _discard(self, draft: _Draft) -> None:
        """In the image thread."""
        if draft.image is not None:
            draft.image.close()
            self._ground.folder.remove(draft.image.name)

    def close(self) -> None:
        """The node stops; what was not finished is forgotten by the next start."""
        for task in self._tasks:
            task.cancel()

    def let_go(self) -> None:
        """After `close`: close the file of an install that was under way."""
        draft = self._draft
        if draft is not None:
            self._ground.worker.do(lambda: draft.image.close() if draft.image is not None else None)
