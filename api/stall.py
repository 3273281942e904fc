"""A node that stood still (a suspended machine, a stopped process) must not serve what has piled up meanwhile.

The requests in its sockets are old, their callers have given up or repeated them elsewhere. Every operation carries a
deadline that apply checks, so none of them could do harm; dropping the connections unread spares the cluster the work.

A timer notes that the loop is alive. Whether it stood still is judged by the timer, and before anything that arrived is
looked at: after a standstill, what piled up may be read before a timer runs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

LOOK_SECONDS = 1.0
STALL_SECONDS = 10.0

_log = logging.getLogger("runstate.http")


class StallWatch:
    """Calls `drop` when the loop has stood still for more than STALL_SECONDS."""

    def __init__(self, drop: Callable[[], None]) -> None:
        self._drop = drop
        self._loop = asyncio.get_running_loop()
        self._time = self._loop.time
        self._last = self._time()
        self._late = LOOK_SECONDS + STALL_SECONDS
        self._timer = self._loop.call_later(LOOK_SECONDS, self._look)

    def close(self) -> None:
        self._timer.cancel()

    def stood_still(self) -> bool:
        """Whether the loop stood still just now; then everything has been dropped."""
        now = self._time()
        if now - self._last <= self._late:
            return False
        _log.warning("the loop stood still for %.1f s; dropping the connections of clients unread", now - self._last)
        self._last = now
        self._drop()
        return True

    def _look(self) -> None:
        self.stood_still()
        self._last = self._time()
        self._timer = self._loop.call_later(LOOK_SECONDS, self._look)
