"""Long polls: who waits for what, woken by what an applied entry touched.

A poll registers the topics that its answer depends on and sleeps. The entry that touches one of them wakes it; nothing
polls, and a poll that nothing wakes costs one timer and one future. It also ends when its time is up, when its client
has gone, and when the node drains; then it is asked no more.

Everything runs on the node's loop, so between reading the machine and registering nothing can be applied. Where
something can (the outcome of an operation reaches its caller a moment after it was applied), `since` closes the gap:
what the last entries touched is remembered.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from enum import Enum

from api.presence import Presence
from api.replica import Replica
from statemachine.machine import Applied
from statemachine.store import Topic

REMEMBERED = 64  # entries; a caller learns its outcome a few entries later at most


class Over(Enum):
    """Why a poll waits no longer."""

    TIME = "its time is up"
    GONE = "its client has gone"
    DRAINING = "the node drains"


class Hub:
    """All polls of one node."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._waiting: dict[Topic, set[Poll]] = {}
        self._polls: set[Poll] = set()
        self._recent: deque[tuple[int, Sequence[Topic]]] = deque(maxlen=REMEMBERED)
        self._jumped_index = 0  # below it nobody knows what was touched
        self._draining = False
        replica.subscribe(self._on_applied)
        replica.subscribe_jumps(self._on_jump)

    def __len__(self) -> int:
        """Polls in flight."""
        return len(self._polls)

    def poll(self, presence: Presence, until: float) -> Poll:
        """A poll, to be used as a context manager. until: loop time in seconds."""
        return Poll(self, presence, until)

    def drain(self) -> None:
        """End all polls, and every later one at once."""
        self._draining = True
        for poll in list(self._polls):
            poll.end(Over.DRAINING)

    @property
    def draining(self) -> bool:
        return self._draining or self._replica.draining

    def touched_since(self, index: int, topics: Sequence[Topic]) -> bool:
        """Whether an entry above the index touched one of the topics, as far as that is remembered; else True."""
        if index < self._jumped_index:
            return True
        recent = self._recent
        if not recent or recent[-1][0] <= index:
            return False
        if recent[0][0] > index + 1:
            return True
        wanted = set(topics)
        return any(at > index and not wanted.isdisjoint(touched) for at, touched in recent)

    def enter(self, poll: Poll) -> None:
        self._polls.add(poll)

    def leave(self, poll: Poll) -> None:
        self._polls.discard(poll)

    def register(self, poll: Poll, topics: Sequence[Topic]) -> None:
        for topic in topics:
            self._waiting.setdefault(topic, set()).add(poll)

    def forget(self, poll: Poll, topics: Sequence[Topic]) -> None:
        for topic in topics:
            waiting = self._waiting.get(topic)
            if waiting is not None:
                waiting.discard(poll)
                if not waiting:
                    del self._waiting[topic]

    def _on_applied(self, index: int, applied: Applied) -> None:
        touched = applied.touched
        self._recent.append((index, touched))
        if self._waiting:
            for topic in touched:
                for poll in self._waiting.get(topic, ()):
                    poll.wake()

    def _on_jump(self, index: int) -> None:
        """An image took the place of the node's state: whatever a poll waits for may have happened."""
        self._recent.clear()
        self._jumped_index = index
        for poll in self._polls:
            poll.wake()


class Poll:
    """One poll. `over` says why it has ended, None while it has not."""

    __slots__ = ("_hub", "_loop", "_presence", "_timer", "_until", "_wakening", "over")

    def __init__(self, hub: Hub, presence: Presence, until: float) -> None:
        self._hub = hub
        self._loop = asyncio.get_running_loop()
        self._presence = presence
        self._until = until
        self._timer: asyncio.TimerHandle | None = None
        self._wakening: asyncio.Future[None] | None = None
        self.over: Over | None = None

    def __enter__(self) -> Poll:
        self._hub.enter(self)
        self._timer = self._loop.call_at(self._until, self.end, Over.TIME)
        self._presence.on_gone(self._gone)
        if self._hub.draining:
            self.end(Over.DRAINING)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._timer is not None
        self._timer.cancel()
        self._presence.off_gone(self._gone)
        self._hub.leave(self)

    async def touched(self, topics: Sequence[Topic], since: int | None = None) -> bool:
        """Wait until an entry touches one of the topics. False when the poll is over instead.

        since: an index of an entry; what later ones touched counts already.
        """
        if self.over is not None:
            return False
        if since is not None and self._hub.touched_since(since, topics):
            return True
        self._wakening = self._loop.create_future()
        self._hub.register(self, topics)
        try:
            await self._wakening
        finally:
            self._hub.forget(self, topics)
            self._wakening = None
        return self.over is None

    def wake(self) -> None:
        if self._wakening is not None and not self._wakening.done():
            self._wakening.set_result(None)

    def end(self, why: Over) -> None:
        if self.over is None:
            self.over = why
        self.wake()

    def _gone(self) -> None:
        self.end(Over.GONE)
