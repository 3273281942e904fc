"""What every lease has in common, whatever it is a lease of."""

from __future__ import annotations

import pytest

from statemachine import leases
from statemachine.context import Context
from statemachine.errors import Refused
from tests.statemachine.driver import WALL_START_MS, Driver

THING = "scp_1"


@pytest.fixture
def context(driver: Driver) -> Context:
    """A context at 10 s of lease time, in a space whose owners may hold for 60 s."""
    space = driver.new_space("short", max_hold_seconds=60)
    store = driver.first.store
    return Context(store, space, driver.actor, 99, 10_000, WALL_START_MS, position=3, entropy=bytes(16))


def at(context: Context, lease_now_ms: int) -> Context:
    context.lease_now_ms = lease_now_ms
    return context


def test_a_lease_lasts_until_its_deadline_and_not_at_it(context: Context) -> None:
    lease = leases.grant(context, THING, 1, "ann", "s1", 30)
    assert (lease.holder, lease.session, lease.generation, lease.seconds) == ("ann", "s1", 1, 30)
    assert (lease.acquired_at_ms, lease.deadline_ms, lease.since_ms) == (10_000, 40_000, WALL_START_MS)
    assert leases.live(at(context, 39_999), lease)
    assert leases.left_ms(context, lease) == 1
    assert not leases.live(at(context, 40_000), lease)
    assert leases.left_ms(at(context, 90_000), lease) == 0


def test_only_the_current_token_of_a_live_lease_will_do(context: Context) -> None:
    lease = leases.grant(context, THING, 1, "ann", "s1", 30)
    leases.require(at(context, 39_999), lease, lease.token)
    for token in ("", lease.token + "0", lease.token[:-1], leases.grant(context, THING, 1, "ann", "s1", 30).token):
        with pytest.raises(Refused) as refused:
            leases.require(context, lease, token)
        assert refused.value.error.code == "STALE_CLAIM"
    with pytest.raises(Refused) as refused:
        leases.require(at(context, 40_000), lease, lease.token)
    assert refused.value.error.code == "STALE_CLAIM"


def test_a_token_names_its_thing_and_no_two_are_alike(context: Context) -> None:
    tokens = [leases.grant(context, THING, 1, "ann", "s1", 30).token for _ in range(100)]
    assert len({*tokens}) == 100
    assert {leases.thing_of(token) for token in tokens} == {THING}
    assert leases.thing_of("no token at all") == "no token at all"


def test_a_first_time_may_be_shorter_than_the_lease(context: Context) -> None:
    lease = leases.grant(context, THING, 2, "ann", "s1", 30, first_ms=5_000)
    assert lease.deadline_ms == 15_000
    assert leases.renewed(at(context, 12_000), lease, None).deadline_ms == 42_000


def test_a_renewal_lasts_as_long_as_was_last_asked_for(context: Context) -> None:
    lease = leases.grant(context, THING, 1, "ann", "s1", 30)
    assert leases.renewed(at(context, 20_000), lease, None).deadline_ms == 50_000
    longer = leases.renewed(context, lease, 50)
    assert (longer.deadline_ms, longer.seconds) == (70_000, 50)
    assert leases.renewed(at(context, 30_000), longer, None).deadline_ms == 80_000
    assert leases.renewed(context, longer, 1).deadline_ms == 31_000


def test_a_renewal_changes_nothing_else(context: Context) -> None:
    lease = leases.grant(context, THING, 7, "ann", "s1", 30)
    renewed = leases.renewed(at(context, 20_000), lease, 10)
    for field in ("token", "generation", "holder", "session", "acquired_at_ms", "since_ms"):
        assert getattr(renewed, field) == getattr(lease, field)


def test_nobody_renews_past_the_bound_of_the_space(context: Context) -> None:
    lease = leases.grant(context, THING, 1, "ann", "s1", 30)
    for now_ms in (30_000, 50_000, 69_999):
        lease = leases.renewed(at(context, now_ms), lease, 30)
    with pytest.raises(Refused) as refused:
        leases.renewed(at(context, 70_000), lease, 1)
    assert refused.value.error.code == "LEASE_RENEWALS_EXHAUSTED"
    assert refused.value.details == {"maxHoldSeconds": 60}
    leases.require(context, lease, lease.token)  # it still has time to hand the thing back
