"""Operations with an idempotency key that are under way at this node, so that a repeat waits for the first.

The machine gives a repeat the first answer once there is one; before that it would run a second time or, if both
were proposed together, the answer to it would come from a race. What ends without success leaves nothing behind, and
the repeat then runs as if it were the first.
"""

from __future__ import annotations

import asyncio
from types import TracebackType

from api.connection import Connection
from api.presence import Presence


class Running:
    """One operation under way, used as a context manager by the call that runs it."""

    __slots__ = ("_all", "_ended", "_key", "joined", "presence")

    def __init__(self, all_: dict[tuple[str, str], Running], key: tuple[str, str]) -> None:
        self._all = all_
        self._key = key
        self._ended: asyncio.Future[None] | None = None
        self.joined: list[Connection] = []  # of repeats that came before it began to wait in a line
        self.presence: Presence | None = None  # while it waits in a line

    def __enter__(self) -> Running:
        self._all[self._key] = self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        del self._all[self._key]
        if self._ended is not None:
            self._ended.set_result(None)

    async def wait_ended(self, connection: Connection | None) -> None:
        """Wait for its end. connection: of the repeat; as long as it is there, somebody wants the answer."""
        if connection is not None:
            if self.presence is not None:
                self.presence.join(connection)
            else:
                self.joined.append(connection)
        if self._ended is None:
            self._ended = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._ended)


class InFlight:
    def __init__(self) -> None:
        self._all: dict[tuple[str, str], Running] = {}

    def get(self, space: str, key: str) -> Running | None:
        return self._all.get((space, key))

    def begin(self, space: str, key: str) -> Running:
        return Running(self._all, (space, key))
