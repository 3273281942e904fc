"""The audit record: every change of the operator and of configuration, and nothing else."""

from __future__ import annotations

from base64 import b64encode

import pytest

from statemachine import audit
from statemachine.audit import AUDIT, KEPT_MS
from statemachine.declare import ADMIN, OPERATIONS, Access
from tests.statemachine.driver import Driver


@pytest.fixture
def driver() -> Driver:
    """A driver whose own space and key have left no rows."""
    driver = Driver()
    for machine in (driver.first, driver.second):
        table = machine.store.rows(AUDIT)
        for number in [row.number for row in table.ordered(audit.OLDEST, 0)]:
            table.delete((number,))
        machine.store.settle()
    return driver


def test_a_row_says_who_did_what_with_which_entry(driver: Driver) -> None:
    made = driver.do("spaces.create", name="staging", settings={"maxLapses": 3})
    (row,) = driver.ask("audit.list")["audit"]
    assert row == {
        "id": row["id"],
        "at": "2026-01-01T00:00:00.000Z",
        "actor": "operator",
        "keyId": None,
        "spaceId": None,
        "operation": "spaces.create",
        "request": {"name": "staging", "settings": {"maxLapses": 3}},
        "answer": made.body,
        "logIndex": made.index,
        "position": 0,
    }
    assert row["id"].startswith("aud_")


def test_a_key_is_named_by_its_id(driver: Driver) -> None:
    admin = driver.key("admin", "admin")
    admin_id = driver.ask("whoami", actor=admin)["keyId"]
    made = driver.do("keys.create", actor=admin, name="ci", hash=b64encode(b"x" * 32).decode())
    row = driver.ask("audit.list")["audit"][0]
    assert (row["actor"], row["keyId"], row["spaceId"]) == ("key", admin_id, driver.space)
    assert row["request"] == {"name": "ci"}  # without what the node filled in
    assert row["answer"]["id"] == made["id"]


def test_what_changed_nothing_leaves_no_row(driver: Driver) -> None:
    space = driver.do("spaces.create", name="staging")["id"]
    driver.do("spaces.change", space_id=space)
    driver.do("spaces.change", space_id=space, suspended=False)
    driver.do("spaces.change", space_id="spc_none", suspended=True)
    driver.do("spaces.change", space_id=space, settings={"maxLapses": 0})
    driver.do("spaces.create", name="x", actor=driver.actor)
    driver.do("scopes.create")
    assert [row["operation"] for row in driver.ask("audit.list")["audit"]] == ["spaces.create"]


def test_a_repeat_leaves_no_second_row(driver: Driver) -> None:
    for _ in range(2):
        driver.do("spaces.create", name="staging", idempotency=("k", b"same request"))
    assert len(driver.ask("audit.list")["audit"]) == 1


def test_newest_first_in_pages_of_one_space_or_all(driver: Driver) -> None:
    one = driver.do("spaces.create", name="one")["id"]
    two = driver.do("spaces.create", name="two")["id"]
    for space, lapses in ((one, 1), (two, 2), (one, 3), (one, 4)):
        driver.do("spaces.change", space_id=space, settings={"maxLapses": lapses})
    page = driver.ask("audit.list", limit=4)
    rest = driver.ask("audit.list", limit=4, cursor=page["nextCursor"])
    rows = page["audit"] + rest["audit"]
    assert [row["logIndex"] for row in rows] == sorted((row["logIndex"] for row in rows), reverse=True)
    assert len(rows) == 6
    assert rest["nextCursor"] is None
    assert [row["spaceId"] for row in driver.ask("audit.list", space_id=one)["audit"]] == [one] * 3
    assert driver.ask("audit.list", space_id="spc_none")["audit"] == []


def test_rows_are_kept_for_ninety_days(driver: Driver) -> None:
    driver.do("spaces.create", name="staging")
    driver.apply(advance_ms=KEPT_MS - 1)
    driver.settle_due()
    assert len(driver.ask("audit.list")["audit"]) == 1
    driver.apply(advance_ms=1)
    assert driver.ask("audit.list")["audit"] == []


def test_and_no_more_of_them_than_the_bound(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "ROWS_MAX", 3)
    for number in range(5):
        driver.do("spaces.create", name=f"s{number}")
    names = [row["request"]["name"] for row in driver.ask("audit.list")["audit"]]
    assert names == ["s4", "s3", "s2"]


def test_a_deleted_space_keeps_its_rows(driver: Driver) -> None:
    space = driver.do("spaces.create", name="staging")["id"]
    driver.do("spaces.delete", space_id=space)
    driver.settle_due()
    assert [row["operation"] for row in driver.ask("audit.list", space_id=space)["audit"]] == ["spaces.delete"]


def test_nobody_but_the_operator_reads_it(driver: Driver) -> None:
    assert driver.ask("audit.list", actor=driver.key("admin", "admin", "read")).code == "FORBIDDEN"


def test_no_space_pays_for_it(driver: Driver) -> None:
    assert AUDIT.space is None


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_what_only_the_operator_or_an_admin_may_do_is_audited(name: str) -> None:
    declared = OPERATIONS[name]
    if declared.access is Access.OPERATOR or declared.permissions == ADMIN:
        assert declared.audited
