"""Acquiring a claim: at once, in line, in vain."""

from __future__ import annotations

from typing import Any

import pytest

from statemachine import claims
from statemachine.declare import OPERATIONS
from statemachine.lines import WAITERS
from tests.statemachine.driver import Driver, Result

KEY = "file:report.md"


@pytest.fixture
def run(driver: Driver) -> str:
    return str(driver.do("scopes.create")["id"])


def acquire(driver: Driver, run: str, holder: str = "ann", session: str = "s1", key: str = KEY, **more: Any) -> Result:
    return driver.do("claims.acquire", key=key, scope_id=run, holder=holder, holder_session=session, **more)


def test_acquire_answers_the_lease(driver: Driver, run: str) -> None:
    result = acquire(driver, run)
    assert result.status == 201
    assert result.body == {
        "claimId": result["claimId"],
        "key": KEY,
        "scopeId": run,
        "token": result["token"],
        "generation": 1,
        "leaseExpiresAt": "2026-01-01T00:00:30.000Z",
    }
    assert result["claimId"].startswith("clm_")


def test_null_is_the_default(driver: Driver, run: str) -> None:
    assert acquire(driver, run, lease_seconds=None)["leaseExpiresAt"] == "2026-01-01T00:00:30.000Z"


@pytest.mark.parametrize("seconds", [1, 3600])
def test_a_lease_lasts_as_long_as_asked(driver: Driver, run: str, seconds: int) -> None:
    token = acquire(driver, run, lease_seconds=seconds)["token"]
    driver.apply(advance_ms=seconds * 1000 - 1)
    assert driver.ask("claims.verify", key=KEY, token=token)["valid"]
    driver.apply(advance_ms=1)
    assert not driver.ask("claims.verify", key=KEY, token=token)["valid"]


@pytest.mark.parametrize(("holder", "session"), [("ann", "s1"), ("ann", "s2"), ("bob", "s1")])
def test_nobody_gets_a_key_that_is_held_not_even_its_owner(driver: Driver, run: str, holder: str, session: str) -> None:
    acquire(driver, run, lease_seconds=10)
    driver.advance(4_000)
    refused = acquire(driver, run, holder, session)
    assert (refused.status, refused.code) == (409, "CLAIM_HELD")
    assert refused.details == {"holder": "ann", "generation": 1, "leaseExpiresAt": "2026-01-01T00:00:10.000Z"}
    assert refused.retry_after_ms == 6_000


def test_keys_and_runs_are_apart(driver: Driver, run: str) -> None:
    child = driver.do("scopes.create", parent_id=run)["id"]
    for scope, key in ((run, "a"), (run, "A"), (run, "a "), (child, "a"), (run, "a/b"), (run, "ä"), (run, "x" * 512)):
        assert acquire(driver, scope, key=key)["generation"] == 1


@pytest.mark.parametrize(
    "bad",
    [
        {"key": ""},
        {"key": "."},
        {"key": ".."},
        {"key": "a\x00b"},
        {"key": "x" * 513},
        {"key": 7},
        {"holder": ""},
        {"holder": "x" * 257},
        {"holder_session": None},
        {"lease_seconds": 0},
        {"lease_seconds": 3601},
        {"lease_seconds": 30.0},
        {"lease_seconds": True},
        {"lease_seconds": "30"},
        {"wait_ms": -1},
        {"wait_ms": 1.5},
        {"scope_id": "scp/1"},
        {"color": "red"},
    ],
)
def test_what_does_not_fit_is_refused(driver: Driver, run: str, bad: dict[str, Any]) -> None:
    fields = {"key": KEY, "scope_id": run, "holder": "ann", "holder_session": "s1", **bad}
    assert driver.do("claims.acquire", **fields).code == "VALIDATION_FAILED"


def test_an_unknown_run_is_not_found(driver: Driver) -> None:
    assert acquire(driver, "scp_unheard").code == "NOT_FOUND"


@pytest.mark.parametrize("above", [False, True])
def test_an_ended_run_has_no_new_owners(driver: Driver, run: str, above: bool) -> None:
    child = driver.do("scopes.create", parent_id=run)["id"]
    driver.do("scopes.cancel", scope_id=run if above else child)
    assert acquire(driver, child).code == "SCOPE_CANCELLED"
    assert acquire(driver, child, wait_ms=100).code == "SCOPE_CANCELLED"


# ---------------------------------------------------------------------- in line


def test_who_waits_without_need_waits_not(driver: Driver, run: str) -> None:
    assert acquire(driver, run, wait_ms=30_000).status == 201
    assert len(driver.first.store.rows(WAITERS)) == 0


def test_a_wait_is_clamped(driver: Driver, run: str) -> None:
    acquire(driver, run, lease_seconds=3600)
    waiting = acquire(driver, run, "bob", wait_ms=10**15)
    driver.apply(advance_ms=29_999)
    assert driver.resume(waiting).status == 202
    driver.apply(advance_ms=1)
    assert driver.resume(waiting).code == "CLAIM_HELD"
    assert len(driver.first.store.rows(WAITERS)) == 0


def test_waiting_writes_nothing(driver: Driver, run: str) -> None:
    acquire(driver, run, lease_seconds=3600)
    waiting = acquire(driver, run, "bob", wait_ms=30_000)
    driver.apply(advance_ms=10_000)
    assert not driver.applied.touched
    assert driver.resume(waiting).status == 202
    assert not driver.applied.touched


def test_the_place_names_what_the_node_waits_for(driver: Driver, run: str) -> None:
    acquire(driver, run)
    waiting = acquire(driver, run, "bob", wait_ms=30_000)
    wait = OPERATIONS["claims.acquire"].wait
    assert wait is not None
    assert wait.topic(waiting.body) == ("waiters", waiting["waiterId"])
    resumed = wait.resume(waiting.body, True)
    assert resumed == claims.TakeClaim(waiter_id=waiting["waiterId"], scope_id=run, key=KEY, leave=True)


def test_the_lease_begins_when_the_token_is_fetched(driver: Driver, run: str) -> None:
    token = acquire(driver, run)["token"]
    waiting = acquire(driver, run, "bob", wait_ms=30_000, lease_seconds=60)
    driver.do("claims.release", key=KEY, token=token)
    granted = driver.resume(waiting, advance_ms=4_000)
    assert granted.status == 201
    assert granted["leaseExpiresAt"] == "2026-01-01T00:01:04.000Z"
    assert driver.do("claims.renew", key=KEY, token=granted["token"], advance_ms=30_000).status == 200


def test_the_bound_on_holding_does_not_count_for_fetching(driver: Driver) -> None:
    driver.space = driver.new_space("short", max_hold_seconds=1)
    driver.actor = driver.key("short", "work", "read")
    run = str(driver.do("scopes.create")["id"])
    token = acquire(driver, run)["token"]
    waiting = acquire(driver, run, "bob", wait_ms=30_000)
    driver.do("claims.release", key=KEY, token=token)
    assert driver.resume(waiting, advance_ms=4_000).status == 201


def test_a_repeated_fetch_is_answered_while_that_owner_owns_the_key(driver: Driver, run: str) -> None:
    token = acquire(driver, run)["token"]
    waiting = acquire(driver, run, "bob", wait_ms=30_000)
    driver.do("claims.release", key=KEY, token=token)
    granted = driver.resume(waiting)
    assert driver.resume(waiting).body == granted.body
    assert not driver.applied.touched
    driver.do("claims.release", key=KEY, token=granted["token"])
    assert driver.resume(waiting).code == "CLAIM_HELD"


def test_leaving_after_the_fetch_takes_nothing_back(driver: Driver, run: str) -> None:
    token = acquire(driver, run)["token"]
    waiting = acquire(driver, run, "bob", wait_ms=30_000)
    driver.do("claims.release", key=KEY, token=token)
    granted = driver.resume(waiting)
    assert driver.resume(waiting, leave=True).code == "CLAIM_HELD"
    assert driver.ask("claims.verify", key=KEY, token=granted["token"])["valid"]


def test_leaving_is_refused_as_if_nobody_had_waited(driver: Driver, run: str) -> None:
    acquire(driver, run, lease_seconds=10)
    waiting = acquire(driver, run, "bob", wait_ms=30_000)
    left, plain = driver.resume(waiting, leave=True), acquire(driver, run, "bob")
    assert (left.code, left.message, left.details) == (plain.code, plain.message, plain.details)
    assert len(driver.first.store.rows(WAITERS)) == 0
    assert driver.resume(waiting).code == "CLAIM_HELD"


def test_who_leaves_with_the_key_set_aside_frees_it(driver: Driver, run: str) -> None:
    token = acquire(driver, run)["token"]
    waiting = acquire(driver, run, "bob", wait_ms=30_000)
    driver.do("claims.release", key=KEY, token=token)
    left = driver.resume(waiting, leave=True)
    assert (left.code, left.details, left.retry_after_ms) == ("CLAIM_HELD", {}, 0)
    assert acquire(driver, run, "cem")["generation"] == 3


def test_the_end_of_the_run_ends_the_wait(driver: Driver, run: str) -> None:
    token = acquire(driver, run)["token"]
    waits = [acquire(driver, run, holder, wait_ms=30_000) for holder in ("bob", "cem")]
    driver.do("claims.release", key=KEY, token=token)  # set aside for the first
    driver.do("scopes.cancel", scope_id=run)
    for waiting in waits:
        for leave in (False, True):
            assert driver.resume(waiting, leave=leave).code == "SCOPE_CANCELLED"
    assert len(driver.first.store.rows(WAITERS)) == 0
    driver.apply(advance_ms=10_000)
    assert driver.ask("claims.list", scope_id=run)["claims"] == []


def test_a_place_of_another_space_is_nobodys(driver: Driver, run: str) -> None:
    token = acquire(driver, run)["token"]
    waiting = acquire(driver, run, "bob", wait_ms=30_000)
    driver.do("claims.release", key=KEY, token=token)
    other = driver.new_space("other")
    actor = driver.key("elsewhere", "work", space=other)
    for leave in (False, True):
        assert driver.resume(waiting, leave=leave, space=other, actor=actor).code == "NOT_FOUND"
    assert driver.resume(waiting).status == 201


# ---------------------------------------------------------------------- idempotency


def test_a_repeat_gets_the_same_token(driver: Driver, run: str) -> None:
    first = acquire(driver, run, idempotency=("i", b"f"))
    again = acquire(driver, run, idempotency=("i", b"f"))
    assert (again.status, again.body, again.replayed) == (201, first.body, True)


def test_a_repeat_of_one_that_waits_has_the_same_place(driver: Driver, run: str) -> None:
    token = acquire(driver, run)["token"]
    keyed: dict[str, Any] = {"wait_ms": 30_000, "idempotency": ("i", b"f")}
    waiting = acquire(driver, run, "bob", **keyed)
    again = acquire(driver, run, "bob", **keyed)
    assert (again.status, again.body, again.replayed) == (202, waiting.body, True)
    driver.do("claims.release", key=KEY, token=token)
    granted = driver.resume(again)
    assert driver.resume(waiting).body == granted.body
    last = acquire(driver, run, "bob", **keyed)
    assert (last.status, last.body, last.replayed) == (201, granted.body, True)
    assert (last.index, last.position) == (granted.index, granted.position)


@pytest.mark.parametrize("how", ["left", "expired", "passed on", "run ended"])
def test_one_that_waited_in_vain_may_try_afresh_with_its_key(driver: Driver, run: str, how: str) -> None:
    token = acquire(driver, run, lease_seconds=3600)["token"]
    keyed: dict[str, Any] = {"wait_ms": 10_000, "idempotency": ("i", b"f")}
    waiting = acquire(driver, run, "bob", **keyed)
    match how:
        case "left":
            driver.resume(waiting, leave=True)
        case "expired":
            driver.apply(advance_ms=10_000)
        case "passed on":
            driver.do("claims.release", key=KEY, token=token)
            driver.apply(advance_ms=5_000)
        case "run ended":
            driver.do("scopes.cancel", scope_id=run)
            driver.settle_due()
    again = acquire(driver, run, "bob", **keyed)
    assert not again.replayed
    expected = {"left": 202, "expired": 202, "passed on": 201, "run ended": 409}
    assert again.status == expected[how]


def test_a_refusal_is_not_kept(driver: Driver, run: str) -> None:
    token = acquire(driver, run)["token"]
    assert acquire(driver, run, "bob", idempotency=("i", b"f")).code == "CLAIM_HELD"
    driver.do("claims.release", key=KEY, token=token)
    assert acquire(driver, run, "bob", idempotency=("i", b"f")).status == 201
