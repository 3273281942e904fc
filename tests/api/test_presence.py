"""Who is still there: connections that come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from api.connection import Connection
from api.presence import Presence


class Link(Connection):
    """A connection of which only its loss is used."""

    def __init__(self) -> None:
        self._watchers: list[Callable[[], None]] = []
        self.lost = False

    def lose(self) -> None:
        self.lost = True
        watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            watcher()


def test_gone_when_the_only_one_is_lost() -> None:
    async def scenario() -> None:
        presence, link, calls = Presence(), Link(), []
        presence.join(link)
        presence.on_gone(lambda: calls.append(1))
        assert presence.here
        assert not presence.gone
        link.lose()
        assert (presence.here, presence.gone, calls) == (False, True, [1])

    asyncio.run(scenario())


def test_one_that_is_lost_already_never_was_there() -> None:
    async def scenario() -> None:
        presence, link, calls = Presence(), Link(), []
        link.lose()
        presence.join(link)
        presence.on_gone(lambda: calls.append(1))
        assert (presence.gone, calls) == (True, [1])

    asyncio.run(scenario())


def test_as_long_as_one_is_left_nobody_is_gone() -> None:
    async def scenario() -> None:
        presence, one, two = Presence(), Link(), Link()
        presence.join(one)
        presence.join(two)
        presence.join(two)
        one.lose()
        assert presence.here
        two.lose()
        assert presence.gone

    asyncio.run(scenario())


def test_within_the_grace_one_may_come_back() -> None:
    async def scenario() -> None:
        presence, one, two = Presence(0.05), Link(), Link()
        presence.join(one)
        one.lose()
        assert not presence.here
        presence.join(two)
        await asyncio.sleep(0.1)
        assert not presence.gone
        two.lose()
        gone = asyncio.Event()
        presence.on_gone(gone.set)
        async with asyncio.timeout(5):
            await gone.wait()

    asyncio.run(scenario())


def test_closed_it_watches_nobody() -> None:
    async def scenario() -> None:
        presence, link = Presence(), Link()
        presence.join(link)
        presence.close()
        assert not link._watchers
        assert not presence.here

    asyncio.run(scenario())
