"""Deleting a space: at once for everybody, in bounded steps for the records."""

from __future__ import annotations

from typing import Any

from statemachine import dependents
from statemachine.space_deletion import DELETIONS, STEP_RECORDS
from statemachine.spaces import SPACES
from statemachine.store import TABLES
from tests.statemachine.driver import Driver

KEPT = {"audit", "idempotency"}  # tables that outlive the space: for good, and for minutes


def begin(driver: Driver) -> dict[str, Any]:
    space = driver.do("spaces.create", name="gone")["id"]
    return {"space": space, "actor": driver.key("gone", "work", "read", space=space)}


def remains(driver: Driver, space: str) -> list[str]:
    """The tables that still mention the space in any record."""
    store = driver.first.store
    return [
        name
        for name, table in sorted(TABLES.items())
        if name not in KEPT and any(space in repr(record) for record in store.rows(table)._records.values())
    ]


def records(driver: Driver) -> int:
    return sum(len(driver.first.store.rows(table)) for table in TABLES.values())


def test_its_keys_stop_at_once(driver: Driver) -> None:
    where = begin(driver)
    results = driver.apply(
        [
            driver.operation("scopes.create", **where),
            driver.operation("spaces.delete", space_id=where["space"]),
            driver.operation("scopes.create", **where),
        ]
    )
    assert [result.status for result in results] == [201, 200, 401]
    assert results[1].body == {"id": where["space"], "deleted": True}
    assert driver.ask("scopes.list", **where).code == "UNAUTHENTICATED"


def test_it_is_not_found_from_then_on(driver: Driver) -> None:
    where = begin(driver)
    space = where["space"]
    driver.do("spaces.delete", space_id=space)
    assert driver.do("spaces.delete", space_id=space).code == "NOT_FOUND"
    assert driver.do("spaces.change", space_id=space, suspended=True).code == "NOT_FOUND"
    assert driver.ask("spaces.list-keys", space_id=space).code == "NOT_FOUND"
    assert space not in [row["id"] for row in driver.ask("spaces.list")["spaces"]]


def test_nothing_is_left_of_it_and_nothing_else_is_touched(driver: Driver) -> None:
    where = begin(driver)
    kept = driver.do("runs.join", name="crawl")["id"]
    root = driver.do("runs.join", name="crawl", **where)["id"]
    child = driver.do("scopes.create", parent_id=root, **where)["id"]
    driver.do("scopes.create", parent_id=child, idempotency=("k", b"f"), **where)
    driver.do("scopes.cancel", scope_id=child, **where)
    driver.do("spaces.delete", space_id=where["space"])
    driver.settle_due()
    assert remains(driver, where["space"]) == []
    assert driver.ask("scopes.get", scope_id=kept)["effective"] == "ACTIVE"
    assert len(driver.ask("events.list")["events"]) == 1
    driver.advance(16 * 60_000)
    driver.settle_due()
    assert where["space"] not in driver.first.store.usage


def test_held_leases_and_lines_go_with_it(driver: Driver) -> None:
    where = begin(driver)
    scope_id = driver.do("runs.join", name="crawl", **where)["id"]
    caller = {"scope_id": scope_id, "holder": "w", **where}
    driver.do("claims.acquire", key="a", holder_session="1", lease_seconds=1, **caller)
    waiting = driver.do("claims.acquire", key="a", holder_session="2", wait_ms=60_000, **caller)
    assert waiting.status == 202
    driver.do("claims.acquire", key="b", holder_session="2", **caller)
    driver.do("once.acquire", key="a", holder_session="1", **caller)
    driver.do("spaces.delete", space_id=where["space"])
    driver.advance(2000)  # a lease lapses in the entry that begins to remove it
    driver.settle_due()
    assert remains(driver, where["space"]) == []
    driver.advance(3_600_000)
    driver.settle_due()


def test_it_goes_in_bounded_steps() -> None:
    driver = Driver(reload_every=20, checked=False)
    where = begin(driver)
    for _ in range(3):
        driver.apply([driver.operation("scopes.create", **where) for _ in range(300)])
    store = driver.first.store
    driver.do("spaces.delete", space_id=where["space"])
    before = records(driver)
    while len(store.rows(DELETIONS)):
        driver.apply(advance_ms=1)
        assert (
            0 < before - records(driver) <= STEP_RECORDS + 3
        )  # the space, its retention and the continuation at the end
        before = records(driver)
    assert where["space"] not in store.rows(SPACES)
    assert remains(driver, where["space"]) == []


def test_what_a_primitive_keeps_beside_the_runs_goes_too(driver: Driver) -> None:
    where = begin(driver)
    asked: list[tuple[str, int]] = []

    def remove(context: Any, space_id: str, budget: int) -> int:
        asked.append((space_id, budget))
        return 0

    dependents.of_space("things", remove)
    try:
        driver.do("spaces.delete", space_id=where["space"])
        driver.settle_due()
    finally:
        del dependents.IN_SPACES["things"]
    assert {space for space, _ in asked} == {where["space"]}
    assert all(budget > 0 for _, budget in asked)
