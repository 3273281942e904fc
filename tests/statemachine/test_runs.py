"""The calls on runs: what they answer, which run a name finds, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest

from statemachine.declare import OPERATIONS
from statemachine.runs import JoinRun
from statemachine.scopes import DEPTH_MAX
from statemachine.types import time_text
from tests.statemachine.driver import Driver, Result

DAY_MS = 86_400_000


def events(driver: Driver) -> list[tuple[str, str]]:
    found = driver.ask("events.list", limit=1000)["events"]
    return [(event["type"], event["aggregate"]["id"]) for event in found]


def test_create_answers_the_run(driver: Driver) -> None:
    result = driver.do("scopes.create", name="nightly", deadline="2026-01-01T02:00:00.5+01:00")
    assert result.status == 201
    assert result["id"].startswith("scp_")
    assert result.body == {
        "id": result["id"],
        "name": "nightly",
        "parentId": None,
        "storedState": "ACTIVE",
        "effective": "ACTIVE",
        "deadline": "2026-01-01T01:00:00.500Z",
        "createdAt": "2026-01-01T00:00:00.000Z",
    }
    assert driver.ask("scopes.get", scope_id=result["id"]).body == result.body


def test_nulls_are_absent(driver: Driver) -> None:
    result = driver.do("scopes.create", name=None, parent_id=None, deadline=None, child_limit=None)
    assert (result.status, result["name"], result["deadline"]) == (201, None, None)


def test_names_of_created_runs_are_labels(driver: Driver) -> None:
    one = driver.do("scopes.create", name="same")
    two = driver.do("scopes.create", name="same")
    joined = driver.do("runs.join", name="same")
    assert joined.status == 201
    assert len({one["id"], two["id"], joined["id"]}) == 3


def test_a_deadline_that_has_passed_ends_the_run_at_once(driver: Driver) -> None:
    result = driver.do("scopes.create", deadline=time_text(driver.wall_ms))
    assert (result.status, result["storedState"], result["effective"]) == (201, "ACTIVE", "EXPIRED")
    driver.settle_due()
    assert driver.ask("scopes.get", scope_id=result["id"])["storedState"] == "EXPIRED"


# ---------------------------------------------------------------------- named runs


def test_a_name_is_joined_without_a_change(driver: Driver) -> None:
    made = driver.do("runs.join", name="crawl/ü:1+2 %")
    joined = driver.do("runs.join", name="crawl/ü:1+2 %")
    assert (made.status, joined.status) == (201, 200)
    assert joined.body == made.body
    assert events(driver) == [("scope.created", made["id"])]
    assert not driver.applied.touched


def test_the_first_deadline_stands(driver: Driver) -> None:
    driver.do("runs.join", name="crawl", deadline=time_text(driver.wall_ms + 1000))
    joined = driver.do("runs.join", name="crawl", deadline=time_text(driver.wall_ms + 9000))
    assert joined["deadline"] == time_text(driver.wall_ms + 1000)


@pytest.mark.parametrize("ending", ["scopes.cancel", "scopes.complete"])
def test_a_run_that_ended_gives_its_name_to_a_fresh_one(driver: Driver, ending: str) -> None:
    old = driver.do("runs.join", name="crawl")
    driver.do(ending, scope_id=old["id"])
    new = driver.do("runs.join", name="crawl")
    assert new.status == 201
    assert new["id"] != old["id"]
    assert driver.do("runs.join", name="crawl")["id"] == new["id"]


def test_a_run_past_its_deadline_gives_its_name_away(driver: Driver) -> None:
    old = driver.do("runs.join", name="crawl", deadline=time_text(driver.wall_ms + 5))
    new = driver.do("runs.join", name="crawl", advance_ms=5)
    assert (new.status, new["deadline"]) == (201, None)
    assert driver.ask("scopes.get", scope_id=old["id"])["storedState"] == "EXPIRED"


def test_also_before_the_sweep_came_by(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    old = driver.do("runs.join", name="crawl", deadline=time_text(driver.wall_ms + 5))
    monkeypatch.setattr("statemachine.machine.SWEPT_MAX", 0)
    driver.apply(advance_ms=5)
    assert look_up(driver, "crawl") is None
    new = driver.do("runs.join", name="crawl")
    assert new.status == 201
    assert driver.ask("scopes.get", scope_id=old["id"])["storedState"] == "EXPIRED"
    assert events(driver)[-2:] == [("scope.expired", old["id"]), ("scope.created", new["id"])]


def look_up(driver: Driver, name: str, actor: bytes | None = None) -> Any:
    request = JoinRun(name=name)
    return driver.first.look_up("runs.join", request, driver.space, driver.actor if actor is None else actor)


def test_a_look_up_agrees_with_the_operation(driver: Driver) -> None:
    assert OPERATIONS["runs.join"].lookup is not None
    assert look_up(driver, "crawl") is None
    made = driver.do("runs.join", name="crawl")
    assert look_up(driver, "crawl").id == made["id"]
    driver.do("scopes.cancel", scope_id=made["id"])
    assert look_up(driver, "crawl") is None


def test_a_reader_may_join_what_exists_and_create_nothing(driver: Driver) -> None:
    reader = driver.key("reader", "read")
    assert driver.do("runs.join", name="crawl", actor=reader).code == "FORBIDDEN"
    made = driver.do("runs.join", name="crawl")
    assert driver.do("runs.join", name="crawl", actor=reader)["id"] == made["id"]
    assert look_up(driver, "crawl", reader).id == made["id"]
    nobody = driver.key("nobody", "admin")
    assert driver.do("runs.join", name="crawl", actor=nobody).code == "FORBIDDEN"


def test_a_full_space_can_still_be_joined(driver: Driver) -> None:
    space = driver.do("spaces.create", name="small", settings={"maxRecords": 2})["id"]
    actor = driver.key("small", "work", space=space)
    made = driver.do("runs.join", name="crawl", space=space, actor=actor)
    assert driver.do("runs.join", name="other", space=space, actor=actor).code == "RESOURCE_EXHAUSTED"
    assert driver.do("runs.join", name="crawl", space=space, actor=actor).status == 200
    assert driver.do("scopes.complete", scope_id=made["id"], space=space, actor=actor).status == 200


# ---------------------------------------------------------------------- children


def test_a_child_limit_counts_direct_active_children(driver: Driver) -> None:
    root = driver.do("scopes.create", child_limit=2)["id"]
    one = driver.do("scopes.create", parent_id=root)["id"]
    driver.do("scopes.create", parent_id=one)
    driver.do("scopes.create", parent_id=root)
    full = driver.do("scopes.create", parent_id=root)
    assert (full.code, full.details) == ("CONFLICT", {"childLimit": 2, "activeChildren": 2})
    driver.do("scopes.complete", scope_id=one)
    assert driver.do("scopes.create", parent_id=root).status == 201


def test_a_child_past_its_deadline_does_not_count(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    root = driver.do("scopes.create", child_limit=2)["id"]
    driver.do("scopes.create", parent_id=root)
    driver.do("scopes.create", parent_id=root, deadline=time_text(driver.wall_ms + 5))
    monkeypatch.setattr("statemachine.machine.SWEPT_MAX", 0)
    assert driver.do("scopes.create", parent_id=root, advance_ms=4).code == "CONFLICT"
    assert driver.do("scopes.create", parent_id=root, advance_ms=1).status == 201
    assert driver.do("scopes.create", parent_id=root).code == "CONFLICT"


def test_a_child_limit_of_none_at_all(driver: Driver) -> None:
    root = driver.do("scopes.create", child_limit=0)["id"]
    assert driver.do("scopes.create", parent_id=root).code == "CONFLICT"


def test_depth_is_bounded(driver: Driver) -> None:
    scope_id = driver.do("scopes.create")["id"]
    for _ in range(DEPTH_MAX - 1):
        scope_id = driver.do("scopes.create", parent_id=scope_id)["id"]
    refused = driver.do("scopes.create", parent_id=scope_id)
    assert refused.code == "VALIDATION_FAILED"
    assert "parentId" in refused.message
    assert "64" in refused.message


# ---------------------------------------------------------------------- ending


@pytest.mark.parametrize(("first", "state"), [("cancel", "CANCELLED"), ("complete", "COMPLETED")])
@pytest.mark.parametrize("second", ["cancel", "complete"])
def test_an_ended_run_stays_as_it_is(driver: Driver, first: str, state: str, second: str) -> None:
    scope_id = driver.do("scopes.create")["id"]
    ended = driver.do(f"scopes.{first}", scope_id=scope_id)
    again = driver.do(f"scopes.{second}", scope_id=scope_id)
    assert (ended["storedState"], ended["effective"]) == (state, state)
    assert (again.status, again.body) == (200, ended.body)
    assert events(driver) == [("scope.created", scope_id), (f"scope.{state.lower()}", scope_id)]


def test_a_child_of_an_ended_run_stays_as_it_is(driver: Driver) -> None:
    root = driver.do("scopes.create")["id"]
    child = driver.do("scopes.create", parent_id=root)["id"]
    driver.do("scopes.cancel", scope_id=root)
    result = driver.do("scopes.complete", scope_id=child)
    assert (result.status, result["storedState"], result["effective"]) == (200, "ACTIVE", "CANCELLED")


def test_an_expired_run_cannot_be_completed(driver: Driver) -> None:
    scope_id = driver.do("scopes.create", deadline=time_text(driver.wall_ms + 5))["id"]
    assert driver.do("scopes.complete", scope_id=scope_id, advance_ms=5)["storedState"] == "EXPIRED"


@pytest.mark.parametrize("name", ["scopes.cancel", "scopes.complete"])
def test_an_ending_is_never_refused_for_lack_of_room_and_keeps_no_answer(driver: Driver, name: str) -> None:
    space = driver.do("spaces.create", name="small", settings={"maxRecords": 2})["id"]
    where = {"space": space, "actor": driver.key("small", "work", space=space)}
    scope_id = driver.do("scopes.create", **where)["id"]
    assert driver.do("scopes.create", **where).code == "RESOURCE_EXHAUSTED"
    for _ in range(2):
        ended = driver.do(name, scope_id=scope_id, idempotency=("k", b"same request"), **where)
        assert (ended.status, ended.replayed) == (200, False)


@pytest.mark.parametrize("name", ["scopes.cancel", "scopes.complete"])
def test_ending_an_unknown_run(driver: Driver, name: str) -> None:
    assert driver.do(name, scope_id="scp_none").code == "NOT_FOUND"


def test_events_tell_of_the_run(driver: Driver) -> None:
    root = driver.do("runs.join", name="crawl")["id"]
    child = driver.do("scopes.create", parent_id=root, name="part", deadline=time_text(driver.wall_ms + 5))["id"]
    driver.apply(advance_ms=5)
    driver.do("scopes.complete", scope_id=root)
    assert events(driver) == [
        ("scope.created", root),
        ("scope.created", child),
        ("scope.expired", child),
        ("scope.completed", root),
    ]
    second = driver.ask("events.list")["events"][1]
    assert second["aggregate"] == {"type": "scope", "id": child}
    assert second["scopeId"] == child
    assert second["payload"] == {"name": "part", "parentId": root, "deadline": "2026-01-01T00:00:00.005Z"}


# ---------------------------------------------------------------------- lists


def ids(result: Result) -> list[str]:
    return [row["id"] for row in result["scopes"]]


def test_lists(driver: Driver) -> None:
    roots = [driver.do("scopes.create")["id"] for _ in range(3)]
    children = [driver.do("scopes.create", parent_id=roots[0])["id"] for _ in range(4)]
    driver.do("scopes.cancel", scope_id=children[1])
    assert ids(driver.ask("scopes.list")) == roots + children
    assert ids(driver.ask("scopes.list", parent_id=roots[0])) == children
    assert ids(driver.ask("scopes.list", state="CANCELLED")) == [children[1]]
    assert ids(driver.ask("scopes.list", parent_id=roots[0], state="ACTIVE")) == [*children[:1], *children[2:]]
    assert driver.ask("scopes.list", parent_id="scp_none").code == "NOT_FOUND"
    assert driver.ask("scopes.list", state="DONE").code == "VALIDATION_FAILED"


def test_pages_stay_right_while_the_list_changes(driver: Driver) -> None:
    scope_ids = [driver.do("scopes.create")["id"] for _ in range(5)]
    page = driver.ask("scopes.list", state="ACTIVE", limit=2)
    assert ids(page) == scope_ids[:2]
    driver.do("scopes.cancel", scope_id=scope_ids[1])
    driver.do("scopes.cancel", scope_id=scope_ids[2])
    page = driver.ask("scopes.list", state="ACTIVE", limit=2, cursor=page["nextCursor"])
    assert ids(page) == scope_ids[3:]
    assert page["nextCursor"] is None


def test_spaces_do_not_see_each_others_runs(driver: Driver) -> None:
    space = driver.do("spaces.create", name="other")["id"]
    actor = driver.key("other", "work", "read", space=space)
    mine = driver.do("runs.join", name="crawl")["id"]
    theirs = driver.do("runs.join", name="crawl", space=space, actor=actor)
    assert theirs.status == 201
    assert ids(driver.ask("scopes.list", space=space, actor=actor)) == [theirs["id"]]
    assert driver.ask("scopes.get", scope_id=mine, space=space, actor=actor).code == "NOT_FOUND"
    assert driver.do("scopes.cancel", scope_id=mine, space=space, actor=actor).code == "NOT_FOUND"
    assert driver.do("scopes.create", parent_id=mine, space=space, actor=actor).code == "NOT_FOUND"


# ---------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    "arguments",
    [
        {"name": ""},
        {"name": "."},
        {"name": ".."},
        {"name": "a\x00"},
        {"name": "x" * 257},
        {"name": 7},
        {"deadline": "2026-01-01T00:00:00"},
        {"deadline": "tomorrow"},
        {"deadline": 12},
        {"childLimit": -1},
        {"childLimit": 1.0},
        {"childLimit": True},
        {"childLimit": 1 << 53},
        {"parentId": "not an id"},
        {"parent": "scp_1"},
    ],
)
def test_bad_input_is_refused(driver: Driver, arguments: dict[str, Any]) -> None:
    assert driver.do("scopes.create", **arguments).code == "VALIDATION_FAILED"


@pytest.mark.parametrize(
    ("deadline", "answered"),
    [
        ("9999-12-31T23:59:59.999-12:00", "9999-12-31T23:59:59.999Z"),
        ("0001-01-01T00:00:00+12:00", "1970-01-01T00:00:00.000Z"),
    ],
)
def test_deadlines_at_the_ends_of_the_calendar(driver: Driver, deadline: str, answered: str) -> None:
    assert driver.do("scopes.create", deadline=deadline)["deadline"] == answered
    driver.settle_due()
