"""The calls on keys that are run once: who runs it, what the others learn, what a repeat gets."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from statemachine.declare import QUERIES
from statemachine.once import ERROR_LENGTH_MAX, GetOnce, OnceView
from tests.statemachine.driver import Driver, Result

KEY = "research:ü/1"


@pytest.fixture
def run(driver: Driver) -> str:
    return str(driver.do("scopes.create")["id"])


def acquire(driver: Driver, run: str, holder: str = "ann", key: str = KEY, **more: Any) -> Result:
    return driver.do("once.acquire", key=key, scope_id=run, holder=holder, holder_session="s1", **more)


def complete(driver: Driver, run: str, token: str, **result: Any) -> Result:
    return driver.do("once.complete", key=KEY, scope_id=run, token=token, **result)


def fail(driver: Driver, run: str, token: str, error: str = "bad", max_attempts: int = 3) -> Result:
    return driver.do("once.fail", key=KEY, scope_id=run, token=token, error=error, max_attempts=max_attempts)


def get(driver: Driver, run: str, key: str = KEY) -> Result:
    return driver.ask("once.get", key=key, scope_id=run)


def test_the_first_one_runs_it(driver: Driver, run: str) -> None:
    result = acquire(driver, run)
    assert result.status == 200
    assert result.body == {
        "state": "ACQUIRED",
        "attempts": 0,
        "token": result["token"],
        "generation": 1,
        "leaseExpiresAt": "2026-01-01T00:00:30.000Z",
    }


def test_the_others_learn_that_it_is_held_the_holder_too(driver: Driver, run: str) -> None:
    acquire(driver, run, lease_seconds=10)
    for holder in ("bob", "ann"):
        held = acquire(driver, run, holder)
        assert held.body == {"state": "HELD", "attempts": 0, "leaseExpiresAt": "2026-01-01T00:00:10.000Z"}
        assert not driver.applied.touched
    assert get(driver, run).body == held.body


def test_everybody_gets_the_result(driver: Driver, run: str) -> None:
    token = acquire(driver, run)["token"]
    assert complete(driver, run, token, result={"a": [1]}).body == {"state": "DONE"}
    expected = {"state": "DONE", "attempts": 0, "result": {"a": [1]}}
    assert acquire(driver, run, "bob").body == expected
    assert get(driver, run).body == expected


@pytest.mark.parametrize("result", [{}, {"result": None}])
def test_nothing_is_a_result(driver: Driver, run: str, result: dict[str, Any]) -> None:
    token = acquire(driver, run)["token"]
    complete(driver, run, token, **result)
    assert get(driver, run).body == {"state": "DONE", "attempts": 0, "result": None}
    assert complete(driver, run, token).status == complete(driver, run, token, result=None).status == 200


def test_numbers_of_a_result_keep_their_spelling(driver: Driver, run: str) -> None:
    token = acquire(driver, run)["token"]
    result = b'{"n":1.50,"e":1E2,"big":123456789012345678901234567890}'
    raw = b'{"scopeId":"%b","key":"%b","token":"%b","result":%b}' % (run.encode(), KEY.encode(), token.encode(), result)
    assert driver.do("once.complete", raw=raw).status == 200
    view = driver.first.answer("once.get", GetOnce(scope_id=run, key=KEY), driver.space, driver.actor)
    assert bytes(view.result) == result
    assert result in msgspec.json.encode(view)


# ---------------------------------------------------------------------- failing


def test_a_failed_try_opens_it_again_until_there_were_enough(driver: Driver, run: str) -> None:
    for attempt in (1, 2):
        token = acquire(driver, run, f"w{attempt}")["token"]
        assert fail(driver, run, token, f"error {attempt}").body == {"state": "OPEN", "attempts": attempt}
        assert get(driver, run).body == {"state": "OPEN", "attempts": attempt, "lastError": f"error {attempt}"}
    token = acquire(driver, run)["token"]
    assert fail(driver, run, token, "the last").body == {"state": "FAILED", "attempts": 3}
    expected = {"state": "FAILED", "attempts": 3, "lastError": "the last"}
    assert acquire(driver, run, "bob").body == expected
    assert get(driver, run).body == expected


def test_the_one_who_fails_says_how_many_tries_there_are(driver: Driver, run: str) -> None:
    assert fail(driver, run, acquire(driver, run)["token"], max_attempts=3)["state"] == "OPEN"
    assert fail(driver, run, acquire(driver, run)["token"], max_attempts=1)["state"] == "FAILED"


def test_a_result_after_failed_tries_forgets_their_error(driver: Driver, run: str) -> None:
    fail(driver, run, acquire(driver, run)["token"])
    complete(driver, run, acquire(driver, run)["token"], result=1)
    assert get(driver, run).body == {"state": "DONE", "attempts": 1, "result": 1}


def test_a_long_error_is_cut(driver: Driver, run: str) -> None:
    token = acquire(driver, run)["token"]
    long = "ü" * (ERROR_LENGTH_MAX + 100)
    assert fail(driver, run, token, long).status == 200
    assert get(driver, run)["lastError"] == "ü" * ERROR_LENGTH_MAX
    assert fail(driver, run, token, long).status == 200


# ---------------------------------------------------------------------- repeats


def test_a_repeated_result_is_answered_for_good(driver: Driver, run: str) -> None:
    token = acquire(driver, run)["token"]
    complete(driver, run, token, result=[1])
    for _ in range(2):
        driver.apply(advance_ms=3_600_000)
        assert complete(driver, run, token, result=[1]).body == {"state": "DONE"}
        assert not driver.applied.touched
    assert complete(driver, run, token, result=[2]).code == "STALE_CLAIM"
    assert fail(driver, run, token).code == "STALE_CLAIM"


@pytest.mark.parametrize(("max_attempts", "state"), [(1, "FAILED"), (2, "OPEN")])
def test_a_repeated_failure_is_answered_until_the_next_holder(
    driver: Driver, run: str, max_attempts: int, state: str
) -> None:
    token = acquire(driver, run)["token"]
    for _ in range(3):
        assert fail(driver, run, token, max_attempts=max_attempts).body == {"state": state, "attempts": 1}
    assert not driver.applied.touched
    assert fail(driver, run, token, "other", max_attempts).code == "STALE_CLAIM"
    assert fail(driver, run, token, max_attempts=9).code == "STALE_CLAIM"
    assert complete(driver, run, token).code == "STALE_CLAIM"
    if state == "OPEN":
        acquire(driver, run)
        assert fail(driver, run, token, max_attempts=max_attempts).code == "STALE_CLAIM"


def test_who_completed_did_not_fail_though_it_says_what_was_said_before(driver: Driver, run: str) -> None:
    fail(driver, run, acquire(driver, run)["token"])
    token = acquire(driver, run)["token"]
    complete(driver, run, token, result=1)
    assert fail(driver, run, token).code == "STALE_CLAIM"
    assert get(driver, run)["state"] == "DONE"


def test_only_the_acquisition_itself_is_kept_for_a_repeat(driver: Driver, run: str) -> None:
    first = acquire(driver, run, idempotency=("one", b"f"))
    held = acquire(driver, run, "bob", idempotency=("two", b"f"))
    assert held["state"] == "HELD"
    again = acquire(driver, run, idempotency=("one", b"f"))
    assert (again.body, again.replayed) == (first.body, True)
    complete(driver, run, first["token"], result=1)
    assert acquire(driver, run, "bob", idempotency=("two", b"f"))["state"] == "DONE"


# ---------------------------------------------------------------------- renewing, tokens, ended runs


def test_a_renewal_keeps_the_hold(driver: Driver, run: str) -> None:
    token = acquire(driver, run, lease_seconds=10)["token"]
    renew = {"key": KEY, "scope_id": run, "token": token}
    assert driver.do("once.renew", **renew, advance_ms=9_999).body == {"leaseExpiresAt": "2026-01-01T00:00:19.999Z"}
    assert driver.do("once.renew", **renew, lease_seconds=60)["leaseExpiresAt"] == "2026-01-01T00:01:09.999Z"
    assert complete(driver, run, token).status == 200
    assert driver.do("once.renew", **renew).code == "STALE_CLAIM"


def test_a_hold_may_not_be_renewed_for_ever(driver: Driver) -> None:
    driver.space = driver.new_space("short", max_hold_seconds=20)
    driver.actor = driver.key("short", "work", "read")
    run = str(driver.do("scopes.create")["id"])
    token = acquire(driver, run)["token"]
    refused = driver.do("once.renew", key=KEY, scope_id=run, token=token, advance_ms=20_000)
    assert refused.code == "LEASE_RENEWALS_EXHAUSTED"
    assert complete(driver, run, token).status == 200


def test_tokens_open_nothing_but_their_own_key(driver: Driver, run: str) -> None:
    other = acquire(driver, run, key="other")["token"]
    token = acquire(driver, run)["token"]
    for wrong in (other, token[:-1], token + "0", "x"):
        assert driver.do("once.renew", key=KEY, scope_id=run, token=wrong).code == "STALE_CLAIM"
        assert complete(driver, run, wrong).code == "STALE_CLAIM"
        assert fail(driver, run, wrong).code == "STALE_CLAIM"
    for scope in ("scp_unheard", str(driver.do("scopes.create")["id"])):
        assert complete(driver, scope, token).code == "STALE_CLAIM"
    claim = driver.do("claims.acquire", key=KEY, scope_id=run, holder="ann", holder_session="s1")["token"]
    assert complete(driver, run, claim).code == "STALE_CLAIM"
    assert driver.do("claims.release", key=KEY, token=token).code == "STALE_CLAIM"


def test_another_space_knows_nothing_of_it(driver: Driver, run: str) -> None:
    token = acquire(driver, run)["token"]
    space = driver.new_space("other")
    actor = driver.key("elsewhere", "work", "read", space=space)
    there = {"space": space, "actor": actor, "key": KEY, "scope_id": run}
    assert driver.do("once.renew", **there, token=token).code == "STALE_CLAIM"
    assert driver.do("once.complete", **there, token=token).code == "STALE_CLAIM"
    assert driver.do("once.fail", **there, token=token, error="x", max_attempts=1).code == "STALE_CLAIM"
    assert driver.do("once.acquire", **there, holder="ann", holder_session="s1").code == "NOT_FOUND"
    assert driver.ask("once.get", **there).code == "NOT_FOUND"


def test_an_ended_run_takes_results_back_and_begins_nothing(driver: Driver, run: str) -> None:
    held, tried = acquire(driver, run)["token"], acquire(driver, run, key="tried")["token"]
    driver.do("scopes.cancel", scope_id=run)
    for key in (KEY, "new"):
        assert acquire(driver, run, "bob", key=key).code == "SCOPE_CANCELLED"
    assert driver.do("once.renew", key=KEY, scope_id=run, token=held).code == "SCOPE_CANCELLED"
    view = get(driver, run)
    assert (view["state"], view["scopeState"]) == ("HELD", "CANCELLED")
    assert complete(driver, run, held, result=1).status == 200
    failed = driver.do("once.fail", key="tried", scope_id=run, token=tried, error="bad", max_attempts=3)
    assert failed.body == {"state": "OPEN", "attempts": 1}
    assert get(driver, run).body == {"state": "DONE", "attempts": 0, "result": 1, "scopeState": "CANCELLED"}
    assert get(driver, run, "unheard").body == {"state": "OPEN", "attempts": 0, "scopeState": "CANCELLED"}


# ---------------------------------------------------------------------- waiting for it


def settled(driver: Driver, run: str) -> bool:
    query = QUERIES["once.get"]
    assert query.settled is not None
    return query.settled(msgspec.json.decode(msgspec.json.encode(get(driver, run).body), type=OnceView))


def test_a_poll_waits_while_it_is_held_and_its_run_lives(driver: Driver, run: str) -> None:
    assert settled(driver, run)
    token = acquire(driver, run, lease_seconds=10)["token"]
    assert not settled(driver, run)
    complete(driver, run, token)
    assert settled(driver, run)


def test_a_poll_is_woken_by_a_result_a_lapse_and_the_end_of_the_run(driver: Driver, run: str) -> None:
    child = str(driver.do("scopes.create", parent_id=run)["id"])
    query = QUERIES["once.get"]
    assert query.topics is not None
    view = driver.first.view(driver.space, driver.actor)
    topics = {*query.topics(view, GetOnce(scope_id=child, key=KEY, wait_ms=1))}
    acquire(driver, child, lease_seconds=10)
    driver.apply(advance_ms=10_000)
    assert topics & {*driver.applied.touched}
    token = acquire(driver, child)["token"]
    assert not settled(driver, child)
    driver.do("scopes.cancel", scope_id=run)
    assert topics & {*driver.applied.touched}
    assert settled(driver, child)
    complete(driver, child, token)
    assert topics & {*driver.applied.touched}


# ---------------------------------------------------------------------- what does not fit


@pytest.mark.parametrize(
    ("call", "bad"),
    [
        ("acquire", {"key": "x" * 513}),
        ("acquire", {"lease_seconds": 0}),
        ("acquire", {"lease_seconds": 3601}),
        ("acquire", {"lease_seconds": 1.0}),
        ("acquire", {"holder": ""}),
        ("acquire", {"wait_ms": 5}),
        ("renew", {"token": ""}),
        ("renew", {"lease_seconds": True}),
        ("complete", {"token": None}),
        ("complete", {"payload": 1}),
        ("fail", {"error": None}),
        ("fail", {"error": 7}),
        ("fail", {"max_attempts": 0}),
        ("fail", {"max_attempts": 1.0}),
        ("fail", {"max_attempts": None}),
    ],
)
def test_what_does_not_fit_is_refused(driver: Driver, run: str, call: str, bad: dict[str, Any]) -> None:
    fields: dict[str, Any] = {"key": KEY, "scope_id": run}
    match call:
        case "acquire":
            fields |= {"holder": "ann", "holder_session": "s1"}
        case "fail":
            fields |= {"token": "t", "error": "bad", "max_attempts": 3}
        case _:
            fields |= {"token": "t"}
    assert driver.do(f"once.{call}", **{**fields, **bad}).code == "VALIDATION_FAILED"
