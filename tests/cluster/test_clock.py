"""Lease time stands still without a leader and never falls; wall time follows a majority, never one bad clock."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.clock import FASTEST, SLOWEST, LeaseClock, WallClock
from cluster.fatal import InvariantBroken
from cluster.quorum import Quorum

DAY_MS = 86_400_000
START_MS = 1_700_000_000_000


def test_a_new_leader_starts_at_the_larger_of_log_and_heartbeat_and_waits_a_second() -> None:
    for logged_ms, heard_ms in ((5_000, 7_000), (7_000, 5_000)):
        clock = LeaseClock(0.6)
        clock.hear(heard_ms, 10.0)
        clock.lead(logged_ms, 20.0)
        assert [clock.now_ms(20.0 + seconds) for seconds in (0.0, 0.5, 1.0, 1.5, 61.0)] == [
            7_000,
            7_000,
            7_000,
            7_500,
            67_000,
        ]


def test_lease_time_does_not_run_while_nobody_leads() -> None:
    clock = LeaseClock(0.6)
    clock.hear(1_000, 10.0)
    assert clock.now_ms(10.25) == 1_250  # a follower's estimate
    assert clock.now_ms(3_600.0) == 1_600  # no leader was heard for long
    clock.lead(900, 3_600.0)
    assert clock.now_ms(3_600.0) == 1_000


def test_lease_time_goes_on_from_what_this_leader_stamped_last() -> None:
    clock = LeaseClock(0.6)
    clock.lead(1_000, 0.0)
    assert clock.stamp(5.0) == 5_000
    clock.stop(5.0)
    clock.hear(4_000, 6.0)  # an old heartbeat
    clock.lead(1_000, 7.0)
    assert clock.stamp(7.0) == 5_000
    with pytest.raises(InvariantBroken):
        LeaseClock(0.6).stamp(0.0)


def test_lease_time_does_not_run_while_the_leader_stands_still() -> None:
    clock = LeaseClock(0.6)
    clock.lead(0, 0.0)
    for tenth in range(31):
        clock.look(tenth / 10)
    assert clock.stamp(3.05) == 2_050
    clock.look(3.5)  # a long turn, and no more
    assert clock.stamp(3.5) == 2_500
    clock.look(63.5)
    assert [clock.stamp(63.5 + seconds) for seconds in (0.0, 1.0, 1.5)] == [2_500, 2_500, 3_000]
    clock.stop(100.0)
    assert clock.now_ms(100.0) == 3_000


def test_a_leader_knows_when_lease_time_will_be_reached() -> None:
    clock = LeaseClock(0.6)
    assert clock.reaches_at(1) == float("inf")
    clock.lead(1_000, 10.0)
    for lease_ms in (900, 1_000, 1_001, 1_500, 99_999):
        assert clock.now_ms(clock.reaches_at(lease_ms)) >= lease_ms
    assert clock.reaches_at(1_500) == pytest.approx(11.5, abs=0.001)


class Clocks:
    """Three members' wall clocks against one monotonic clock."""

    def __init__(self, logged_ms: int = START_MS, **skew_ms: int) -> None:
        self.skew_ms = {"n1": 0, **skew_ms}
        members = {"n1": 1, "n2": 2, "n3": 3}
        self.clock = WallClock(Quorum(lambda: members, "n1", 1))
        self.now = 0.0
        self.told()
        self.clock.lead(logged_ms, self.own_ms(), self.now)

    def own_ms(self, node_id: str = "n1") -> int:
        return START_MS + int(self.now * 1000) + self.skew_ms[node_id]

    def told(self) -> None:
        for node_id in self.skew_ms.keys() - {"n1"}:
            self.clock.sample(node_id, self.own_ms(node_id), self.now)

    def run(self, seconds: float) -> float:
        """Returns how far wall time is from the truth, in milliseconds, at the end."""
        ends_at = self.now + seconds
        while self.now < ends_at:
            self.now += 0.05
            self.told()
            self.clock.steer(self.own_ms(), self.now)
            self.clock.stamp(self.now)
        return self.clock.stamp(self.now) - (START_MS + self.now * 1000)


def test_a_cold_start_steps_to_what_a_majority_says() -> None:
    assert abs(Clocks(START_MS - DAY_MS, n2=0, n3=0).run(0.1)) < 5


@pytest.mark.parametrize("bad_ms", [3_600_000, -3_600_000, 75 * 365 * DAY_MS])
@pytest.mark.parametrize("bad", ["n1", "n2"])
def test_one_bad_clock_moves_nothing(bad: str, bad_ms: int) -> None:
    clocks = Clocks(n2=0, n3=0)
    clocks.skew_ms[bad] = bad_ms
    assert abs(clocks.run(60.0)) < 5
    assert not clocks.clock.alarm


@pytest.mark.parametrize("bad_ms", [3_600_000, -3_600_000])
def test_without_a_majority_that_agrees_time_runs_on_and_alarm_is_raised(bad_ms: int) -> None:
    clocks = Clocks(n2=bad_ms)  # n3 is away
    assert abs(clocks.run(60.0)) < 5
    assert clocks.clock.alarm


def test_steering_is_bounded_both_ways() -> None:
    ahead = Clocks(START_MS + 900, n2=0, n3=0)
    assert ahead.run(1.0) == pytest.approx(900 - 1000 * (1 - SLOWEST), abs=5)
    assert abs(ahead.run(30.0)) < 5
    behind = Clocks(START_MS - 900, n2=0, n3=0)
    assert behind.run(1.0) == pytest.approx(-900 + 1000 * (FASTEST - 1), abs=5)


def test_a_node_knows_that_its_own_clock_is_off() -> None:
    clock = WallClock(Quorum(lambda: {"n1": 1}, "n1", 1))
    assert not clock.is_off(0, 5.0)  # it has nothing to compare with
    clock.hear(START_MS, 10.0)
    assert not clock.is_off(START_MS + 1_900, 10.0)
    assert clock.is_off(START_MS + 2_100, 10.0)
    assert clock.is_off(START_MS, 13.0)


@given(
    st.lists(
        st.tuples(st.floats(0.0, 3.0), st.integers(-5_000, 5_000), st.integers(-5_000, 5_000), st.booleans()),
        max_size=40,
    )
)
def test_wall_time_never_falls(steps: list[tuple[float, int, int, bool]]) -> None:
    clocks = Clocks(n2=0, n3=0)
    logged_ms = 0
    for seconds, own_ms, other_ms, again in steps:
        clocks.skew_ms.update(n1=own_ms, n2=other_ms)
        clocks.now += seconds
        clocks.told()
        if again:  # another led meanwhile and is heard, then this node leads again
            clocks.clock.stop()
            clocks.clock.hear(clocks.own_ms("n3"), clocks.now)
            clocks.clock.lead(logged_ms, clocks.own_ms(), clocks.now)
        clocks.clock.steer(clocks.own_ms(), clocks.now)
        stamp = clocks.clock.stamp(clocks.now)
        assert stamp >= logged_ms
        logged_ms = stamp
