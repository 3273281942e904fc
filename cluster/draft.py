"""An image from the leader while it is being received: step 2 of an install (`cluster.install`).

Chunks are put into a directory of their own in the image thread, one after the other. Behind the last one the image is
synced, opened again and loaded, every record and the whole digest checked; then it can take the place of the node's
own. Until then nothing that the node serves knows of it, and it can be dropped at any moment, at the latest by the next
start.
"""

import asyncio
from collections.abc import Callable
from functools import partial

import msgspec

from cluster import failpoints
from cluster.frames import Install
from cluster.image import Image
from cluster.image_loading import drop_store, load_image
from cluster.image_records import ImageError, ImageMeta
from cluster.journal_records import InstallMark
from cluster.restart import ImageGround
from cluster.tasks import Tasks
from statemachine.store import Store

MARKED = failpoints.declare("install.marked", "an install is marked; its directory is about to be made")
FILLING = failpoints.declare("install.filling", "a received chunk is about to be put into the new image")
FILLED = failpoints.declare("install.filled", "the new image has all its records and is about to be synced")
SYNCED = failpoints.declare("install.synced", "the new image is durable and about to be verified and loaded")

_records = msgspec.msgpack.Decoder(list[tuple[bytes, bytes]])


class Draft:
    """An image that arrives from leader_id, by this Install frame. mark: as it is in the journal. heard_at: when the
    last of it came.

    moved: called with (chunks put away, records loaded) whenever there are more. ready: called once it is loaded.
    failed: called with the reason when it cannot be loaded.
    """

    def __init__(
        self,
        leader_id: str,
        frame: Install,
        mark: InstallMark,
        meta: ImageMeta,
        now: float,
        ground: ImageGround,
        tasks: Tasks,
        *,
        moved: Callable[[int, int], None],
        ready: Callable[[], None],
        failed: Callable[[str], None],
    ) -> None:
        self.leader_id = leader_id
        self.frame = frame
        self.mark = mark
        self.meta = meta
        self.heard_at = now
        self.complete = False  # the last chunk has come
        self.loaded: tuple[Image, ImageMeta, Store] | None = None
        self._ground = ground
        self._tasks = tasks
        self._moved = moved
        self._ready = ready
        self._failed = failed
        self._chunks = 0
        self._image: Image | None = None  # belongs to the image thread until all chunks are put away
        self._loading: asyncio.Task[None] | None = None
        self._dropped = False

    def add(self, number: int, records: bytes, last: bool, now: float) -> None:
        """A chunk came. Any but the next one is late or doubled, and is passed over."""
        if number != self._chunks or self.complete:
            return
        self.heard_at = now
        self._chunks += 1
        self.complete = last
        self._ground.worker.do(partial(self._fill, records, last), lambda _: self._filled(number + 1, last))

    def _fill(self, records: bytes, last: bool) -> None:
        """In the image thread."""
        ground, name = self._ground, self.mark.folder
        if self._image is None:
            ground.points.reach(MARKED)
            self._image = Image(name, ground.folder.open(name, draft=True), ground.owner)
        ground.points.reach(FILLING)
        self._image.fill(_records.decode(records))
        if last:
            ground.points.reach(FILLED)
            self._image.finish(self.meta)
            self._image.close()
            self._image = Image(name, ground.folder.open(name), ground.owner, ground.points)
            ground.points.reach(SYNCED)

    def _filled(self, chunks: int, last: bool) -> None:
        if self._dropped:
            return
        self._moved(chunks, 0)
        if last:
            self._loading = self._tasks.begin(self._load)

    async def _load(self) -> None:
        image = self._image
        assert image is not None

        def progress(records: int) -> None:
            if self._dropped:
                raise ImageError("it is not wanted any more")
            self._moved(self._chunks, records)

        reason = None
        try:
            self.loaded = image, *await load_image(image, self._ground.worker, progress)
        except ImageError as error:
            reason = str(error)
        self._loading = None
        if self._dropped:
            self._remove()
        elif reason is not None:
            self._failed(reason)
        else:
            self._ready()

    def drop(self) -> None:
        """It is of no use: remove it, once nobody reads it any more."""
        self._dropped = True
        if self._loading is None:
            self._remove()

    def _remove(self) -> None:
        if self.loaded is not None:
            self._tasks.begin(partial(drop_store, self.loaded[2]))
            self.loaded = None
        self._ground.worker.do(self._discard)

    def _discard(self) -> None:
        """In the image thread."""
        if self._image is not None:
            self._image.close()
            self._ground.folder.remove(self.mark.folder)

    def let_go(self) -> None:
        """The node stops: close the file and leave the rest to the next start."""
        self._ground.worker.do(lambda: None if self._image is None else self._image.close())
