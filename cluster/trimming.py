"""How much of the log is kept: never less than a crash may need, and some for followers that are a little slow.

After a crash in the middle of an image's write the image is the one before. So the log is trimmed only to the index of
the image before the last one that is known to be durable. Behind that so many entries and bytes are kept as
`ImageLimits` says, and all from where a running transfer's image ends.

The entry at the place it is trimmed to stays: the log always holds the last entry of its image, by index and term.
"""

from collections import deque
from collections.abc import Callable

from cluster.engine import Engine
from cluster.fatal import InvariantBroken
from cluster.image_limits import ImageLimits


class Trimming:
    """image_index: of the current image. needed: the index from which a running transfer needs the log, None for none.

    log_bytes: bytes of the commands that were applied since the start; how much of the log lies between two moments is
    the difference.
    """

    def __init__(self, engine: Engine, limits: ImageLimits, image_index: int, needed: Callable[[], int | None]) -> None:
        self._engine = engine
        self._limits = limits
        self._needed = needed
        self._durable_index = image_index
        self._before_index = 0  # of the image before the last durable one
        self.log_bytes = 0
        # (index, log_bytes there) of images; what an earlier life left of the log counts as nothing until it goes.
        self._places: deque[tuple[int, int]] = deque([(engine.first_index, 0)])

    def on_frozen(self, index: int) -> None:
        """An image of this entry will be written."""
        self._places.append((index, self.log_bytes))

    def on_durable(self, index: int) -> None:
        """An image of this entry is durable: trim what nobody needs any more."""
        if not self._durable_index <= index <= self._engine.applied_index:
            raise InvariantBroken(
                f"an image of entry {index} is durable, behind that of {self._durable_index}; "
                f"{self._engine.applied_index} is applied"
            )
        self._before_index, self._durable_index = self._durable_index, index
        place = min(self._spared(), self._before_index)
        needed = self._needed()
        if needed is not None:
            place = min(place, needed)
        if place > self._before_index:
            raise InvariantBroken(f"the log would be trimmed to {place}, but a crash may need {self._before_index}")
        if place > self._engine.first_index:
            self._engine.trim_to(place)

    def _spared(self) -> int:
        """The oldest place within the bounds of what is kept for slow followers."""
        limits, places = self._limits, self._places
        end = self._engine.applied_index
        while len(places) > 1:
            index, log_bytes = places[0]
            if end - index <= limits.kept_entries and self.log_bytes - log_bytes <= limits.kept_bytes:
                break
            places.popleft()
        return places[0][0]

    def on_installed(self, index: int) -> None:
        """An image came from the leader, and the log with it."""
        self._durable_index = self._before_index = index
        self._places = deque([(index, self.log_bytes)])
