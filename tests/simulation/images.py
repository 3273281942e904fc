"""Images on a simulated disk, and the thread that writes them, in virtual time.

A transaction is there after a crash once it was committed; of a draft only what was flushed, and its directory. The
thread does one job after the other, each takes a while, and a process that stands still or is gone does none.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from cluster.fatal import Fatal, guarded
from cluster.image_records import META_KEY, ImageError
from cluster.ports import ImageSnapshot, ImageTransaction
from tests.simulation.disk import Disk
from tests.simulation.virtual_loop import NodeEnded

T = TypeVar("T")

Records = dict[bytes, bytes]


class SimulatedImages:
    """`cluster.ports.ImageFolder` over a Disk. Opening it again is what a restart does."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk

    def current(self) -> str | None:
        return self.disk.current_image

    def names(self) -> list[str]:
        return sorted(self.disk.images)

    def open(self, name: str, *, draft: bool = False) -> SimulatedFile:
        self.disk.images.setdefault(name, {})
        return SimulatedFile(self.disk, name, draft)

    def switch(self, name: str) -> None:
        with self.disk.step("switch"):
            self.disk.current_image = name

    def remove(self, name: str) -> None:
        assert name != self.disk.current_image
        with self.disk.step("remove"):
            del self.disk.images[name]


class SimulatedFile:
    def __init__(self, disk: Disk, name: str, draft: bool) -> None:
        self._disk = disk
        self._name = name
        self._draft = draft
        self._records: Records = dict(disk.images[name])
        self._closed = False

    @contextmanager
    def transaction(self) -> Iterator[ImageTransaction]:
        assert not self._closed
        transaction = _Transaction(self._records)
        yield transaction
        if self._draft:
            self._records = transaction.records
            return
        with self._disk.step("image"):
            self._records = transaction.records
            self._disk.images[self._name] = self._records

    def snapshot(self) -> ImageSnapshot:
        assert not self._closed
        return _Snapshot(self._records)

    def flush(self) -> None:
        with self._disk.step("flush"):
            self._disk.images[self._name] = self._records

    def close(self) -> None:
        self._closed = True


class _Transaction:
    def __init__(self, records: Records) -> None:
        self.records = dict(records)

    def replace(self, key: bytes, value: bytes) -> bytes | None:
        old = self.records.get(key)
        self.records[key] = value
        return old

    def pop(self, key: bytes) -> bytes | None:
        return self.records.pop(key, None)


class _Snapshot:
    def __init__(self, records: Records) -> None:
        self._records = records
        self._names = sorted(name for name in records if name != META_KEY)
        self._closed = False

    def meta(self) -> bytes | None:
        return self._records.get(META_KEY)

    def after(self, name: bytes | None, max_bytes: int) -> list[tuple[bytes, bytes]]:
        assert not self._closed
        found = []
        for candidate in self._names:
            if name is None or candidate > name:
                found.append((candidate, self._records[candidate]))
                max_bytes -= len(candidate) + len(self._records[candidate])
                if max_bytes <= 0:
                    break
        return found

    def close(self) -> None:
        self._closed = True


class SimulatedThread:
    """`cluster.ports.Worker`. takes_s: bounds of the time that a job takes. stands_still: whether the process does."""

    def __init__(
        self,
        end: Fatal,
        rng: random.Random,
        takes_s: tuple[float, float] = (0.0, 0.0),
        stands_still: Callable[[], bool] = lambda: False,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._end = end
        self._rng = rng
        self._takes_s = takes_s
        self._stands_still = stands_still
        self._jobs: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()
        self._dead = False

    def do(self, job: Callable[[], T], done: Callable[[T], None] = lambda _: None) -> None:
        if not self._dead:
            self._jobs.append((job, done))
            if len(self._jobs) == 1:
                self._later()

    def _later(self) -> None:
        self._loop.call_later(self._rng.uniform(*self._takes_s), self._work)

    def _work(self) -> None:
        if self._dead:
            return
        if self._stands_still():
            self._loop.call_later(0.01, self._work)
            return
        job, done = self._jobs[0]
        try:
            result = job()
        except NodeEnded:
            return
        except BaseException as error:
            guarded(self._end, "the image thread", _raised(error))()
            return
        self._loop.call_later(self._rng.uniform(*self._takes_s) / 4, self._told, done, result)

    def _told(self, done: Callable[[Any], None], result: Any) -> None:
        if not self._dead:
            self._jobs.popleft()
            if self._jobs:
                self._later()
            guarded(self._end, "a result of the image thread", done)(result)

    async def run(self, job: Callable[[], T]) -> T:
        future: asyncio.Future[T] = self._loop.create_future()

        def tried() -> Callable[[], None]:
            try:
                result = job()
            except (ImageError, OSError) as error:
                raised = error
                return lambda: future.set_exception(raised)
            return lambda: future.set_result(result)

        self.do(tried, lambda tell: None if future.done() else tell())
        return await future

    @property
    def idle(self) -> bool:
        return not self._jobs

    def look(self, passed_s: float) -> None:
        pass

    def close(self) -> None:
        """Do what was asked for at once, and end."""
        while self._jobs and not self._dead:
            job, _ = self._jobs.popleft()
            job()
        self._dead = True

    def kill(self) -> None:
        """The process is gone."""
        self._dead = True
        self._jobs.clear()


def _raised(error: BaseException) -> Callable[[], None]:
    def throw() -> None:
        raise error

    return throw
