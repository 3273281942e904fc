"""The hub of polls, by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from api.presence import Presence
from api.waiting import REMEMBERED, Hub, Over
from statemachine.machine import Applied
from tests.api.local import LocalReplica


def with_hub(test: Callable[[LocalReplica, Hub], Awaitable[None]]) -> Callable[[], None]:
    def run() -> None:
        async def scenario() -> None:
            replica = LocalReplica()
            await test(replica, Hub(replica))

        asyncio.run(scenario())

    return run


def touch(replica: LocalReplica, *topics: str) -> int:
    """An entry that touched these, as far as the hub can tell."""
    index = replica.machine.index = replica.machine.index + 1
    for subscriber in replica._subscribers:
        subscriber(index, Applied([], [("t", topic) for topic in topics]))
    return index


@with_hub
async def test_only_what_it_waits_for_wakes_a_poll(replica: LocalReplica, hub: Hub) -> None:
    with hub.poll(Presence(), asyncio.get_running_loop().time() + 60) as poll:
        waiting = asyncio.create_task(poll.touched([("t", "a"), ("t", "b")]))
        await asyncio.sleep(0)
        touch(replica, "c")
        await asyncio.sleep(0)
        assert not waiting.done()
        touch(replica, "b")
        assert await waiting is True
        assert poll.over is None
    assert (len(hub), hub._waiting) == (0, {})


@with_hub
async def test_time_ends_a_poll_for_good(replica: LocalReplica, hub: Hub) -> None:
    with hub.poll(Presence(), asyncio.get_running_loop().time() + 0.01) as poll:
        assert await poll.touched([("t", "a")]) is False
        assert poll.over is Over.TIME
        assert await poll.touched([("t", "a")]) is False


@with_hub
async def test_what_was_touched_a_moment_ago_counts(replica: LocalReplica, hub: Hub) -> None:
    before = touch(replica, "a")
    after = touch(replica, "b")
    with hub.poll(Presence(), asyncio.get_running_loop().time() + 0.01) as poll:
        assert await poll.touched([("t", "b")], since=before) is True
        assert await poll.touched([("t", "b")], since=after) is False


@with_hub
async def test_what_is_remembered_no_more_may_have_been_touched(replica: LocalReplica, hub: Hub) -> None:
    index = touch(replica, "a")
    for _ in range(REMEMBERED):
        touch(replica, "b")
    assert hub.touched_since(index, [("t", "a")]) is False
    touch(replica, "b")
    assert hub.touched_since(index, [("t", "a")]) is True


@with_hub
async def test_an_image_in_the_place_of_the_state_wakes_every_poll(replica: LocalReplica, hub: Hub) -> None:
    before = touch(replica, "a")
    later = asyncio.get_running_loop().time() + 60
    with hub.poll(Presence(), later) as one, hub.poll(Presence(), later) as other:
        waiting = [asyncio.create_task(poll.touched([("t", "b")])) for poll in (one, other)]
        await asyncio.sleep(0)
        replica.machine.index = before + 1
        for jumped in replica._jumped:
            jumped(before + 1)
        assert await asyncio.gather(*waiting) == [True, True]
    assert hub.touched_since(before, [("t", "c")]) is True
    assert hub.touched_since(before + 1, [("t", "c")]) is False
    touch(replica, "c")
    assert hub.touched_since(before, [("t", "d")]) is True
    assert hub.touched_since(before + 1, [("t", "d")]) is False


@with_hub
async def test_draining_ends_all_polls(replica: LocalReplica, hub: Hub) -> None:
    later = asyncio.get_running_loop().time() + 60
    with hub.poll(Presence(), later) as poll:
        waiting = asyncio.create_task(poll.touched([("t", "a")]))
        await asyncio.sleep(0)
        hub.drain()
        assert await waiting is False
        assert poll.over is Over.DRAINING
    with hub.poll(Presence(), later) as poll:
        assert poll.over is Over.DRAINING


@with_hub
async def test_a_draining_replica_lets_nobody_begin(replica: LocalReplica, hub: Hub) -> None:
    replica.draining = True
    with hub.poll(Presence(), asyncio.get_running_loop().time() + 60) as poll:
        assert await poll.touched([("t", "a")]) is False
