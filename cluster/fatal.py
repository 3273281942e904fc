"""The end of a node that can no longer be sure: one function that logs why and leaves the process at once.

A node that continues after an unexpected error may apply an entry twice, or answer for a write that is not durable.
So any exception out of a turn, a received message or a timer ends the process before anything else leaves it; the
supervisor starts it again and it recovers from its journal. Nothing here may clean up, flush buffers to peers, or
raise.
"""

import logging
import os
import threading
import time
from collections.abc import Callable
from typing import NoReturn, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

EXIT_STATUS = 70  # EX_SOFTWARE of sysexits.h: an internal error was detected
SYNC_HANGS_S = 5.0

log = logging.getLogger(__name__)


class InvariantBroken(Exception):
    """Something that the proof of safety relies on does not hold. It must reach `fatal`, never be handled."""


class Fatal(Protocol):
    """Ends the node. Tests inject one that raises, so that several nodes can live in one process."""

    def __call__(self, reason: str, error: BaseException | None = None) -> NoReturn: ...


def fatal(reason: str, error: BaseException | None = None) -> NoReturn:
    """Log the reason and end the process with EXIT_STATUS. reason: one line for the operator, what was seen."""
    try:
        log.critical("this node stops: %s", reason, exc_info=error)
        for handler in logging.getLogger().handlers:
            handler.flush()
    finally:
        os._exit(EXIT_STATUS)


def guarded(end: Fatal, what: str, function: Callable[P, T]) -> Callable[P, T]:
    """The function, with any exception out of it ending the node. what: names the place in the log line."""

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            end(f"{what} failed: {type(error).__name__}: {error}", error)

    return call


class SyncWatch:
    """Ends the node when one journal sync hangs: a disk that does not answer would stall it without a sign.

    Looks from a thread of its own, because the loop stands still while it syncs. Counts looks and not time, so that a
    process which slept (SIGSTOP, a suspended machine) in the middle of a sync is not ended when it wakes.
    """

    def __init__(self, end: Fatal, hangs_s: float = SYNC_HANGS_S, look_s: float = 0.25) -> None:
        self._end = end
        self._look_s = look_s
        self._looks_max = round(hangs_s / look_s)
        self._begun = 0
        self._ended = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="sync-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()

    def run(self, sync: Callable[[], None]) -> float:
        """Run one sync under the watch. Returns the seconds that it took."""
        started = time.perf_counter()
        self._begun += 1
        sync()
        self._ended = self._begun
        return time.perf_counter() - started

    def _watch(self) -> None:
        seen, looks = 0, 0
        while not self._stopped.wait(self._look_s):
            begun = self._begun
            looks = looks + 1 if begun == seen and self._ended != begun else 0
            seen = begun
            if looks >= self._looks_max:
                self._end(f"a journal sync hangs for {looks * self._look_s:.0f} s: the disk does not answer")
