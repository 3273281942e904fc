"""A repeat with its idempotency key gets the first answer, and nothing happens twice."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from statemachine import idempotency
from statemachine.idempotency import ANSWERS, KEPT_AT_LEAST_MS, KEPT_MS
from tests.statemachine.driver import Driver, Result
from tests.statemachine.specimens import Specimen

ONE, OTHER = b"1" * 32, b"2" * 32


@pytest.fixture
def driver(specimens: SimpleNamespace) -> Driver:
    return Driver()


def put(driver: Driver, key: str, fingerprint: bytes = ONE, **arguments: object) -> Result:
    return driver.do("specimens.put", idempotency=(key, fingerprint), **{"id": "a", **arguments})


def count(driver: Driver) -> int:
    return len(driver.first.store.rows(ANSWERS))


def test_a_repeat_gets_the_first_answer_and_changes_nothing(driver: Driver) -> None:
    first = put(driver, "k")
    driver.do("specimens.remove", id="a")
    again = put(driver, "k")
    assert not first.replayed
    assert again.replayed
    assert (again.status, again.body, again.index, again.position) == (201, first.body, first.index, first.position)
    assert driver.applied.touched == []


def test_a_repeat_in_the_same_entry_is_one_execution(driver: Driver) -> None:
    operation = driver.operation("specimens.put", id="a", idempotency=("k", ONE))
    results = driver.apply([operation] * 3)
    assert [result.replayed for result in results] == [False, True, True]
    assert results[0].body == results[1].body == results[2].body
    assert {result.position for result in results} == {0}


def test_another_request_under_the_key_is_a_conflict(driver: Driver) -> None:
    put(driver, "k")
    conflict = put(driver, "k", OTHER)
    assert (conflict.status, conflict.code) == (409, "IDEMPOTENCY_CONFLICT")
    assert "'k'" in conflict.message


def test_a_refusal_is_not_kept(driver: Driver) -> None:
    assert put(driver, "k", fault="refused").code == "CONFLICT"
    assert count(driver) == 0
    assert put(driver, "k").status == 201


def test_a_defect_is_not_kept(driver: Driver) -> None:
    with driver.expecting_defects():
        assert put(driver, "k", fault="key").code == "INTERNAL"
    assert put(driver, "k").status == 201


def test_what_is_repeatable_keeps_nothing(driver: Driver) -> None:
    put(driver, "k")
    before = count(driver)
    assert driver.do("specimens.remove", id="a", idempotency=("other", ONE)).status == 204
    assert count(driver) == before


def test_keys_of_two_spaces_have_nothing_to_do_with_each_other(driver: Driver) -> None:
    put(driver, "k")
    space = driver.new_space("second")
    actor = driver.key("second-key", "work", space=space)
    other = driver.do("specimens.put", id="b", idempotency=("k", OTHER), space=space, actor=actor)
    assert (other.status, other.replayed) == (201, False)


def test_a_record_is_looked_up_after_the_key_and_before_the_permission(driver: Driver) -> None:
    first = put(driver, "k")
    reader = driver.key("reader", "read")
    again = driver.do("specimens.put", id="a", idempotency=("k", ONE), actor=reader)
    assert again.body == first.body
    assert driver.do("specimens.put", id="a", actor=reader).code == "FORBIDDEN"
    stranger = driver.do("specimens.put", id="a", idempotency=("k", ONE), actor=bytes(32))
    assert stranger.code == "UNAUTHENTICATED"


def test_a_record_ends_after_a_quarter_of_an_hour_of_lease_time(driver: Driver) -> None:
    put(driver, "k")
    driver.lease_ms += KEPT_MS - 1
    assert put(driver, "k").replayed
    driver.wall_ms += 10 * KEPT_MS
    assert put(driver, "k").replayed
    driver.lease_ms += 1
    again = put(driver, "k", OTHER)
    assert not again.replayed
    assert count(driver) == 1


def test_a_record_that_is_over_counts_no_more_although_the_sweep_had_no_room(
    driver: Driver, specimens: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("statemachine.machine.SWEPT_MAX", 1)
    put(driver, "k")
    driver.write(specimens.table, Specimen(id="first", space=driver.space, lease_at_ms=1))
    driver.lease_ms += KEPT_MS
    again = put(driver, "k", OTHER)
    assert (again.status, again.replayed) == (200, False)


def test_under_pressure_the_oldest_go_first_but_none_before_two_minutes(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency, "BYTES_MAX", 1_000)
    for number in range(4):
        assert put(driver, f"k{number}").status in (200, 201)
        driver.advance(1_000)
    full = put(driver, "k4")
    assert (full.status, full.code) == (429, "SERVICE_RATE_LIMITED")
    assert full.retry_after_ms == KEPT_AT_LEAST_MS - 4_000
    assert driver.do("specimens.put", id="a").status == 200, "work without a key goes on"
    assert put(driver, "k0").replayed, "a repeat needs no room"
    driver.advance(KEPT_AT_LEAST_MS - 4_000)
    assert put(driver, "k4").status == 200
    driver.advance(1_000)
    assert not put(driver, "k0", OTHER).code, "it was dropped to make room"
    assert put(driver, "k3").replayed


def test_what_changes_nothing_needs_no_room(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotency, "BYTES_MAX", 400)
    put(driver, "k0")
    put(driver, "k1")
    assert driver.do("specimens.keep", idempotency=("k2", ONE)).status == 200
    driver.advance(KEPT_AT_LEAST_MS)
    assert driver.do("specimens.keep", idempotency=("k2", ONE)).status == 200
    assert sorted(answered.key for answered in driver.first.store.rows(ANSWERS)._records.values()) == ["k0", "k1"]
