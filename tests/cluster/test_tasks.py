"""Work over several passes of the loop ends with the node, and ends the node when it fails."""

from __future__ import annotations

import asyncio
from typing import Any

from cluster.tasks import Tasks


def test_a_failure_ends_the_node_and_cancelling_does_not() -> None:
    reasons: list[str] = []

    def end(reason: str, error: BaseException | None = None) -> Any:
        reasons.append(reason)

    async def fail() -> None:
        await asyncio.sleep(0)
        raise KeyError("place")

    async def wait() -> None:
        await asyncio.Event().wait()

    async def scenario() -> None:
        tasks = Tasks(end, "something long")
        await tasks.begin(fail)
        assert reasons == ["something long failed: KeyError: 'place'"]
        waiting = [tasks.begin(wait) for _ in range(2)]
        await asyncio.sleep(0)
        tasks.cancel()
        await asyncio.wait(waiting)
        assert all(task.cancelled() for task in waiting)
        tasks.begin(wait)
        tasks.cancel()  # before it began
        await asyncio.sleep(0)
        assert len(reasons) == 1

    asyncio.run(scenario())
