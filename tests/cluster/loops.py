"""What tests of connections share: both event loops, ports, and waiting for what other coroutines do."""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

LOOPS = [pytest.param(asyncio.new_event_loop, id="asyncio"), pytest.param(uvloop.new_event_loop, id="uvloop")]

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


def run(loop_factory: LoopFactory, work: Coroutine[Any, Any, None], seconds: float = 30) -> None:
    """Run a test's coroutine. What a callback raised on the loop fails the test."""

    async def watched() -> None:
        errors: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
        async with asyncio.timeout(seconds):
            await work
        assert not errors, errors

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(watched())


async def until(condition: Callable[[], object], seconds: float = 10) -> None:
    """Let the loop run until the condition holds."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.002)


def free_addresses(count: int) -> list[str]:
    """Loopback addresses that nobody listened on a moment ago."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    finally:
        for each in sockets:
            each.close()
