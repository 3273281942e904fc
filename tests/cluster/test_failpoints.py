"""Failpoints: off by default, exact when on."""

import subprocess
import sys
from signal import SIGKILL

import pytest

from cluster import failpoints
from cluster.failpoints import POINTS, Failpoints
from cluster.journal_store import AFTER_COMMIT, BEFORE_COMMIT


def test_nothing_happens_at_a_point_that_is_off() -> None:
    Failpoints().reach(BEFORE_COMMIT)


def test_a_point_acts_once_at_the_turn_that_was_asked_for() -> None:
    points = Failpoints([f"{BEFORE_COMMIT}=fail@3"])
    points.reach(BEFORE_COMMIT)
    points.reach(AFTER_COMMIT)
    points.reach(BEFORE_COMMIT)
    with pytest.raises(OSError, match=r"failpoint journal\.before_commit"):
        points.reach(BEFORE_COMMIT)
    points.reach(BEFORE_COMMIT)


def test_a_point_can_be_armed_and_disarmed_while_running() -> None:
    points, seen = Failpoints(), []
    points.arm(BEFORE_COMMIT, seen.append)
    points.reach(BEFORE_COMMIT)
    assert seen == [BEFORE_COMMIT]
    points.arm(BEFORE_COMMIT, seen.append)
    points.disarm(BEFORE_COMMIT)
    points.reach(BEFORE_COMMIT)
    assert seen == [BEFORE_COMMIT]


@pytest.mark.parametrize("spec", ["journal.before_commit", "journal.before_commit=explode", f"{BEFORE_COMMIT}=fail@x"])
def test_a_spec_that_cannot_be_read_is_refused(spec: str) -> None:
    with pytest.raises(ValueError, match="point=action"):
        Failpoints([spec])


def test_an_unknown_point_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"unknown; there are .*journal\.after_commit"):
        Failpoints(["journal.never=fail"])


def test_two_points_cannot_have_one_name() -> None:
    with pytest.raises(AssertionError, match="twice"):
        failpoints.declare(BEFORE_COMMIT, "again")
    assert POINTS[BEFORE_COMMIT]


def test_kill_ends_the_process_like_a_power_loss() -> None:
    code = f"from cluster.journal_store import *; failpoints.Failpoints(['{BEFORE_COMMIT}=kill']).reach(BEFORE_COMMIT)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -SIGKILL
