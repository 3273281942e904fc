"""The image thread: jobs in order, results on the loop, and an end of the node when it cannot go on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from cluster.worker import LOOK_S, ImageThread


class Ended(Exception):
    pass


def worked(scenario: Callable[[ImageThread], Coroutine[Any, Any, None]], hangs_s: float = 60.0) -> list[str]:
    """Run a scenario; returns the reasons for which the node would have ended."""
    reasons: list[str] = []

    def end(reason: str, error: BaseException | None = None) -> Any:
        reasons.append(reason)
        raise Ended(reason)

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # what `end` raises
        worker = ImageThread(end, hangs_s)
        try:
            await scenario(worker)
        finally:
            worker.close()

    asyncio.run(run())
    return reasons


def test_jobs_run_in_their_order_in_one_thread_and_results_come_on_the_loop() -> None:
    async def scenario(worker: ImageThread) -> None:
        seen: list[tuple[int, bool]] = []
        here, threads = threading.get_ident(), set()

        def job(number: int) -> int:
            threads.add(threading.get_ident())
            return number

        for number in range(50):
            worker.do(lambda number=number: job(number), lambda n: seen.append((n, threading.get_ident() == here)))
        assert await worker.run(lambda: job(50)) == 50
        assert seen == [(number, True) for number in range(50)]
        assert len(threads) == 1
        assert here not in threads

    assert worked(scenario) == []


def test_a_job_that_fails_ends_the_node() -> None:
    async def scenario(worker: ImageThread) -> None:
        def fail() -> None:
            raise OSError(28, "No space left on device")

        worker.do(fail)
        await asyncio.sleep(0.05)
        worker.do(lambda: None, lambda _: pytest.fail("it went on"))
        await asyncio.sleep(0.05)

    assert worked(scenario) == ["the image thread failed: [Errno 28] No space left on device"]


def test_a_result_that_cannot_be_taken_ends_the_node() -> None:
    async def scenario(worker: ImageThread) -> None:
        def take(_: None) -> None:
            raise KeyError("place")

        worker.do(lambda: None, take)
        await worker.run(lambda: None)

    assert worked(scenario) == ["a result of the image thread failed: KeyError: 'place'"]


def test_who_waits_for_a_job_gets_what_it_raises_and_the_node_goes_on() -> None:
    async def scenario(worker: ImageThread) -> None:
        def fail() -> None:
            raise OSError("broken")

        with pytest.raises(OSError, match="broken"):
            await worker.run(fail)
        assert await worker.run(lambda: 7) == 7

    assert worked(scenario) == []


def test_who_waits_no_longer_is_not_told() -> None:
    async def scenario(worker: ImageThread) -> None:
        go_on = threading.Event()
        waiting = asyncio.ensure_future(worker.run(go_on.wait))
        await asyncio.sleep(0)
        waiting.cancel()
        go_on.set()
        await worker.run(lambda: None)

    assert worked(scenario) == []


def test_a_job_that_hangs_ends_the_node_but_not_time_in_which_nothing_ran() -> None:
    async def scenario(worker: ImageThread) -> None:
        go_on = threading.Event()
        for _ in range(20):
            worker.look(1000.0)  # nothing was asked for
        worker.do(go_on.wait)
        try:
            worker.look(1000.0)
            worker.look(1000.0)  # a process that slept
            for _ in range(5):
                worker.look(LOOK_S)
            with pytest.raises(Ended):
                worker.look(LOOK_S)
        finally:
            go_on.set()

    assert worked(scenario, hangs_s=4.0) == ["the image thread hangs for 4 s: the disk does not answer"]


def test_a_slow_thread_that_goes_on_is_not_ended() -> None:
    async def scenario(worker: ImageThread) -> None:
        for _ in range(30):
            done = asyncio.Event()
            worker.do(lambda: None, lambda _, done=done: done.set())
            for _ in range(3):
                worker.look(LOOK_S)
            await done.wait()

    assert worked(scenario, hangs_s=4.0) == []


def test_close_waits_for_what_was_asked_and_tells_nobody() -> None:
    async def scenario(worker: ImageThread) -> None:
        seen: list[str] = []
        worker.do(lambda: seen.append("done"), lambda _: seen.append("told"))
        worker.close()
        await asyncio.sleep(0)
        assert seen == ["done"]

    assert worked(scenario) == []
