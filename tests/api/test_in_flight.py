"""Operations under way, and those who wait for them."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from api.in_flight import InFlight
from api.presence import Presence
from tests.api.test_presence import Link


def test_it_is_found_while_it_runs() -> None:
    in_flight = InFlight()
    with in_flight.begin("s", "k") as running:
        assert in_flight.get("s", "k") is running
        assert in_flight.get("s", "other") is None
        assert in_flight.get("other", "k") is None
    assert in_flight.get("s", "k") is None


def test_a_failure_leaves_nothing_behind() -> None:
    in_flight = InFlight()
    with suppress(RuntimeError), in_flight.begin("s", "k"):
        raise RuntimeError
    assert in_flight.get("s", "k") is None


def test_repeats_wait_for_its_end() -> None:
    async def scenario() -> None:
        in_flight = InFlight()
        with in_flight.begin("s", "k") as running:
            waiting = [asyncio.create_task(running.wait_ended(None)) for _ in range(3)]
            await asyncio.sleep(0)
            waiting[0].cancel()
            await asyncio.sleep(0)
            assert not waiting[1].done()
        await asyncio.gather(*waiting[1:])
        assert waiting[0].cancelled()

    asyncio.run(scenario())


def test_a_repeat_is_there_for_the_first_one_as_well() -> None:
    async def scenario() -> None:
        in_flight, early, late = InFlight(), Link(), Link()
        with in_flight.begin("s", "k") as running:
            waiting = [asyncio.create_task(running.wait_ended(early))]
            await asyncio.sleep(0)
            assert running.joined == [early]
            running.presence = Presence()
            waiting.append(asyncio.create_task(running.wait_ended(late)))
            await asyncio.sleep(0)
            assert running.presence.here
            late.lose()
            assert running.presence.gone
        await asyncio.gather(*waiting)

    asyncio.run(scenario())
