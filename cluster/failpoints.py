"""Named faults at named points of the program, so that tests can fail, hang or kill a node at an exact step.

A point is declared by the module that passes it. Nothing is switched on unless a test or the `failpoints` option says
so, and a point that is off costs one look into an empty dict. Points stand where a real fault can strike (a disk, a
crash), and what they do is what the real fault does: an OSError, a call that never returns, a SIGKILL.

It must never be a way to change what a node does when nothing fails.
"""

import errno
import os
import signal
import threading
from collections.abc import Callable, Iterable

POINTS: dict[str, str] = {}  # name of every declared point -> what is about to happen there

Action = Callable[[str], None]


def declare(name: str, meaning: str) -> str:
    """Declare a point and return its name. Called once, at import, by the module that passes it."""
    assert name not in POINTS, f"failpoint {name} is declared twice"
    POINTS[name] = meaning
    return name


def _fail(point: str) -> None:
    raise OSError(errno.EIO, f"failpoint {point}")


def _hang(point: str) -> None:
    threading.Event().wait()


def _kill(point: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


ACTIONS: dict[str, Action] = {"fail": _fail, "hang": _hang, "kill": _kill}


class Failpoints:
    """The points that are switched on in one node."""

    def __init__(self, specs: Iterable[str] = ()) -> None:
        """specs: `point=action` or `point=action@n`, which acts the n-th time the point is passed (default: the first).

        Raises ValueError for an unknown point or action.
        """
        self._armed: dict[str, tuple[Action, int]] = {}
        for spec in specs:
            point, _, rest = spec.partition("=")
            action, _, turn = rest.partition("@")
            if action not in ACTIONS or not (turn or "1").isdecimal():
                known = ", ".join(ACTIONS)
                raise ValueError(f"failpoint {spec!r} is not point=action or point=action@n with an action of {known}")
            self.arm(point, ACTIONS[action], int(turn or "1"))

    def arm(self, point: str, action: Action, turn: int = 1) -> None:
        """Call `action(point)` the turn-th time the point is passed from now on, once."""
        if point not in POINTS:
            raise ValueError(f"failpoint {point!r} is unknown; there are {', '.join(sorted(POINTS))}")
        self._armed[point] = (action, turn)

    def disarm(self, point: str) -> None:
        self._armed.pop(point, None)

    def reach(self, point: str) -> None:
        """Pass a point: does nothing unless it is switched on."""
        if not self._armed or point not in self._armed:
            return
        action, turn = self._armed[point]
        if turn > 1:
            self._armed[point] = (action, turn - 1)
            return
        del self._armed[point]
        action(point)
