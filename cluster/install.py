"""An image from the leader takes the place of this node's own, in four steps (Raft paper, section 7).

1. One journal transaction marks which image is being installed, and where.
2. The image is received into a directory of its own, synced, verified, and loaded beside the serving state
   (`cluster.draft`).
3. The images' directory switches to it.
4. One journal transaction lets the log begin with the image's last entry and takes the mark away. Then the state is
   exchanged.

Steps 3 and 4 follow each other in one turn, so that nothing comes between. A node that ends before step 3 forgets the
install, after it it finishes it (`cluster.restart`).

Invariants: an image at or below the commit index, or whose last entry the log holds, changes nothing and is answered
with what this node has; commit, applied and acknowledged index never fall.
"""

import logging
from collections.abc import Callable
from functools import partial

from cluster import failpoints
from cluster.draft import Draft
from cluster.engine import Engine
from cluster.fatal import Fatal, InvariantBroken
from cluster.frames import Install, InstallChunk, InstallProgress
from cluster.image import Image
from cluster.image_loading import drop_store
from cluster.image_records import ImageError, ImageMeta, decode_meta
from cluster.image_writer import ImageWriter
from cluster.journal_records import InstallMark
from cluster.outbox import Outbox
from cluster.restart import ImageGround, begin_log, holds, next_name
from cluster.rpc import AppendHandler
from cluster.tasks import Tasks
from statemachine.machine import Machine

LOADED = failpoints.declare("install.loaded", "the new image is loaded; the directory is about to switch to it")
SWITCHED = failpoints.declare("install.switched", "the new image is the current one; the log does not follow it yet")
REPLACED = failpoints.declare("install.replaced", "the log follows the new image; the old one is about to be removed")

log = logging.getLogger(__name__)


class Installer:
    """installed: called with the image that took the place. behind: called with the leader's commit index when an
    install begins. kick: takes a turn soon.
    """

    def __init__(
        self,
        engine: Engine,
        machine: Machine,
        outbox: Outbox,
        append_handler: AppendHandler,
        writer: ImageWriter,
        ground: ImageGround,
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
        self._installed = installed
        self._behind = behind
        self._kick = kick
        self._draft: Draft | None = None
        self._tasks = Tasks(end, "installing an image")

    # ------------------------------------------------------------------ steps 1 and 2

    def on_install(self, node_id: str, frame: Install, now: float) -> None:
        """The leader offers an image."""
        engine = self._engine
        if not self._append_handler.hear(node_id, frame.term, now):
            self._tell(node_id, frame.transfer, -1)
            return
        if frame.index <= engine.commit_index:
            self._append_handler.acknowledge(node_id, frame.round, engine.commit_index)
            return
        if holds(engine.journal, frame.index, frame.entry_term):
            self._append_handler.acknowledge(node_id, frame.round, frame.index)
            return
        if self._draft is not None:
            if self._draft.complete:
                return  # it has an image already and is about to take it; then the leader learns how far it is
            self._abandon(self._draft, "another one is offered")
        try:
            meta = decode_meta(frame.meta)
        except ImageError as error:
            log.error("the image of entry %d from %s is not taken: %s", frame.index, node_id, error)
            self._tell(node_id, frame.transfer, -1)
            return
        owner = meta.owner
        if (owner.cluster_id, meta.index, meta.term) != (self._ground.owner.cluster_id, frame.index, frame.entry_term):
            raise InvariantBroken(f"{node_id} offers the image of another cluster or entry: {meta}")
        self._begin(node_id, frame, meta, now)

    def _begin(self, node_id: str, frame: Install, meta: ImageMeta, now: float) -> None:
        mark = InstallMark(frame.index, frame.entry_term, frame.command, meta.content, next_name(self._ground.folder))
        draft = self._draft = Draft(
            node_id,
            frame,
            mark,
            meta,
            now,
            self._ground,
            self._tasks,
            moved=lambda chunks, records: self._tell(node_id, frame.transfer, chunks, records),
            ready=self._kick,
            failed=lambda reason: self._fail(draft, reason),
        )
        self._engine.journal.set_mark(mark)
        self._behind(frame.commit_index)
        self._tell(node_id, frame.transfer, 0)  # leaves when the mark is durable; then the chunks come
        log.warning(
            "this node is too far behind for the log: it gets the image of entry %d from %s", mark.index, node_id
        )

    def on_chunk(self, node_id: str, frame: InstallChunk, now: float) -> None:
        """A part of the offered image. One of another transfer is late and dropped."""
        draft = self._draft
        if not self._append_handler.hear(node_id, frame.term, now) or draft is None:
            return
        if (draft.leader_id, draft.frame.term, draft.frame.transfer) == (node_id, frame.term, frame.transfer):
            draft.add(frame.number, frame.records, frame.last, now)

    def _tell(self, node_id: str, transfer: int, chunks: int, records: int = 0) -> None:
        self._outbox.put(node_id, InstallProgress(self._engine.term, transfer, chunks, records))
        self._kick()

    # ------------------------------------------------------------------ steps 3 and 4

    def turn(self) -> None:
        """Take a loaded image. Called before the sync of a turn; what is changed here becomes durable with it."""
        draft = self._draft
        if draft is None or draft.loaded is None:
            return
        engine, mark = self._engine, draft.mark
        if engine.is_leader or mark.index <= engine.commit_index or holds(engine.journal, mark.index, mark.term):
            self._abandon(draft, "the log went further meanwhile")
        elif self._writer.hold():  # else when the image thread is done with the old image
            if self._append_handler.acknowledged_index >= mark.index:
                raise InvariantBroken(
                    f"entry {mark.index} of term {mark.term} is committed, but this node acknowledged another one there"
                )
            self._take(draft)

    def _take(self, draft: Draft) -> None:
        assert draft.loaded is not None
        engine, points, mark = self._engine, self._ground.points, draft.mark
        image, meta, store = draft.loaded
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
        self._tasks.begin(partial(drop_store, old_store))
        log.info("this node has the image of entry %d: %d records", meta.index, meta.records)
        self._installed(meta)
        if engine.leader_id is not None:
            # Rounds count within a term: one of an earlier term must never pass for an answer to a later one.
            same = (engine.leader_id, engine.term) == (draft.leader_id, draft.frame.term)
            self._append_handler.acknowledge(engine.leader_id, draft.frame.round if same else 0, mark.index)

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

    def _fail(self, draft: Draft, reason: str) -> None:
        self._tell(draft.leader_id, draft.frame.transfer, -1)
        self._abandon(draft, reason)

    def _abandon(self, draft: Draft, why: str) -> None:
        log.warning("the image of entry %d is not installed: %s", draft.mark.index, why)
        self._draft = None
        self._writer.release()
        self._engine.journal.set_mark(None)
        draft.drop()
        self._kick()

    def close(self) -> None:
        """The node stops; what was not finished is forgotten by the next start."""
        self._tasks.cancel()

    def let_go(self) -> None:
        """After `close`: close the file of an install that was under way."""
        if self._draft is not None:
            self._draft.let_go()
