"""Very many leases that end at once: the sweep goes in bounded steps, and nobody waits for it or is fooled by it."""

from __future__ import annotations

import pytest

from statemachine.events import EVENTS, IN_SPACE
from statemachine.machine import SWEPT_MAX
from tests.statemachine.driver import Driver

COUNT = 2 * SWEPT_MAX + 50


@pytest.fixture
def driver() -> Driver:
    return Driver(checked=False, reload_every=3)


def acquire(driver: Driver, run: str, key: str, seconds: int, holder: str = "ann") -> bytes:
    return driver.operation(
        "claims.acquire", scope_id=run, key=key, holder=holder, holder_session="s1", lease_seconds=seconds
    )


def lapsed(driver: Driver) -> list[str]:
    events = driver.first.store.rows(EVENTS).ordered(IN_SPACE, driver.space)
    return [event.aggregate_id for event in events if event.type == "claim.lapsed"]


def test_many_leases_of_one_deadline_do_not_stall_the_others(driver: Driver) -> None:
    run = driver.do("scopes.create")["id"]
    keys = [f"k{number:04}" for number in range(COUNT)]
    for start in range(0, COUNT, 200):
        driver.apply([acquire(driver, run, key, 5) for key in keys[start : start + 200]])
    (live,) = driver.apply([acquire(driver, run, "live", 3600)])
    driver.advance(5_000)

    # The first entry after their deadline has room for a part of them only.
    last = keys[-1]
    stale = driver.ask("claims.list", scope_id=run, key=last)["claims"][0]
    renewal, taken, verified = driver.apply(
        [
            driver.operation("claims.renew", key="live", token=live["token"]),
            acquire(driver, run, last, 30, holder="bob"),
            driver.operation("claims.renew", key=last, token=f"{run}.1.made-up"),
        ]
    )
    assert renewal.status == 200
    assert (taken.status, taken["generation"]) == (201, stale["generation"] + 1)
    assert verified.code == "STALE_CLAIM"
    assert len(lapsed(driver)) == SWEPT_MAX + 1
    owned = driver.ask("claims.list", scope_id=run, limit=1000)["claims"]
    assert sorted(claim["key"] for claim in owned) == sorted([last, "live"]), "a reader judges by now as well"

    # What is left follows at once, a bounded number an entry, and none of them twice.
    driver.apply()
    assert len(lapsed(driver)) == 2 * SWEPT_MAX + 1
    driver.settle_due()
    assert sorted(lapsed(driver)) == keys


def test_a_lapse_is_seen_at_once_behind_however_many_live_leases(driver: Driver) -> None:
    run = driver.do("scopes.create")["id"]
    for start in range(0, 1_000, 250):
        driver.apply([acquire(driver, run, f"k{number}", 3600) for number in range(start, start + 250)])
    driver.apply([acquire(driver, run, "short", 2)])
    assert driver.first.due_lease_ms == driver.lease_ms + 2_000
    driver.apply(advance_ms=2_000)
    assert lapsed(driver) == ["short"]
