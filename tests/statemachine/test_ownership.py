"""How ownership of a key begins, ends, passes on and is forgotten; also when the sweep has not come by yet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from statemachine import dependents, lines, machine, ownership
from statemachine.context import Context
from statemachine.lines import WAITERS
from statemachine.ownership import CLAIMS, FORGOTTEN_MS, TAKE_MS
from statemachine.scopes import SCOPES
from tests.statemachine.driver import Driver, Result

KEY = "company:acme/ü %"


@pytest.fixture
def run(driver: Driver) -> str:
    return str(driver.do("scopes.create")["id"])


def acquire(driver: Driver, run: str, holder: str, key: str = KEY, **more: Any) -> Result:
    return driver.do("claims.acquire", key=key, scope_id=run, holder=holder, holder_session="s1", **more)


def events(driver: Driver) -> list[dict[str, Any]]:
    found = driver.ask("events.list", limit=1000)["events"]
    return [{"type": one["type"], **one["payload"]} for one in found if one["type"].startswith("claim.")]


@pytest.fixture
def unswept(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing that is due is worked off: as when more is due than one entry may do."""
    monkeypatch.setattr(machine, "SWEPT_MAX", 0)
    yield
    monkeypatch.undo()


def test_a_takeover_tells_whose_it_was(driver: Driver, run: str) -> None:
    one = acquire(driver, run, "ann", lease_seconds=10)
    driver.apply(advance_ms=10_000)
    acquire(driver, run, "bob")
    facts = {"claimId": one["claimId"], "key": KEY}
    assert events(driver) == [
        {"type": "claim.acquired", **facts, "holder": "ann", "generation": 1},
        {"type": "claim.lapsed", **facts, "holder": "ann", "generation": 1},
        {
            "type": "claim.acquired",
            **facts,
            "holder": "bob",
            "generation": 2,
            "previousHolder": "ann",
            "previousEnd": "LAPSED",
        },
    ]


def test_no_event_shows_a_token(driver: Driver, run: str) -> None:
    first = acquire(driver, run, "ann", lease_seconds=10)
    waiting = acquire(driver, run, "bob", wait_ms=30_000)
    driver.do("claims.release", key=KEY, token=first["token"])
    second = driver.resume(waiting)
    driver.apply(advance_ms=60_000)
    told = str(driver.ask("events.list", limit=1000).body)
    for token in (first["token"], second["token"]):
        assert token not in told
        assert token.rpartition(".")[2] not in told


def test_the_next_in_line_owns_the_key_in_the_entry_that_frees_it(driver: Driver, run: str) -> None:
    first = acquire(driver, run, "ann", lease_seconds=10)
    acquire(driver, run, "bob", wait_ms=30_000)
    driver.apply(advance_ms=10_000)
    (row,) = driver.ask("claims.list", scope_id=run)["claims"]
    assert (row["holder"], row["generation"], row["waiting"]) == ("bob", 2, 0)
    assert not driver.ask("claims.verify", key=KEY, token=first["token"])["valid"]
    assert ("claims", (run, KEY)) in driver.applied.touched


def test_the_waiter_is_woken_when_its_turn_has_come(driver: Driver, run: str) -> None:
    first = acquire(driver, run, "ann")
    waiting = acquire(driver, run, "bob", wait_ms=30_000)
    driver.do("claims.release", key=KEY, token=first["token"])
    assert ("waiters", waiting["waiterId"]) in driver.applied.touched


def test_a_key_that_nobody_fetches_goes_down_the_line(driver: Driver, run: str) -> None:
    first = acquire(driver, run, "ann", lease_seconds=30)
    waits = [acquire(driver, run, holder, wait_ms=30_000) for holder in ("bob", "cem", "dan")]
    driver.do("claims.release", key=KEY, token=first["token"])
    driver.apply(advance_ms=TAKE_MS)
    driver.apply(advance_ms=TAKE_MS)
    assert driver.resume(waits[0]).code == "CLAIM_HELD"
    assert driver.resume(waits[2])["generation"] == 4
    owners = [event["holder"] for event in events(driver) if event["type"] == "claim.acquired"]
    assert owners == ["ann", "bob", "cem", "dan"]


def test_a_revoked_owner_that_had_not_fetched_its_token_is_out(driver: Driver, run: str) -> None:
    admin = driver.key("boss", "admin")
    first = acquire(driver, run, "ann")
    waits = [acquire(driver, run, holder, wait_ms=30_000) for holder in ("bob", "cem")]
    driver.do("claims.release", key=KEY, token=first["token"])
    driver.do("claims.revoke", actor=admin, key=KEY, scope_id=run)
    assert driver.resume(waits[0]).code == "CLAIM_HELD"
    assert driver.resume(waits[1])["generation"] == 3
    assert len(driver.first.store.rows(WAITERS)) == 0


# ---------------------------------------------------------------------- forgetting


def test_a_key_that_nobody_owns_is_forgotten_and_its_generation_is_not(driver: Driver, run: str) -> None:
    for holder in ("ann", "bob", "cem"):
        token = acquire(driver, run, holder)["token"]
        driver.do("claims.release", key=KEY, token=token)
    assert acquire(driver, run, "dan", key="other")["generation"] == 1
    driver.apply(advance_ms=FORGOTTEN_MS - 1)
    assert (run, KEY) in driver.first.store.rows(CLAIMS)
    driver.apply(advance_ms=1)
    assert (run, KEY) not in driver.first.store.rows(CLAIMS)
    assert driver.first.store.rows(SCOPES)[run].generation_floor == 3
    assert driver.do("claims.release", key=KEY, token=token).code == "STALE_CLAIM"
    assert acquire(driver, run, "eve")["generation"] == 4
    assert acquire(driver, run, "eve", key="never seen")["generation"] == 4


def test_the_floor_only_rises(driver: Driver, run: str) -> None:
    for key, owners in (("much", 5), ("little", 1)):
        for _ in range(owners):
            driver.do("claims.release", key=key, token=acquire(driver, run, "ann", key=key)["token"])
        driver.advance(1)
    driver.apply(advance_ms=FORGOTTEN_MS + 1)
    assert len(driver.first.store.rows(CLAIMS)) == 0
    assert driver.first.store.rows(SCOPES)[run].generation_floor == 5


def test_what_a_run_held_goes_with_it(driver: Driver, run: str) -> None:
    for number in range(5):
        token = acquire(driver, run, "ann", key=f"k{number}")["token"]
        if number % 2:
            driver.do("claims.release", key=f"k{number}", token=token)
    store = driver.first.store
    context = Context(
        store, driver.space, driver.actor, 99, driver.lease_ms, driver.wall_ms, position=0, entropy=bytes(16)
    )
    assert [dependents.remove_of_scope(context, run, 2) for _ in range(4)] == [2, 2, 1, 0]
    assert len(store.rows(CLAIMS)) == 0
    store.undo(0)


# ---------------------------------------------------------------------- when the sweep has not come by


@pytest.mark.usefixtures("unswept")
def test_a_lease_that_ran_out_is_stale_before_the_sweep(driver: Driver, run: str) -> None:
    token = acquire(driver, run, "ann", lease_seconds=10)["token"]
    driver.advance(10_000)
    driver.apply()
    for call in ("claims.renew", "claims.release"):
        assert driver.do(call, key=KEY, token=token).code == "STALE_CLAIM"
    assert driver.ask("claims.verify", key=KEY, token=token).body == {"valid": False}
    assert driver.ask("claims.list", scope_id=run)["claims"] == []
    (row,) = driver.ask("claims.list", scope_id=run, key=KEY)["claims"]
    assert (row["state"], row["leaseExpiresAt"]) == ("LAPSED", None)
    admin = driver.key("boss", "admin")
    assert driver.do("claims.revoke", actor=admin, key=KEY, scope_id=run).code == "CONFLICT"


@pytest.mark.usefixtures("unswept")
def test_a_newcomer_takes_over_before_the_sweep(driver: Driver, run: str) -> None:
    acquire(driver, run, "ann", lease_seconds=10)
    driver.advance(10_000)
    assert acquire(driver, run, "bob")["generation"] == 2
    assert [event["type"] for event in events(driver)] == ["claim.acquired", "claim.lapsed", "claim.acquired"]
    assert events(driver)[-1]["previousEnd"] == "LAPSED"


@pytest.mark.usefixtures("unswept")
def test_a_newcomer_does_not_overtake_the_line_before_the_sweep(driver: Driver, run: str) -> None:
    acquire(driver, run, "ann", lease_seconds=10)
    bob = acquire(driver, run, "bob", wait_ms=30_000)
    driver.advance(10_000)
    refused = acquire(driver, run, "cem")
    assert refused.code == "CLAIM_HELD"
    assert refused.details == {"holder": "bob", "generation": 2, "leaseExpiresAt": "2026-01-01T00:00:15.000Z"}
    cem = acquire(driver, run, "cem", wait_ms=30_000)
    assert (cem.status, driver.resume(bob).status) == (202, 202)


@pytest.mark.parametrize("gone", [2, 3])
def test_a_newcomer_does_not_overtake_the_line_behind_many_who_have_just_gone(
    driver: Driver, run: str, gone: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key is released to nobody then: a release goes past so many only, and the sweep clears the others."""
    token = acquire(driver, run, "ann")["token"]
    for number in range(gone):
        acquire(driver, run, f"gone{number}", wait_ms=1_000)
    bob = acquire(driver, run, "bob", wait_ms=30_000)
    monkeypatch.setattr(machine, "SWEPT_MAX", 0)
    monkeypatch.setattr(lines, "PASSED_MAX", 2)
    driver.advance(5_000)
    assert driver.do("claims.release", key=KEY, token=token).status == 200
    assert acquire(driver, run, "cem").code == "CLAIM_HELD"
    assert acquire(driver, run, "cem", wait_ms=30_000).status == 202
    monkeypatch.undo()
    driver.apply()
    assert driver.resume(bob)["generation"] == 2


def test_the_sweep_then_hands_over_in_order(driver: Driver, run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    acquire(driver, run, "ann", lease_seconds=10)
    bob = acquire(driver, run, "bob", wait_ms=30_000)
    monkeypatch.setattr(machine, "SWEPT_MAX", 0)
    driver.apply(advance_ms=10_000)
    cem = acquire(driver, run, "cem", wait_ms=30_000)
    monkeypatch.undo()
    assert driver.resume(bob)["generation"] == 2
    assert driver.resume(cem).status == 202


@pytest.mark.usefixtures("unswept")
def test_waiters_whose_time_is_up_hold_nobody_up_before_the_sweep(driver: Driver, run: str) -> None:
    acquire(driver, run, "ann", lease_seconds=10)
    gone = acquire(driver, run, "bob", wait_ms=1_000)
    driver.advance(10_000)
    assert driver.resume(gone).code == "CLAIM_HELD"
    assert acquire(driver, run, "cem")["generation"] == 2
    assert len(driver.first.store.rows(WAITERS)) == 0


def test_an_owner_whose_time_ran_out_fetches_nothing_before_the_sweep(
    driver: Driver, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = acquire(driver, run, "ann")["token"]
    bob = acquire(driver, run, "bob", wait_ms=30_000, lease_seconds=10)
    driver.do("claims.release", key=KEY, token=token)
    assert driver.resume(bob).status == 201
    monkeypatch.setattr(machine, "SWEPT_MAX", 0)
    assert driver.resume(bob, advance_ms=9_999).status == 201
    assert driver.resume(bob, advance_ms=1).code == "CLAIM_HELD"


def test_lines_are_of_one_key(driver: Driver) -> None:
    assert ownership.line_of("scp_1", "a/b").partition("/")[0] == "scp_1"
    assert ownership.line_of("scp_1", "a/b") != ownership.line_of("scp_1", "a")


def test_a_claim_of_another_space_is_not_found_by_its_token(driver: Driver, run: str) -> None:
    token = acquire(driver, run, "ann")["token"]
    other = driver.new_space("other")
    actor = driver.key("elsewhere", "work", space=other)
    for call in ("claims.renew", "claims.release"):
        assert driver.do(call, space=other, actor=actor, key=KEY, token=token).code == "STALE_CLAIM"
    assert driver.ask("claims.verify", space=other, actor=actor, key=KEY, token=token).body == {"valid": False}
