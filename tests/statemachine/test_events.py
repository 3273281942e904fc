"""Events are kept in order, in bounds of number and age, and what is gone is known to be gone."""

from __future__ import annotations

from types import SimpleNamespace

import msgspec
import pytest

from statemachine.events import DAY_MS, EVENTS, IN_SPACE, TRIM, Event, floor
from tests.statemachine.driver import Driver


@pytest.fixture
def driver(specimens: SimpleNamespace) -> Driver:
    return Driver()


def kept(driver: Driver, space: str | None = None) -> list[Event]:
    return list(driver.first.store.rows(EVENTS).ordered(IN_SPACE, driver.space if space is None else space))


def put(driver: Driver, count: int, **envelope: object) -> None:
    for start in range(0, count, 100):
        driver.apply(
            [driver.operation("specimens.put", id=f"s{n}", **envelope) for n in range(start, min(count, start + 100))]
        )


def test_an_event_is_of_its_entry_and_in_order(driver: Driver) -> None:
    first, second = driver.apply([driver.operation("specimens.put", id="a"), driver.operation("specimens.put", id="b")])
    events = kept(driver)
    assert [(event.type, event.aggregate_type, event.aggregate_id) for event in events] == [
        ("specimen.put", "specimen", "a"),
        ("specimen.put", "specimen", "b"),
    ]
    assert events[0].position < events[1].position
    assert {event.created_at_ms for event in events} == {driver.first.wall_now_ms}
    assert first.index == second.index


def test_a_refused_operation_leaves_no_event(driver: Driver) -> None:
    driver.do("specimens.put", id="a", fault="refused")
    assert kept(driver) == []


def test_an_event_of_due_work_belongs_to_the_space_of_its_record(driver: Driver) -> None:
    driver.do("specimens.put", id="a", leaseAtMs=driver.lease_ms + 5)
    driver.apply(advance_ms=5)
    event = kept(driver)[-1]
    assert (event.type, event.space) == ("specimen.rung", driver.space)
    assert msgspec.json.decode(event.payload) == {"clock": "lease"}


@pytest.mark.usefixtures("specimens")
def test_the_oldest_go_when_there_are_too_many() -> None:
    driver = Driver(checked=False, reload_every=5)
    small = driver.new_space("small", event_count=10)
    envelope = {"space": small, "actor": driver.key("small-key", "work", space=small)}
    put(driver, 10 + TRIM - 1, **envelope)
    assert len(kept(driver, small)) == 10 + TRIM - 1
    assert floor(driver.first.store, small) == 0
    oldest = kept(driver, small)[: TRIM + 1]
    put(driver, 1, **envelope)
    assert len(kept(driver, small)) == 10
    assert floor(driver.first.store, small) == oldest[-2].position
    assert kept(driver, small)[0] == oldest[-1]


def test_the_old_ones_go_after_their_days(driver: Driver) -> None:
    old = driver.new_space("old", event_days=2)
    envelope = {"space": old, "actor": driver.key("old-key", "work", space=old)}
    put(driver, 3, **envelope)
    driver.advance(DAY_MS)
    driver.settle_due()
    put(driver, 1, **envelope)
    driver.advance(DAY_MS + DAY_MS // 24)
    driver.settle_due()
    assert [event.aggregate_id for event in kept(driver, old)] == ["s0"]
    assert floor(driver.first.store, old) > 0


@pytest.mark.usefixtures("specimens")
def test_many_old_ones_go_in_bounded_steps() -> None:
    driver = Driver(checked=False, reload_every=3)
    old = driver.new_space("old", event_days=1)
    envelope = {"space": old, "actor": driver.key("old-key", "work", space=old)}
    put(driver, 2 * TRIM + 10, **envelope)
    driver.advance(DAY_MS + DAY_MS // 24)
    for left in (TRIM + 10, 10, 0):
        driver.apply()
        assert len(kept(driver, old)) == left
        driver.advance(1)
    assert driver.first.due_wall_ms is not None
    assert driver.first.due_wall_ms > driver.wall_ms
