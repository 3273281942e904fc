"""Waiting for a condition, with a bound. The only place in these tests that sleeps."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LOOK_AGAIN_SECONDS = 0.02


def eventually(condition: Callable[[], T], *, within_seconds: float, what: Callable[[], str] | str) -> T:
    """Ask until the answer is true-ish and return it. Raises AssertionError when the time is up.

    what: what was awaited, for the message; a function is called only then, so that it can tell the last state.
    """
    deadline = time.monotonic() + within_seconds
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > deadline:
            said = what if isinstance(what, str) else what()
            raise AssertionError(f"not within {within_seconds:g} s: {said}")
        time.sleep(LOOK_AGAIN_SECONDS)
