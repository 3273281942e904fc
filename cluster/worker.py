"""The image thread: what is too slow for the loop, one job after the other, in the order in which they were asked for.

A job is a function of immutable values and of what only this thread touches; its result comes back on the loop. One
thread and one order, so that a file is never closed under a reader and an image is never written by two.

An exception out of a job, and a job that does not end, end the node: nobody could say what is on the disk.
"""

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from cluster.fatal import Fatal, guarded

T = TypeVar("T")

HANGS_S = 300.0  # a large image may well take a minute to sync; a disk that hangs is seen by the journal's sync first
LOOK_S = 0.5  # what one look counts at most: a process that slept has not waited

_Job = tuple[Callable[[], Any], Callable[[Any], None]]


class ImageThread:
    """`cluster.ports.Worker` by a thread. Made on the loop."""

    def __init__(self, end: Fatal, hangs_s: float = HANGS_S) -> None:
        self._loop = asyncio.get_running_loop()
        self._end = end
        self._hangs_s = hangs_s
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._asked = self._finished = 0
        self._watched: tuple[int, float] = (0, 0.0)  # (jobs finished at the last look, for how long no more were)
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="image", daemon=True)
        self._thread.start()

    def do(self, job: Callable[[], T], done: Callable[[T], None] = lambda _: None) -> None:
        """Run the job in the thread, then `done` with its result on the loop."""
        assert not self._closed
        self._asked += 1
        self._jobs.put((job, done))

    async def run(self, job: Callable[[], T]) -> T:
        """Wait for a job; what it raises is raised here, and the node goes on."""
        result: asyncio.Future[T] = self._loop.create_future()

        def tried() -> Callable[[], None]:
            try:
                value = job()
            except BaseException as error:
                return lambda error=error: result.set_exception(error)  # type: ignore[misc]
            return lambda: result.set_result(value)

        self.do(tried, lambda tell: None if result.done() else tell())
        return await result

    def look(self, passed_s: float) -> None:
        """Ends the node when one job hangs. Called on the loop now and then; passed_s: since the last time."""
        finished, waited_s = self._watched
        if self._asked == self._finished or finished != self._finished:
            self._watched = (self._finished, 0.0)
            return
        waited_s += min(passed_s, LOOK_S)
        self._watched = (finished, waited_s)
        if waited_s >= self._hangs_s:
            self._end(f"the image thread hangs for {waited_s:.0f} s: the disk does not answer")

    def close(self) -> None:
        """Do what was asked for and end; results reach nobody any more. Waits for it."""
        if not self._closed:
            self._closed = True
            self._jobs.put(None)
            self._thread.join()

    def _work(self) -> None:
        while (task := self._jobs.get()) is not None:
            job, done = task
            try:
                result = job()
            except BaseException as error:
                self._tell(self._failed, error)
                return
            self._tell(self._done, done, result)

    def _tell(self, callback: Callable[..., None], *args: Any) -> None:
        if not self._closed and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback, *args)

    def _failed(self, error: BaseException) -> None:
        if not self._closed:
            self._end(f"the image thread failed: {error}", error)

    def _done(self, done: Callable[[Any], None], result: Any) -> None:
        self._finished += 1
        if not self._closed:
            guarded(self._end, "a result of the image thread", done)(result)
