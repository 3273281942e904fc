"""Everything about images that happens on the loop, put together: written behind, trimmed after, sent, taken, compared.

The core calls it at the right places of a turn. What it does there takes no time; the rest is done in the image thread,
or in steps.
"""

from collections.abc import Callable

from cluster import frames
from cluster.contents import Contents
from cluster.engine import Engine
from cluster.fatal import Fatal
from cluster.image import Image
from cluster.image_records import ImageMeta
from cluster.image_writer import ImageWriter
from cluster.install import Installer
from cluster.intake import Intake
from cluster.metrics import Metrics
from cluster.outbox import Outbox
from cluster.ports import Clocks
from cluster.quorum import Quorum
from cluster.reception import Handler
from cluster.replication import Replication
from cluster.restart import ImageGround
from cluster.rpc import AppendHandler
from cluster.transfers import Transfers
from cluster.trimming import Trimming
from statemachine.machine import Machine


class Imaging:
    """image: the current one, of which the machine was made. leads: whether this node leads, with everything applied.

    installed: called when an image from the leader took the place of this node's state. behind: called with the
    leader's commit index when such an image is on its way. tell_and_end: see `Contents`. kick: takes a turn soon.
    """

    def __init__(
        self,
        engine: Engine,
        machine: Machine,
        outbox: Outbox,
        quorum: Quorum,
        replication: Replication,
        intake: Intake,
        append_handler: AppendHandler,
        clocks: Clocks,
        metrics: Metrics,
        ground: ImageGround,
        image: Image,
        end: Fatal,
        *,
        leads: Callable[[], bool],
        installed: Callable[[ImageMeta], None],
        behind: Callable[[int], None],
        tell_and_end: Callable[[list[str], frames.Differs, str], None],
        kick: Callable[[], None],
    ) -> None:
        limits, worker = ground.limits, ground.worker
        self._engine = engine
        self._clocks = clocks
        self._metrics = metrics
        self._worker = worker
        self._kick = kick
        self._on_installed = installed
        self._ticked_at = clocks.monotonic()
        metrics.image_index = image.index
        self.trimming = Trimming(engine, limits, image.index, lambda: self.transfers.needed_index())
        self.writer = ImageWriter(
            engine,
            machine,
            image,
            worker,
            clocks,
            metrics,
            limits.every_s,
            frozen=self.trimming.on_frozen,
            written=self._written,
        )
        self.transfers = Transfers(
            engine,
            outbox,
            replication,
            lambda: self.writer.image,
            worker,
            clocks,
            limits,
            ground.points,
            lambda: self.trimming.log_bytes,
            kick,
        )
        self.installer = Installer(
            engine,
            machine,
            outbox,
            append_handler,
            self.writer,
            ground,
            end,
            installed=self._installed,
            behind=behind,
            kick=kick,
        )
        self.contents = Contents(
            engine,
            outbox,
            quorum,
            intake,
            end,
            leads,
            tell_and_end,
            limits.compare_every_s,
            clocks.monotonic(),
        )
        replication.on_behind = self.transfers.begin

    def handlers(self, see_term: Callable[[int, float], None]) -> dict[type[frames.Frame], Handler]:
        """What takes which frames. see_term: told of the term of every answer."""
        engine = self._engine

        def on_progress(node_id: str, frame: frames.InstallProgress, now: float) -> None:
            see_term(frame.term, now)
            if engine.is_leader and frame.term == engine.term:
                self.transfers.on_progress(node_id, frame, now)

        return {
            frames.Install: self.installer.on_install,
            frames.InstallChunk: self.installer.on_chunk,
            frames.InstallProgress: on_progress,
            frames.Content: lambda node_id, frame, now: self.contents.on_content(node_id, frame),
            frames.Differs: lambda node_id, frame, now: self.contents.on_differs(node_id, frame),
        }

    # ------------------------------------------------------------------ in a turn

    def before_sync(self) -> None:
        """Take an image that is ready; the log that follows it becomes durable with this turn."""
        self.installer.turn()

    def on_applied(self, index: int, term: int, size: int, marked: bool) -> None:
        """A command was applied. marked: it says "image here"."""
        self.trimming.log_bytes += size
        if marked:
            self.contents.on_mark(self._clocks.monotonic())
            self.writer.note(index, term)

    def after_apply(self, now: float) -> None:
        self.writer.turn(now)
        if self._engine.is_leader:
            self.transfers.turn()

    def tick(self, now: float) -> None:
        self._worker.look(now - self._ticked_at)
        self._ticked_at = now
        self.transfers.tick(now)
        self.installer.tick(now)
        self.contents.tick()

    # ------------------------------------------------------------------ what came of it

    def _written(self, meta: ImageMeta, marked: bool) -> None:
        self.trimming.on_durable(meta.index)
        if marked:
            self.contents.on_digest(meta.index, meta.content)
        self._kick()

    def _installed(self, meta: ImageMeta) -> None:
        self._metrics.installs += 1
        self._metrics.image_index = meta.index
        self.trimming.on_installed(meta.index)
        self._on_installed(meta)

    # ------------------------------------------------------------------ others come and go

    def lost_connection(self, node_id: str) -> None:
        self.transfers.lost_connection(node_id)
        self.installer.lost_connection(node_id)

    def lead_no_more(self) -> None:
        self.transfers.stop()

    def close(self) -> None:
        """The node stops: nothing begins any more."""
        self.installer.close()

    def finish(self) -> None:
        """After `close`: let go of what is open, once the image thread has done what it was asked."""
        self.transfers.stop()
        self.installer.let_go()
        self._worker.do(self.writer.image.close)
