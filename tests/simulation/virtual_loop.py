"""An asyncio loop whose time is virtual: it never waits, it jumps to the next timer. Nothing on it may do real I/O."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class NodeEnded(BaseException):
    """A node called `fatal`. In a process of its own nothing would run after it."""


class _JumpingSelector(selectors.SelectSelector):
    """Has nothing to read; where another one would wait, it moves the loop's time."""

    loop: "VirtualLoop"

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("everybody waits and no timer is set: a deadlock")
        self.loop.now += max(timeout, 0.0)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """now: virtual seconds. Callbacks of one moment run in the order in which they were scheduled."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now
        selector = _JumpingSelector()
        selector.loop = self
        super().__init__(selector)
        self.errors: list[dict[str, Any]] = []
        self.set_exception_handler(lambda _, context: self._keep(context))

    def _keep(self, context: dict[str, Any]) -> None:
        if not isinstance(context.get("exception"), NodeEnded):
            self.errors.append(context)

    def time(self) -> float:
        return self.now

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run to the end, cancel what is left, close. Raises the first error that a callback let out."""
        try:
            result = self.run_until_complete(coroutine)
            for task in asyncio.all_tasks(self):
                task.cancel()
            self.run_until_complete(asyncio.sleep(0))
        finally:
            self.close()
        for context in self.errors:
            raise context.get("exception") or RuntimeError(context["message"])
        return result
