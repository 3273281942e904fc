"""Organizations and their plans."""

from __future__ import annotations

from typing import Any

import pytest

from statemachine import organizations
from tests.statemachine.driver import Driver

UNLIMITED = dict.fromkeys(("operationsPerMonth", "agentsAtOnce", "spaces", "retentionDays", "payloadBytes"))


def test_a_default_one_exists_and_has_no_bounds(driver: Driver) -> None:
    (found,) = driver.ask("organizations.list")["organizations"]
    assert found == {
        "id": organizations.DEFAULT,
        "name": "default",
        "plan": UNLIMITED,
        "createdAt": "2026-01-01T00:00:00.000Z",
    }


def test_a_plan_is_kept_as_given(driver: Driver) -> None:
    made = driver.do("organizations.create", name="acme", plan={"spaces": 2, "agentsAtOnce": 0}, advance_ms=1)
    assert made.status == 201
    assert made["id"].startswith("org_")
    assert made["plan"] == {**UNLIMITED, "spaces": 2, "agentsAtOnce": 0}
    assert driver.ask("organizations.list")["organizations"][1] == made.body


def test_a_new_plan_replaces_the_old_one_as_a_whole(driver: Driver) -> None:
    made = driver.do("organizations.create", name="acme", plan={"spaces": 2}, advance_ms=1)
    renamed = driver.do("organizations.change", organization_id=made["id"], name="Acme")
    assert (renamed["name"], renamed["plan"]) == ("Acme", made["plan"])
    lifted = driver.do("organizations.change", organization_id=made["id"], plan={"retentionDays": 3})
    assert lifted["plan"] == {**UNLIMITED, "retentionDays": 3}
    assert driver.ask("organizations.list")["organizations"][-1] == lifted.body
    assert driver.do("organizations.change", organization_id=made["id"], plan={})["plan"] == UNLIMITED


def test_changing_an_unknown_one(driver: Driver) -> None:
    assert driver.do("organizations.change", organization_id="org_none", name="x").code == "NOT_FOUND"


@pytest.mark.parametrize(
    "plan",
    [
        {"operationsPerMonth": -1},
        {"spaces": 1.5},
        {"agentsAtOnce": True},
        {"retentionDays": 0},
        {"payloadBytes": 65_537},
        {"payloadBytes": 0},
        {"seats": 1},
    ],
)
def test_bounds_of_a_plan(driver: Driver, plan: dict[str, Any]) -> None:
    assert driver.do("organizations.create", name="acme", plan=plan).code == "VALIDATION_FAILED"
    refused = driver.do("organizations.change", organization_id=organizations.DEFAULT, plan=plan)
    assert refused.code == "VALIDATION_FAILED"


def test_pages(driver: Driver) -> None:
    for number in range(3):
        driver.do("organizations.create", name=f"o{number}", advance_ms=1)
    page = driver.ask("organizations.list", limit=3)
    rest = driver.ask("organizations.list", limit=3, cursor=page["nextCursor"])
    names = [row["name"] for row in page["organizations"] + rest["organizations"]]
    assert names == ["default", "o0", "o1", "o2"]
    assert rest["nextCursor"] is None


@pytest.mark.parametrize("name", ["organizations.create", "organizations.change"])
def test_only_the_operator_may(driver: Driver, name: str) -> None:
    admin = driver.key("admin", "admin", "work", "read", "resource_config")
    assert driver.do(name, actor=admin, name="x", organization_id=organizations.DEFAULT).code == "FORBIDDEN"
    assert driver.do(name, actor=b"nobody", name="x", organization_id=organizations.DEFAULT).code == "UNAUTHENTICATED"
    assert driver.ask("organizations.list", actor=admin).code == "FORBIDDEN"
