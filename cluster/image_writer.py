"""Images written behind: twice a second the loop freezes the machine, in no time, and the image thread writes it.

One write at a time. A freeze that must be of one exact entry ("image here") waits in a line of its own and is never
merged with a later one. While an install is about to switch images nothing is written.
"""

from collections import deque
from collections.abc import Callable
from functools import partial

from cluster.engine import Engine
from cluster.image import Image
from cluster.image_records import ImageMeta
from cluster.metrics import Metrics
from cluster.ports import Clocks, Worker
from statemachine.image_state import Frozen
from statemachine.machine import Machine

Written = Callable[[ImageMeta, bool], None]  # what is durable now, and whether it is of a marked entry


class ImageWriter:
    """image: the current one. frozen: called at every freeze with its index. written: called once it is durable."""

    def __init__(
        self,
        engine: Engine,
        machine: Machine,
        image: Image,
        worker: Worker,
        clocks: Clocks,
        metrics: Metrics,
        every_s: float,
        frozen: Callable[[int], None],
        written: Written,
    ) -> None:
        self._engine = engine
        self._machine = machine
        self._worker = worker
        self._clocks = clocks
        self._metrics = metrics
        self._every_s = every_s
        self._frozen = frozen
        self._written = written
        self.image = image
        self.busy = False
        self._held = False
        self._asked_index = image.index  # of the last freeze
        self._not_before = clocks.monotonic() + every_s
        self._line: deque[tuple[Frozen, int, int, bool]] = deque()

    def turn(self, now: float) -> None:
        """Begin a write if it is time for one."""
        if self.busy or self._held:
            return
        applied_index = self._engine.applied_index
        if not self._line and now >= self._not_before and applied_index > self._asked_index:
            self._freeze(applied_index, self._engine.term_at(applied_index), marked=False)
        if self._line:
            self._write(*self._line.popleft(), begun_at=now)

    def note(self, index: int, term: int) -> None:
        """The entry of this index was applied just now: there will be an image of exactly here."""
        self._freeze(index, term, marked=True)

    def _freeze(self, index: int, term: int, marked: bool) -> None:
        self._line.append((self._machine.freeze(), index, term, marked))
        self._asked_index = index
        self._frozen(index)

    def _write(self, frozen: Frozen, index: int, term: int, marked: bool, begun_at: float) -> None:
        self.busy = True
        self._not_before = begun_at + self._every_s
        records = len(frozen.dirty)
        self._worker.do(
            partial(self.image.write, frozen, index, term),
            lambda meta: self._done(meta, marked, begun_at, records),
        )

    def _done(self, meta: ImageMeta, marked: bool, begun_at: float, records: int) -> None:
        self.busy = False
        self._metrics.images += 1
        self._metrics.image_records += records
        self._metrics.image_index = meta.index
        self._metrics.image_seconds.observe(self._clocks.monotonic() - begun_at)
        self._written(meta, marked)

    def hold(self) -> bool:
        """Begin no further write. Returns whether none runs, so that the image may be switched."""
        self._held = True
        return not self.busy

    def release(self) -> None:
        """Go on with the same image."""
        self._held = False

    def switch(self, image: Image) -> None:
        """Go on with another image, of a later entry; what was frozen for the old one is of no use any more."""
        assert not self.busy
        self._line.clear()
        self._machine.freeze()
        self.image = image
        self._asked_index = image.index
        self._held = False
