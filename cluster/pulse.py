"""When a node acts: turns when something happened, and one timer for everything that time brings.

Timeouts are judged only after the loop has read all input that had arrived. A loop that stood still (a long garbage
collection, a suspended machine) finds its timers late and its sockets full; who judged first would take its own absence
for everybody else's silence, and start an election.
"""

import asyncio
from collections.abc import Callable

from cluster.fatal import Fatal, guarded
from cluster.ports import Clocks

PASSES = 3  # of the loop between the timer and the judgement
PASSES_MAX = 10  # however much still arrives
PASS_S = 0.1  # a pass that took longer stood still itself: look again, a few times
RESTARTS_MAX = 3
SOONEST_S = 0.001


class Pulse:
    """turn: what to do when kicked. tick: what to do when the timer rang, a turn included. next_at: when the timer
    must ring at the latest, by the monotonic clock. A turn or tick that raises ends the node.
    """

    def __init__(
        self,
        clocks: Clocks,
        end: Fatal,
        turn: Callable[[], None],
        tick: Callable[[], None],
        next_at: Callable[[float], float],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._clocks = clocks
        self._turn = guarded(end, "a turn", turn)
        self._tick = guarded(end, "a timer", tick)
        self._next_at = next_at
        self._kicked = False
        self._input = 0
        self._restarts = 0
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = float("inf")
        self._closed = False

    def start(self) -> None:
        self._ring()

    def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def kick(self) -> None:
        """Take a turn soon."""
        if not self._kicked and not self._closed:
            self._kicked = True
            self._loop.call_soon(self._run_turn)

    def got_input(self) -> None:
        """A message was received: there may be more behind it."""
        self._input += 1
        self.kick()

    def _run_turn(self) -> None:
        self._kicked = False
        if not self._closed:
            self._turn()
            if self._timer is not None:
                now = self._clocks.monotonic()
                if self._next_at(now) < self._rings_at - SOONEST_S:
                    self._arm(now)

    def _arm(self, now: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._rings_at = max(self._next_at(now), now + SOONEST_S)
        self._timer = self._loop.call_later(self._rings_at - now, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._restarts = 0
        self._pass(0, -1, self._clocks.monotonic())

    def _pass(self, number: int, input_before: int, passed_at: float) -> None:
        if self._closed:
            return
        now = self._clocks.monotonic()
        if now - passed_at > PASS_S and self._restarts < RESTARTS_MAX:
            self._restarts += 1
            number = 0
        quiet = self._input == input_before
        if number >= PASSES_MAX or (number >= PASSES and quiet):
            self._tick()
            if not self._closed:
                self._arm(self._clocks.monotonic())
        else:
            self._loop.call_soon(self._pass, number + 1, self._input, now)
