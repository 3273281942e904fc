"""Spaces: settings, suspension, and the bound on what one keeps."""

from __future__ import annotations

from typing import Any

import pytest

from tests.statemachine.driver import Driver

DEFAULTS = {
    "maxHoldSeconds": 86_400,
    "maxLapses": 20,
    "maxRecords": 5_000_000,
    "maxBytes": 8 << 30,
    "resultDays": 30,
    "eventDays": 7,
    "eventCount": 100_000,
}


def small(driver: Driver, **settings: int) -> dict[str, Any]:
    """A space of its own with these settings, and a key (which counts as one record of it)."""
    space = driver.do("spaces.create", name="small", settings=settings)["id"]
    return {"space": space, "actor": driver.key("small", "work", "read", "resource_config", space=space)}


def test_create_answers_the_space(driver: Driver) -> None:
    made = driver.do("spaces.create", name="staging")
    assert made.status == 201
    assert made.body == {
        "id": made["id"],
        "name": "staging",
        "organizationId": "org_default",
        "settings": DEFAULTS,
        "suspended": False,
        "createdAt": "2026-01-01T00:00:00.000Z",
        "records": 0,
        "bytes": 0,
    }
    assert made["id"].startswith("spc_")
    assert driver.ask("spaces.list")["spaces"][1] == made.body


def test_a_space_of_an_organization(driver: Driver) -> None:
    organization = driver.do("organizations.create", name="acme")["id"]
    made = driver.do("spaces.create", name="staging", organization_id=organization)
    assert made["organizationId"] == organization
    assert driver.do("spaces.create", name="staging", organization_id="org_none").code == "NOT_FOUND"


def test_settings_that_are_not_named_stay(driver: Driver) -> None:
    made = driver.do("spaces.create", name="staging", settings={"maxLapses": 3})
    assert made["settings"] == {**DEFAULTS, "maxLapses": 3}
    changed = driver.do("spaces.change", space_id=made["id"], settings={"resultDays": 60, "maxLapses": None})
    assert changed["settings"] == {**DEFAULTS, "maxLapses": 3, "resultDays": 60}
    assert driver.do("spaces.change", space_id=made["id"]).body == changed.body
    assert driver.do("spaces.change", space_id="spc_none").code == "NOT_FOUND"


@pytest.mark.parametrize(
    "settings",
    [
        {"maxHoldSeconds": 0},
        {"maxHoldSeconds": 31_536_001},
        {"maxLapses": 0},
        {"maxLapses": 1001},
        {"maxRecords": 0},
        {"maxRecords": 50_000_001},
        {"maxBytes": 0},
        {"maxBytes": (1 << 40) + 1},
        {"resultDays": 0},
        {"eventDays": 3651},
        {"eventCount": 0},
        {"eventCount": 10_000_001},
        {"eventCount": 1.0},
        {"eventCount": True},
        {"maxGold": 1},
    ],
)
def test_bounds_of_settings(driver: Driver, settings: dict[str, Any]) -> None:
    assert driver.do("spaces.create", name="x", settings=settings).code == "VALIDATION_FAILED"
    assert driver.do("spaces.change", space_id=driver.space, settings=settings).code == "VALIDATION_FAILED"


def test_events_are_kept_as_the_settings_say(driver: Driver) -> None:
    where = small(driver, eventCount=1)
    for _ in range(300):
        driver.do("scopes.create", **where)
    assert len(driver.ask("events.list", limit=1000, **where)["events"]) < 260
    driver.do("spaces.change", space_id=where["space"], settings={"eventCount": 1000})
    for _ in range(300):
        driver.do("scopes.create", **where)
    assert len(driver.ask("events.list", limit=1000, **where)["events"]) >= 300


# ---------------------------------------------------------------------- suspension


def test_a_suspended_space_refuses_everything_until_it_is_resumed(driver: Driver) -> None:
    where = small(driver)
    driver.do("spaces.change", space_id=where["space"], suspended=True)
    assert driver.do("scopes.create", **where).code == "SPACE_SUSPENDED"
    assert driver.ask("scopes.list", **where).code == "SPACE_SUSPENDED"
    assert driver.ask("whoami", **where).status == 200
    driver.do("spaces.change", space_id=where["space"], suspended=False)
    assert driver.do("scopes.create", **where).status == 201


# ---------------------------------------------------------------------- the bound


def nearly_full(driver: Driver, where: dict[str, Any]) -> list[dict[str, Any]]:
    page = driver.ask("events.list", limit=1000, **where)
    return [event["payload"] for event in page["events"] if event["type"] == "space.nearly-full"]


def test_a_space_tells_once_that_it_is_nearly_full(driver: Driver) -> None:
    where = small(driver, maxRecords=10)
    for _ in range(6):  # with the key: seven
        driver.do("scopes.create", **where)
    assert nearly_full(driver, where) == []
    driver.do("scopes.create", **where)
    (told,) = nearly_full(driver, where)
    assert (told["records"], told["maxRecords"]) == (8, 10)
    driver.do("scopes.create", **where)
    assert len(nearly_full(driver, where)) == 1


def test_and_again_after_it_had_room(driver: Driver) -> None:
    where = small(driver, maxRecords=10)
    for _ in range(7):
        driver.do("scopes.create", **where)
    driver.do("spaces.change", space_id=where["space"], settings={"maxRecords": 20})
    driver.do("scopes.create", **where)
    driver.do("spaces.change", space_id=where["space"], settings={"maxRecords": 11})
    driver.do("scopes.create", **where)
    assert [told["records"] for told in nearly_full(driver, where)] == [8, 10]


def test_it_is_not_told_again_while_it_stays_about_there(driver: Driver) -> None:
    where = small(driver, maxRecords=10)
    for _ in range(7):
        driver.do("scopes.create", **where)
    driver.do("spaces.change", space_id=where["space"], settings={"maxRecords": 12})  # from 80 to 66 percent
    driver.do("scopes.create", **where)  # 75
    driver.do("scopes.create", **where)  # 83
    assert [told["records"] for told in nearly_full(driver, where)] == [8]


def test_below_the_bound_nothing_is_noted(driver: Driver) -> None:
    where = small(driver)
    driver.do("scopes.create", **where)
    assert ("spaces", where["space"]) not in driver.applied.touched


def test_bytes_count_as_well(driver: Driver) -> None:
    where = small(driver, maxBytes=3000)
    while not (told := nearly_full(driver, where)):
        driver.do("scopes.create", **where)
    assert 2400 <= told[0]["bytes"] <= 3000
    while not (refused := driver.do("scopes.create", **where)).code:
        pass
    assert (refused.status, refused.code) == (507, "RESOURCE_EXHAUSTED")
    assert "3000 bytes" in refused.message


def test_a_full_space_refuses_new_work_alone(driver: Driver) -> None:
    where = small(driver, maxRecords=3)
    scope_id = driver.do("scopes.create", **where)["id"]
    driver.do("scopes.create", **where)
    refused = driver.do("scopes.create", **where)
    assert refused.code == "RESOURCE_EXHAUSTED"
    assert "3 records" in refused.message
    assert driver.ask("scopes.get", scope_id=scope_id, **where).status == 200
    assert driver.do("scopes.cancel", scope_id=scope_id, **where).status == 200


def test_usage_is_shown(driver: Driver) -> None:
    where = small(driver)
    driver.do("scopes.create", **where)
    shown = next(row for row in driver.ask("spaces.list")["spaces"] if row["id"] == where["space"])
    assert shown["records"] == 2
    assert shown["bytes"] > 500


def test_pages(driver: Driver) -> None:
    made = [driver.do("spaces.create", name=f"s{number}")["id"] for number in range(3)]
    page = driver.ask("spaces.list", limit=2)
    rest = driver.ask("spaces.list", limit=9, cursor=page["nextCursor"])
    assert [row["id"] for row in page["spaces"] + rest["spaces"]] == [driver.space, *made]
    assert driver.ask("spaces.list", cursor="garbage!").code == "VALIDATION_FAILED"


@pytest.mark.parametrize("name", ["spaces.create", "spaces.change", "spaces.delete"])
def test_only_the_operator_may(driver: Driver, name: str) -> None:
    admin = driver.key("admin", "admin")
    assert driver.do(name, actor=admin, name="x", space_id=driver.space).code == "FORBIDDEN"
    assert driver.ask("spaces.list", actor=admin).code == "FORBIDDEN"
