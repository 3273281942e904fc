"""Work of a node that goes on over several passes of the loop, and ends with the node.

An exception out of it ends the node, like one out of a turn.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from cluster.fatal import Fatal


class Tasks:
    """what: names the work in the log line of a failure."""

    def __init__(self, end: Fatal, what: str) -> None:
        self._end = end
        self._what = what
        self._running: set[asyncio.Task[None]] = set()

    def begin(self, work: Callable[[], Coroutine[Any, Any, None]]) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(self._guard(work))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def _guard(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._end(f"{self._what} failed: {type(error).__name__}: {error}", error)

    def cancel(self) -> None:
        """The node ends."""
        for task in self._running:
            task.cancel()
