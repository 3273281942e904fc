"""How a key that is run once gets its one result; how long it is remembered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from statemachine import dependents, machine, results
from statemachine.context import Context
from statemachine.results import ONCE
from statemachine.scopes import SCOPES
from statemachine.types import PAYLOAD_BYTES_MAX, time_text
from tests.statemachine.driver import Driver, Result

KEY = "summarise:3f9a"
DAY_MS = 86_400_000
MAX_LAPSES = 3


@pytest.fixture
def driver() -> Driver:
    driver = Driver()
    driver.space = driver.new_space("once", max_lapses=MAX_LAPSES, result_days=30)
    driver.actor = driver.key("worker", "work", "read")
    return driver


@pytest.fixture
def run(driver: Driver) -> str:
    return str(driver.do("scopes.create")["id"])


def acquire(driver: Driver, run: str, holder: str = "ann", key: str = KEY, **more: Any) -> Result:
    return driver.do("once.acquire", key=key, scope_id=run, holder=holder, holder_session="s1", **more)


def complete(driver: Driver, run: str, token: str, result: Any = None, key: str = KEY) -> Result:
    return driver.do("once.complete", key=key, scope_id=run, token=token, result=result)


def events(driver: Driver) -> list[dict[str, Any]]:
    found = driver.ask("events.list", limit=1000)["events"]
    return [{"type": one["type"], **one["payload"]} for one in found if one["type"].startswith("once.")]


@pytest.fixture
def unswept(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing that is due is worked off: as when more is due than one entry may do."""
    monkeypatch.setattr(machine, "SWEPT_MAX", 0)
    yield
    monkeypatch.undo()


def lapse(driver: Driver, run: str, holder: str = "ann") -> None:
    acquire(driver, run, holder, lease_seconds=1)
    driver.apply(advance_ms=1_000)


# ---------------------------------------------------------------------- lapses


def test_a_lapse_is_no_failed_try(driver: Driver, run: str) -> None:
    lapse(driver, run)
    assert driver.ask("once.get", key=KEY, scope_id=run).body == {"state": "OPEN", "attempts": 0}
    taken = acquire(driver, run, "bob")
    assert (taken["state"], taken["attempts"], taken["generation"]) == ("ACQUIRED", 0, 2)
    assert events(driver)[-1]["previousHolder"] == "ann"


def test_as_many_lapses_in_a_row_as_the_space_allows_are_the_end(driver: Driver, run: str) -> None:
    for number in range(MAX_LAPSES):
        assert driver.ask("once.get", key=KEY, scope_id=run)["state"] == "OPEN"
        lapse(driver, run, f"w{number}")
    view = driver.ask("once.get", key=KEY, scope_id=run)
    assert view.body == {"state": "FAILED", "attempts": 0, "lastError": results.lapses_reason(MAX_LAPSES)}
    assert str(MAX_LAPSES) in view["lastError"]
    assert acquire(driver, run).body == view.body
    exhausted = [event for event in events(driver) if event["type"] == "once.exhausted"]
    assert [(event["reason"], event["holder"]) for event in exhausted] == [("lapses", f"w{MAX_LAPSES - 1}")]


def test_a_failed_try_starts_the_count_of_lapses_anew(driver: Driver, run: str) -> None:
    for _ in range(MAX_LAPSES - 1):
        lapse(driver, run)
    token = acquire(driver, run)["token"]
    failed = driver.do("once.fail", key=KEY, scope_id=run, token=token, error="bad", max_attempts=9)
    assert failed.body == {"state": "OPEN", "attempts": 1}
    for _ in range(MAX_LAPSES - 1):
        lapse(driver, run)
    assert acquire(driver, run)["state"] == "ACQUIRED"


def test_an_error_outlives_a_lapse(driver: Driver, run: str) -> None:
    token = acquire(driver, run)["token"]
    driver.do("once.fail", key=KEY, scope_id=run, token=token, error="bad", max_attempts=9)
    lapse(driver, run)
    assert driver.ask("once.get", key=KEY, scope_id=run).body == {"state": "OPEN", "attempts": 1, "lastError": "bad"}
    repeated = driver.do("once.fail", key=KEY, scope_id=run, token=token, error="bad", max_attempts=9)
    assert repeated.code == "STALE_CLAIM"  # there was another holder since


def test_a_holder_that_lapsed_hands_nothing_back_though_it_says_what_was_said_before(driver: Driver, run: str) -> None:
    bad = {"key": KEY, "scope_id": run, "error": "bad", "max_attempts": 9}
    driver.do("once.fail", **bad, token=acquire(driver, run)["token"])
    token = acquire(driver, run, lease_seconds=1)["token"]
    driver.apply(advance_ms=1_000)
    assert driver.do("once.fail", **bad, token=token).code == "STALE_CLAIM"


def test_only_the_holder_whose_hold_lapsed_is_named_to_the_next(driver: Driver, run: str) -> None:
    token = acquire(driver, run, "ann")["token"]
    driver.do("once.fail", key=KEY, scope_id=run, token=token, error="bad", max_attempts=9)
    lapse(driver, run, "bob")
    acquire(driver, run, "cem")
    acquired = [event for event in events(driver) if event["type"] == "once.acquired"]
    assert [event.get("previousHolder") for event in acquired] == [None, None, "bob"]


@pytest.mark.usefixtures("unswept")
def test_reads_and_calls_agree_before_the_sweep(driver: Driver, run: str) -> None:
    token = acquire(driver, run, lease_seconds=10)["token"]
    driver.apply(advance_ms=10_000)
    assert driver.ask("once.get", key=KEY, scope_id=run).body == {"state": "OPEN", "attempts": 0}
    for call, more in (("renew", {}), ("complete", {}), ("fail", {"error": "bad", "max_attempts": 3})):
        assert driver.do(f"once.{call}", key=KEY, scope_id=run, token=token, **more).code == "STALE_CLAIM"
    taken = acquire(driver, run, "bob")
    assert (taken["state"], taken["generation"]) == ("ACQUIRED", 2)
    assert [event["type"] for event in events(driver)] == ["once.acquired", "once.lapsed", "once.acquired"]


@pytest.mark.usefixtures("unswept")
def test_the_last_lapse_counts_before_the_sweep(driver: Driver, run: str) -> None:
    for _ in range(MAX_LAPSES):
        lapse(driver, run)
    view = driver.ask("once.get", key=KEY, scope_id=run)
    assert view["state"] == "FAILED"
    keyed = {"idempotency": ("i", b"f")}
    assert acquire(driver, run, **keyed).body == view.body
    assert [event["type"] for event in events(driver)][-1] == "once.exhausted"
    assert not acquire(driver, run, **keyed).replayed


# ---------------------------------------------------------------------- one result


def test_a_result_stands(driver: Driver, run: str) -> None:
    late = acquire(driver, run, lease_seconds=1)["token"]
    driver.advance(1_000)
    token = acquire(driver, run, "bob")["token"]
    assert complete(driver, run, token, "bob's").body == {"state": "DONE"}
    for other, result in ((late, "ann's"), (token, "another"), (late, "bob's")):
        assert complete(driver, run, other, result).code == "STALE_CLAIM"
    assert driver.do("once.fail", key=KEY, scope_id=run, token=token, error="x", max_attempts=1).code == "STALE_CLAIM"
    assert acquire(driver, run, "cem").body == {"state": "DONE", "attempts": 0, "result": "bob's"}
    assert [event["type"] for event in events(driver)].count("once.completed") == 1


def test_a_key_ends_once_by_the_one_function(driver: Driver, run: str) -> None:
    complete(driver, run, acquire(driver, run)["token"])
    store = driver.first.store
    context = Context(store, driver.space, driver.actor, 99, 0, driver.wall_ms, position=0, entropy=bytes(16))
    once = store.rows(ONCE)[(run, KEY)]
    for end in (results.complete, results.fail, results.lapse):
        with pytest.raises(AssertionError):
            end(context, once, *{results.complete: (b"1",), results.fail: ("x", 1)}.get(end, ()))
    with pytest.raises(AssertionError):
        results._finish(context, once, results.FAILED)
    assert not store.changes


def test_no_event_shows_a_token(driver: Driver, run: str) -> None:
    token = acquire(driver, run)["token"]
    complete(driver, run, token, 1)
    assert token.rpartition(".")[2] not in str(driver.ask("events.list", limit=1000).body)


# ---------------------------------------------------------------------- room


def test_the_room_for_a_result_is_reserved_while_it_is_held(driver: Driver, run: str) -> None:
    usage = driver.first.store.usage[driver.space]
    before = usage.bytes
    token = acquire(driver, run)["token"]
    assert usage.bytes >= before + PAYLOAD_BYTES_MAX
    complete(driver, run, token, "x" * 1000)
    assert before + 1000 < usage.bytes < before + 3000


def test_a_full_space_takes_results_back(driver: Driver) -> None:
    driver.space = driver.new_space("small", max_bytes=40_000)
    driver.actor = driver.key("small", "work", "read")
    run = str(driver.do("scopes.create")["id"])
    tokens = [acquire(driver, run, key="one")["token"]]
    assert acquire(driver, run, key="two").code == "RESOURCE_EXHAUSTED"
    assert complete(driver, run, tokens[0], "x" * 60_000, key="one").status == 200
    assert driver.ask("once.get", key="one", scope_id=run)["result"] == "x" * 60_000


# ---------------------------------------------------------------------- retention


def test_a_result_of_an_endless_run_is_forgotten_a_while_after_its_last_use(driver: Driver, run: str) -> None:
    complete(driver, run, acquire(driver, run)["token"], 7)
    driver.wall_ms += 30 * DAY_MS - 1
    driver.apply()
    assert acquire(driver, run)["state"] == "DONE"  # used again
    driver.wall_ms += 30 * DAY_MS - 1
    driver.apply()
    assert driver.ask("once.get", key=KEY, scope_id=run)["state"] == "DONE"
    driver.wall_ms += 1
    driver.apply()
    assert (run, KEY) not in driver.first.store.rows(ONCE)
    assert driver.first.store.rows(SCOPES)[run].generation_floor == 1
    assert acquire(driver, run)["generation"] == 2


def test_a_use_is_noted_once_a_day(driver: Driver, run: str) -> None:
    complete(driver, run, acquire(driver, run)["token"], 7)
    noted = ("once", (run, KEY))
    driver.wall_ms += DAY_MS - 1
    acquire(driver, run)
    assert noted not in driver.applied.touched
    driver.wall_ms += 1
    acquire(driver, run, idempotency=("i", b"f"))
    assert noted in driver.applied.touched
    assert acquire(driver, run, idempotency=("i", b"f")).replayed is False
    assert noted not in driver.applied.touched


def test_a_key_is_not_forgotten_while_it_is_held(driver: Driver, run: str) -> None:
    token = acquire(driver, run, lease_seconds=3600)["token"]
    driver.wall_ms += 31 * DAY_MS
    driver.apply()
    assert complete(driver, run, token).status == 200
    driver.wall_ms += 30 * DAY_MS - 1
    driver.apply()
    assert (run, KEY) in driver.first.store.rows(ONCE)


def test_open_and_failed_keys_are_forgotten_as_well(driver: Driver, run: str) -> None:
    for key, attempts in (("open", 2), ("failed", 1)):
        token = acquire(driver, run, key=key)["token"]
        driver.do("once.fail", key=key, scope_id=run, token=token, error="bad", max_attempts=attempts)
    driver.wall_ms += 30 * DAY_MS
    driver.apply()
    assert len(driver.first.store.rows(ONCE)) == 0


def test_a_longer_time_of_the_space_counts_for_what_is_there(driver: Driver, run: str) -> None:
    complete(driver, run, acquire(driver, run)["token"], 7)
    driver.do("spaces.change", space_id=driver.space, settings={"resultDays": 60})
    driver.wall_ms += 30 * DAY_MS
    driver.apply()
    assert driver.ask("once.get", key=KEY, scope_id=run)["state"] == "DONE"
    driver.wall_ms += 30 * DAY_MS
    driver.apply()
    assert driver.ask("once.get", key=KEY, scope_id=run)["state"] == "OPEN"


@pytest.mark.parametrize("above", [False, True])
def test_in_a_run_with_an_end_results_live_as_long_as_it(driver: Driver, above: bool) -> None:
    deadline = time_text(driver.wall_ms + 300 * DAY_MS)
    run = str(driver.do("scopes.create", deadline=deadline)["id"])
    if above:
        run = str(driver.do("scopes.create", parent_id=run)["id"])
    complete(driver, run, acquire(driver, run)["token"], 7)
    driver.wall_ms += 299 * DAY_MS
    driver.apply()
    acquire(driver, run)
    assert driver.ask("once.get", key=KEY, scope_id=run)["state"] == "DONE"
    driver.wall_ms += 2 * DAY_MS
    driver.settle_due()
    assert driver.ask("once.get", key=KEY, scope_id=run)["state"] == "DONE"
    driver.wall_ms += 7 * DAY_MS
    driver.settle_due()
    assert len(driver.first.store.rows(ONCE)) == 0


def test_what_a_run_held_goes_with_it_in_steps(driver: Driver, run: str) -> None:
    for number in range(5):
        acquire(driver, run, key=f"k{number}")
    store = driver.first.store
    context = Context(store, driver.space, driver.actor, 99, 0, driver.wall_ms, position=0, entropy=bytes(16))
    assert [dependents.remove_of_scope(context, run, 2) for _ in range(4)] == [2, 2, 1, 0]
    store.undo(0)
