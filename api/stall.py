"""A node that stood still (a suspended machine, a stopped process) must not serve what has piled up meanwhile.

The requests in its sockets are old, their callers have given up or repeated them elsewhere. Every operation carries a
deadline that apply checks, so none of them could do harm; dropping the connections unread spares the cluster the work.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

LOOK_SECONDS = 1.0
STALL_SECONDS = 10.0

_log = logging.getLogger("runstate.http")


class StallWatch:
    """Calls `drop` when the loop has stood still for more than STALL_SECONDS, before anything is read from a socket."""

    def __init__(self, drop: Callable[[], None]) -> None:
        self._drop = drop
        self._loop = asyncio.get_running_loop()
        self._last = self._loop.time()
        self._timer = self._loop.call_later(LOOK_SECONDS, self._look)

    def close(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        now = self._loop.time()
        stood_still = now - self._last - LOOK_SECONDS
        self._last = now
        self._timer = self._loop.call_later(LOOK_SECONDS, self._look)
        if stood_still > STALL_SECONDS:
            _log.warning("the loop stood still for %.1f s; dropping the connections of clients unread", stood_still)
            self._drop()
