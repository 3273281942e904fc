"""A node that cannot be sure ends at once: with a reason, before anything else."""

import contextlib
import subprocess
import sys
import threading
import time
from typing import NoReturn

import pytest

from cluster.fatal import EXIT_STATUS, SyncWatch, guarded


class _Ended(BaseException):
    pass


class End:
    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.called = threading.Event()

    def __call__(self, reason: str, error: BaseException | None = None) -> NoReturn:
        self.reasons.append(reason)
        self.called.set()
        raise _Ended(reason) from error


@pytest.mark.parametrize("error", [ValueError("x"), MemoryError(), KeyboardInterrupt(), SystemExit(0)])
def test_any_exception_ends_the_node(error: BaseException) -> None:
    def fail() -> None:
        raise error

    end = End()
    with pytest.raises(_Ended):
        guarded(end, "a turn", fail)()
    assert end.reasons[0].startswith(f"a turn failed: {type(error).__name__}")


def test_what_does_not_fail_returns() -> None:
    def add(a: int, b: int) -> int:
        return a + b

    assert guarded(End(), "adding", add)(1, b=2) == 3


def test_fatal_says_why_and_leaves_without_cleaning_up() -> None:
    program = (
        "import atexit, logging; from cluster.fatal import fatal\n"
        "logging.basicConfig(); atexit.register(print, 'cleaned up')\n"
        "try:\n  1 / 0\nexcept ZeroDivisionError as error:\n"
        "  try: fatal('the reason', error)\n"
        "  finally: print('went on')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == EXIT_STATUS
    assert "this node stops: the reason" in done.stderr
    assert "ZeroDivisionError" in done.stderr
    assert done.stdout == ""


def test_a_sync_that_hangs_ends_the_node() -> None:
    end, hang = End(), threading.Event()
    watch = SyncWatch(end, hangs_s=0.05, look_s=0.01)
    watch._thread = threading.Thread(target=lambda: _quietly(watch), daemon=True)
    watch.start()
    stuck = threading.Thread(target=watch.run, args=(hang.wait,), daemon=True)
    stuck.start()
    assert end.called.wait(10)
    assert "the disk does not answer" in end.reasons[0]
    hang.set()
    stuck.join()


def _quietly(watch: SyncWatch) -> None:
    with contextlib.suppress(_Ended):
        watch._watch()


def test_syncs_that_end_disturb_nobody() -> None:
    end = End()
    watch = SyncWatch(end, hangs_s=0.05, look_s=0.005)
    watch.start()
    ends_at = time.monotonic() + 0.3
    while time.monotonic() < ends_at:
        assert watch.run(lambda: None) >= 0
    watch.stop()
    watch._thread.join()
    assert not end.reasons


def test_a_sync_that_fails_is_not_taken_for_one_that_ended() -> None:
    def fail() -> None:
        raise OSError("full")

    watch = SyncWatch(End())
    with pytest.raises(OSError, match="full"):
        watch.run(fail)
    assert watch._ended != watch._begun
