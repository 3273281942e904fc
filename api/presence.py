"""Whether anybody still wants an answer: the connections for which one thing is being done.

Usually one. A client whose connection broke repeats with the same idempotency key, so a second connection may join the
first one's operation; it counts as gone when no connection is left for a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from api.connection import Connection


class Presence:
    """grace_seconds: how long nobody may be there before they count as gone."""

    __slots__ = ("_callbacks", "_connections", "_grace_seconds", "_loop", "_timer", "gone")

    def __init__(self, grace_seconds: float = 0.0) -> None:
        self._loop = asyncio.get_running_loop()
        self._grace_seconds = grace_seconds
        self._connections: dict[Connection, Callable[[], None]] = {}
        self._callbacks: list[Callable[[], None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self.gone = False

    @property
    def here(self) -> bool:
        """Somebody is connected at this moment."""
        return bool(self._connections)

    def join(self, connection: Connection) -> None:
        if connection.lost or connection in self._connections:
            self._consider()
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

        def lost() -> None:
            self._connections.pop(connection, None)
            self._consider()

        self._connections[connection] = lost
        connection.watch(lost)

    def close(self) -> None:
        """Watch nobody any longer."""
        for connection, lost in self._connections.items():
            connection.unwatch(lost)
        self._connections.clear()
        if self._timer is not None:
            self._timer.cancel()

    def on_gone(self, callback: Callable[[], None]) -> None:
        """Call back when all have gone, at once when they have already."""
        self._callbacks.append(callback)
        if self.gone:
            callback()

    def off_gone(self, callback: Callable[[], None]) -> None:
        self._callbacks.remove(callback)

    def _consider(self) -> None:
        if self._connections or self.gone or self._timer is not None:
            return
        if self._grace_seconds:
            self._timer = self._loop.call_later(self._grace_seconds, self._leave)
        else:
            self._leave()

    def _leave(self) -> None:
        self._timer = None
        self.gone = True
        for callback in list(self._callbacks):
            callback()
