"""Reading events: no gap, no double, no step back; a lost place is an error."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statemachine import events
from statemachine.declare import QUERIES
from statemachine.watch import EventPage, WatchEvents
from tests.statemachine.driver import Driver, Result

DAY_MS = 86_400_000


def runs(driver: Driver, count: int) -> list[str]:
    return [driver.do("scopes.create", name=f"run {number}")["id"] for number in range(count)]


def subjects(result: Result) -> list[str]:
    return [event["aggregate"]["id"] for event in result["events"]]


def small_space(driver: Driver, event_count: int = 1) -> tuple[str, bytes]:
    """A space that keeps next to nothing, so that events are dropped."""
    space = driver.do("spaces.create", name="small", settings={"eventCount": event_count})["id"]
    return space, driver.key("small", "work", "read", space=space)


def test_an_event_as_it_is_answered(driver: Driver) -> None:
    scope_id = driver.do("scopes.create", name="crawl")["id"]
    (event,) = driver.ask("events.list")["events"]
    assert event == {
        "eventId": event["eventId"],
        "type": "scope.created",
        "aggregate": {"type": "scope", "id": scope_id},
        "scopeId": scope_id,
        "createdAt": "2026-01-01T00:00:00.000Z",
        "payload": {"name": "crawl", "parentId": None, "deadline": None},
    }
    assert event["eventId"].startswith("evt_")


# ---------------------------------------------------------------------- list


def test_list_begins_at_the_oldest_and_goes_on_at_its_cursor(driver: Driver) -> None:
    made = runs(driver, 5)
    page = driver.ask("events.list", limit=2)
    assert (subjects(page), page["more"]) == (made[:2], True)
    page = driver.ask("events.list", limit=2, cursor=page["nextCursor"])
    assert subjects(page) == made[2:4]
    page = driver.ask("events.list", limit=2, cursor=page["nextCursor"])
    assert subjects(page) == made[4:]
    assert "more" not in page
    empty = driver.ask("events.list", cursor=page["nextCursor"])
    assert (subjects(empty), empty["nextCursor"]) == ([], page["nextCursor"])
    later = runs(driver, 1)
    assert subjects(driver.ask("events.list", cursor=empty["nextCursor"])) == later


def test_an_empty_space_answers_a_cursor(driver: Driver) -> None:
    page = driver.ask("events.list")
    assert page["events"] == []
    assert page["nextCursor"]
    made = runs(driver, 1)
    assert subjects(driver.ask("events.list", cursor=page["nextCursor"])) == made


def test_the_id_of_an_event_is_a_cursor(driver: Driver) -> None:
    made = runs(driver, 3)
    first = driver.ask("events.list")["events"][0]["eventId"]
    assert subjects(driver.ask("events.list", cursor=first)) == made[1:]


def test_spaces_do_not_see_each_others_events(driver: Driver) -> None:
    runs(driver, 1)
    space, actor = small_space(driver, 100)
    assert driver.ask("events.list", space=space, actor=actor)["events"] == []


# ---------------------------------------------------------------------- watch


def test_watch_begins_now(driver: Driver) -> None:
    runs(driver, 2)
    page = driver.ask("events.watch")
    assert page["events"] == []
    made = runs(driver, 2)
    assert subjects(driver.ask("events.watch", cursor=page["nextCursor"])) == made


def test_a_watcher_asks_again_where_it_was(driver: Driver) -> None:
    """As a node does for a long poll: what was not settled is asked again with the cursor that it answered."""
    declared = QUERIES["events.watch"]
    assert declared.settled is not None
    assert declared.again is not None
    assert declared.topics is not None
    request: Any = WatchEvents(types="scope.cancelled", wait_seconds=20)
    view = driver.first.view(driver.space, driver.actor)
    page = driver.first.answer("events.watch", request, driver.space, driver.actor)
    assert not declared.settled(page)
    (topic,) = declared.topics(view, request)
    (scope_id,) = runs(driver, 1)
    assert topic in driver.applied.touched
    request = declared.again(request, page)
    page = driver.first.answer("events.watch", request, driver.space, driver.actor)
    assert not declared.settled(page)
    request = declared.again(request, page)
    driver.do("scopes.cancel", scope_id=scope_id)
    page = driver.first.answer("events.watch", request, driver.space, driver.actor)
    assert declared.settled(page)
    assert [event.type for event in page.events] == ["scope.cancelled"]


def test_a_filter_of_types(driver: Driver) -> None:
    start = driver.ask("events.watch")["nextCursor"]
    made = runs(driver, 2)
    driver.do("scopes.cancel", scope_id=made[0])
    driver.do("scopes.complete", scope_id=made[1])
    page = driver.ask("events.watch", cursor=start, types="scope.completed,scope.cancelled")
    assert subjects(page) == made
    assert subjects(driver.ask("events.watch", cursor=start, types="scope.completed")) == made[1:]
    assert subjects(driver.ask("events.watch", cursor=start, types="no.such,,")) == []
    assert len(driver.ask("events.watch", cursor=start, types="")["events"]) == 4


def test_a_filter_of_one_thing(driver: Driver) -> None:
    start = driver.ask("events.watch")["nextCursor"]
    made = runs(driver, 2)
    page = driver.ask("events.watch", cursor=start, aggregate=f"scope:{made[1]}")
    assert subjects(page) == made[1:]
    assert driver.ask("events.watch", cursor=start, aggregate="claim:a:b")["events"] == []


@pytest.mark.parametrize("aggregate", ["", "scope", ":x", "scope:"])
def test_a_filter_that_names_no_thing(driver: Driver, aggregate: str) -> None:
    refused = driver.ask("events.watch", aggregate=aggregate)
    assert refused.code == "VALIDATION_FAILED"
    assert "aggregate" in refused.message


def test_a_run_includes_all_below_it(driver: Driver) -> None:
    start = driver.ask("events.watch")["nextCursor"]
    root, other = runs(driver, 2)
    child = driver.do("scopes.create", parent_id=root)["id"]
    grandchild = driver.do("scopes.create", parent_id=child)["id"]
    driver.do("scopes.create", parent_id=other)
    page = driver.ask("events.watch", cursor=start, scope_id=root)
    assert subjects(page) == [root, child, grandchild]
    assert subjects(driver.ask("events.watch", cursor=start, scope_id=child)) == [child, grandchild]
    assert driver.ask("events.watch", scope_id="scp_none").code == "NOT_FOUND"


def test_the_cursor_moves_past_what_does_not_match(driver: Driver) -> None:
    start = driver.ask("events.watch")["nextCursor"]
    runs(driver, 3)
    page = driver.ask("events.watch", cursor=start, types="scope.expired")
    assert page["events"] == []
    assert page["nextCursor"] > start
    assert driver.ask("events.watch", cursor=page["nextCursor"])["events"] == []


def test_a_call_reads_a_bounded_number(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("statemachine.watch.EXAMINED_MAX", 3)
    start = driver.ask("events.watch")["nextCursor"]
    made = runs(driver, 7)
    driver.do("scopes.cancel", scope_id=made[0])
    pages: list[Result] = []
    while not pages or "more" in pages[-1]:
        cursor = pages[-1]["nextCursor"] if pages else start
        pages.append(driver.ask("events.watch", cursor=cursor, types="scope.cancelled"))
    assert [subjects(page) for page in pages] == [[], [], made[:1]]
    declared = QUERIES["events.watch"]
    assert declared.settled is not None
    for page in pages:
        assert declared.settled(msgspec.json.decode(msgspec.json.encode(page.body), type=EventPage))


# ---------------------------------------------------------------------- lost places


def test_a_cursor_behind_the_retained_events_has_expired() -> None:
    driver = Driver(reload_every=64, checked=False)
    space, actor = small_space(driver)
    where = {"space": space, "actor": actor}
    start = driver.ask("events.watch", **where)["nextCursor"]
    for _ in range(events.TRIM):
        driver.do("scopes.create", **where)
    kept = driver.ask("events.list", cursor=start, limit=1000, **where)["events"]
    assert len(kept) == events.TRIM
    driver.do("scopes.create", **where)
    for name in ("events.list", "events.watch"):
        refused = driver.ask(name, cursor=start, **where)
        assert (refused.status, refused.code) == (410, "CURSOR_EXPIRED")
    oldest = driver.ask("events.list", **where)
    assert len(oldest["events"]) == 1
    assert driver.ask("events.list", cursor=kept[-1]["eventId"], **where).body == oldest.body
    assert driver.ask("events.list", cursor=kept[-2]["eventId"], **where).code == "CURSOR_EXPIRED"


def test_a_cursor_that_lost_nothing_stands() -> None:
    driver = Driver(reload_every=64, checked=False)
    space, actor = small_space(driver)
    where = {"space": space, "actor": actor}
    for _ in range(events.TRIM):
        driver.do("scopes.create", **where)
    cursor = driver.ask("events.list", limit=1000, **where)["nextCursor"]
    made = driver.do("scopes.create", **where)["id"]
    assert subjects(driver.ask("events.list", cursor=cursor, **where)) == [made]


def test_events_of_an_idle_space_go_by_age(driver: Driver) -> None:
    space, actor = small_space(driver, 100)
    where = {"space": space, "actor": actor}
    start = driver.ask("events.watch", **where)["nextCursor"]
    driver.do("scopes.create", **where)
    end = driver.ask("events.list", **where)["nextCursor"]
    driver.advance(7 * DAY_MS + 3_600_000)
    driver.settle_due()
    assert driver.ask("events.list", **where)["events"] == []
    assert driver.ask("events.list", cursor=start, **where).code == "CURSOR_EXPIRED"
    assert driver.ask("events.list", cursor=end, **where)["events"] == []


@pytest.mark.parametrize("name", ["events.list", "events.watch"])
@pytest.mark.parametrize("cursor", ["", "x", "0", "evt_", "evt_12", "evt_" + "g" * 20, "evt_" + "0" * 20 + "\n", "é"])
def test_a_cursor_that_no_page_answered(driver: Driver, name: str, cursor: str) -> None:
    refused = driver.ask(name, cursor=cursor)
    assert refused.code == "VALIDATION_FAILED"
    assert "cursor" in refused.message


@pytest.mark.parametrize("name", ["events.list", "events.watch"])
def test_a_cursor_of_a_time_that_has_not_been(driver: Driver, name: str) -> None:
    assert driver.ask(name, cursor="evt_" + "f" * 20).code == "CURSOR_EXPIRED"


# ---------------------------------------------------------------------- permissions, bounds


@pytest.mark.parametrize("name", ["events.list", "events.watch"])
def test_events_need_read(driver: Driver, name: str) -> None:
    assert driver.ask(name, actor=driver.key("worker", "work")).code == "FORBIDDEN"
    assert driver.ask(name, actor=driver.key("reader", "read")).status == 200


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("events.list", {"limit": 0}),
        ("events.list", {"limit": 1001}),
        ("events.list", {"types": "scope.created"}),
        ("events.watch", {"waitSeconds": -1}),
        ("events.watch", {"waitSeconds": 0.5}),
        ("events.watch", {"scopeId": "not an id"}),
        ("events.watch", {"since": "x"}),
    ],
)
def test_bad_input_is_refused(driver: Driver, name: str, arguments: dict[str, Any]) -> None:
    assert driver.ask(name, **arguments).code == "VALIDATION_FAILED"


def test_a_long_wait_is_no_error(driver: Driver) -> None:
    assert driver.ask("events.watch", wait_seconds=10**12).status == 200


# ---------------------------------------------------------------------- no gap, no double


@settings(max_examples=30, deadline=None)
@given(
    steps=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4), st.booleans()), max_size=25),
)
def test_a_reader_in_pieces_sees_every_event_once(steps: list[tuple[int, int, bool]]) -> None:
    """Entries of several events, pages of several sizes, read at any moment: the pieces are the whole."""
    driver = Driver(reload_every=3)
    cursor = driver.ask("events.watch")["nextCursor"]
    seen: list[str] = []
    for count, limit, reads in steps:
        driver.apply([driver.operation("scopes.create") for _ in range(count)])
        if reads:
            page = driver.ask("events.watch", cursor=cursor, limit=limit)
            seen += [event["eventId"] for event in page["events"]]
            cursor = page["nextCursor"]
    rest = driver.ask("events.watch", cursor=cursor, limit=1000)
    seen += [event["eventId"] for event in rest["events"]]
    assert seen == [event["eventId"] for event in driver.ask("events.list", limit=1000)["events"]]
    assert seen == sorted(set(seen))
