"""Lines of waiters: order, turns, what is set aside, who leaves when, and what that moves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from statemachine import dependents, idempotency, lines
from statemachine.context import Context
from statemachine.lines import LINE, PASSED_MAX, SIGNALED, WAITERS, WAITING, Waiter
from tests.statemachine.driver import WALL_START_MS, Driver

KIND = "counters"
FIRST, SECOND = "line/1", "line/2"


class Counter:
    """What waits is handed out by a test; counts how often its lines say that somebody moved up."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.store = driver.first.store
        self.scope_id, self.other_scope_id = (driver.do("scopes.create")["id"] for _ in range(2))
        self.moved: list[str] = []
        self.number = 0

    def context(self, lease_now_ms: int = 0, space: str | None = None) -> Context:
        self.number += 1
        space = self.driver.space if space is None else space
        index = self.driver.first.index + self.number
        return Context(
            self.store, space, self.driver.actor, index, lease_now_ms, WALL_START_MS, position=0, entropy=bytes(16)
        )

    def join(self, holder: str, line: str = FIRST, wait_ms: int = 1_000, units: int = 1, now_ms: int = 0) -> Waiter:
        context = self.context(now_ms)
        scope_id = self.scope_id
        return lines.join(
            context, KIND, line, scope_id=scope_id, holder=holder, session="s1", wait_ms=wait_ms, units=units
        )

    def order(self, line: str = FIRST) -> list[str]:
        return [waiter.holder for waiter in self.store.rows(WAITERS).ordered(LINE, (KIND, line))]

    def sweep(self, now_ms: int) -> None:
        """Do what is due, as the machine does."""
        due = self.store.due["lease"]
        while (item := due.first()) is not None and item[0] <= now_ms:
            waiter = self.store.rows(WAITERS)[item[2]]
            lines.leave(self.context(now_ms, waiter.space), waiter)


@pytest.fixture
def counter(driver: Driver) -> Iterator[Counter]:
    counter = Counter(driver)
    lines.declare(KIND, lambda context, line: counter.moved.append(line))
    yield counter
    del lines.KINDS[KIND]
    counter.store.undo(0)


def test_first_come_first_served(counter: Counter) -> None:
    for holder in ("ann", "bob", "cem"):
        counter.join(holder)
    counter.join("dan", SECOND)
    assert counter.order() == ["ann", "bob", "cem"]
    for holder in ("ann", "bob", "cem"):
        waiter = lines.call_up(counter.context(), KIND, FIRST)
        assert waiter is not None
        assert waiter.holder == holder
        lines.serve(counter.context(), waiter)
    assert lines.call_up(counter.context(), KIND, FIRST) is None
    assert counter.order(SECOND) == ["dan"]
    assert counter.moved == []


def test_a_waiter_says_what_it_waits_for(counter: Counter) -> None:
    waiter = counter.join("ann", units=7, wait_ms=500, now_ms=40)
    assert waiter.id.startswith("wtr_")
    assert (waiter.units, waiter.state, waiter.due_ms, waiter.since_ms) == (7, WAITING, 540, WALL_START_MS)
    assert lines.find(counter.context(539), waiter.id) == waiter
    assert lines.topic(waiter.id) == ("waiters", waiter.id)


def test_positions_and_lengths(counter: Counter) -> None:
    waiters = [counter.join(holder) for holder in ("ann", "bob", "cem")]
    other = counter.join("dan", SECOND)
    context = counter.context()
    assert [lines.position(context, waiter) for waiter in waiters] == [1, 2, 3]
    assert (lines.position(context, other), lines.length(context, KIND, FIRST)) == (1, 3)
    lines.leave(context, waiters[1])
    assert [lines.position(context, waiter) for waiter in (waiters[0], waiters[2])] == [1, 2]
    assert lines.length(context, KIND, "nobody's") == 0


def test_a_waiter_stands_until_its_time_is_up_whether_or_not_it_is_swept(counter: Counter) -> None:
    ann, bob = counter.join("ann", wait_ms=100), counter.join("bob", wait_ms=200)
    assert lines.head(counter.context(99), KIND, FIRST) == ann
    assert lines.head(counter.context(100), KIND, FIRST) == bob
    assert lines.find(counter.context(100), ann.id) is None
    assert lines.head(counter.context(200), KIND, FIRST) is None
    assert counter.order() == ["ann", "bob"]  # looking changes nothing
    assert lines.call_up(counter.context(100), KIND, FIRST) == bob
    assert counter.order() == ["bob"]


def test_who_leaves_in_front_moves_the_line_and_nobody_else_does(counter: Counter) -> None:
    ann, bob, cem = [counter.join(holder) for holder in ("ann", "bob", "cem")]
    lines.leave(counter.context(), bob)
    assert counter.moved == []
    lines.leave(counter.context(), ann)
    assert counter.moved == [FIRST]
    lines.give_up(counter.context(), cem)
    assert counter.moved == [FIRST]
    assert counter.order() == []


def test_time_takes_waiters_out_and_moves_the_line(counter: Counter) -> None:
    counter.join("ann", wait_ms=100)
    counter.join("bob", wait_ms=300)
    counter.join("cem", wait_ms=200)
    counter.sweep(99)
    assert counter.order() == ["ann", "bob", "cem"]
    counter.sweep(200)
    assert (counter.order(), counter.moved) == (["bob"], [FIRST])
    counter.sweep(300)
    assert (counter.order(), counter.moved) == ([], [FIRST, FIRST])


def test_what_is_set_aside_passes_on_when_it_is_not_taken(counter: Counter) -> None:
    ann, bob = counter.join("ann", wait_ms=1_000), counter.join("bob", wait_ms=9_000)
    signalled = lines.signal(counter.context(900), ann, 5_000)
    assert (signalled.state, signalled.due_ms) == (SIGNALED, 5_900)  # its patience no longer counts
    assert lines.call_up(counter.context(5_899), KIND, FIRST) == signalled
    counter.sweep(5_899)
    assert counter.moved == []
    counter.sweep(5_900)
    assert (counter.order(), counter.moved) == (["bob"], [FIRST])
    assert lines.call_up(counter.context(5_900), KIND, FIRST) == bob


def test_waiters_of_an_ended_run_stand_in_no_line(counter: Counter) -> None:
    ann = counter.join("ann")
    counter.scope_id = counter.other_scope_id
    bob = counter.join("bob")
    scope = counter.store.rows(lines.scopes.SCOPES)[ann.scope_id]
    lines.scopes.end(counter.context(), scope, "CANCELLED")
    assert lines.head(counter.context(), KIND, FIRST) == bob
    assert lines.find(counter.context(), ann.id) is None
    assert counter.order() == ["ann", "bob"]
    assert dependents.end_in_scope(counter.context(), ann.scope_id, 10) == 1
    assert (counter.order(), counter.moved) == (["bob"], [FIRST])
    assert dependents.end_in_scope(counter.context(), ann.scope_id, 10) == 0


def test_the_end_of_a_run_is_worked_off_in_steps(counter: Counter) -> None:
    for number in range(5):
        counter.join(f"w{number}", f"line/{number}")
    taken = [dependents.end_in_scope(counter.context(), counter.scope_id, 2) for _ in range(4)]
    assert taken == [2, 2, 1, 0]
    assert len(counter.store.rows(WAITERS)) == 0


def test_the_end_of_a_run_moves_only_lines_that_it_was_first_in(counter: Counter) -> None:
    counter.join("here")
    ended, counter.scope_id = counter.scope_id, counter.other_scope_id
    counter.join("gone")
    assert dependents.end_in_scope(counter.context(), counter.scope_id, 9) == 1
    assert (counter.order(), counter.moved) == (["here"], [])
    assert dependents.end_in_scope(counter.context(), ended, 9) == 1
    assert counter.moved == [FIRST]


def test_a_line_is_moved_once_a_step_when_many_leave_it(counter: Counter) -> None:
    for number in range(4):
        counter.join(f"w{number}")
    counter.join("other", SECOND)
    assert dependents.end_in_scope(counter.context(), counter.scope_id, 3) == 3
    assert counter.moved == [FIRST]
    assert dependents.end_in_scope(counter.context(), counter.scope_id, 3) == 2
    assert counter.moved == [FIRST, FIRST, SECOND]


def test_a_waiter_of_another_space_is_not_found(counter: Counter) -> None:
    waiter = counter.join("ann")
    assert lines.find(counter.context(space="spc_other"), waiter.id) is None


def test_many_who_have_gone_hold_nobody_up_for_ever(counter: Counter) -> None:
    for number in range(PASSED_MAX + 10):
        counter.join(f"gone{number}", wait_ms=10)
    last = counter.join("here", wait_ms=99_999)
    # A reader goes past so many and takes the next one for standing, so that nobody overtakes the last one.
    head = lines.head(counter.context(10), KIND, FIRST)
    assert head is not None
    assert head.holder == f"gone{PASSED_MAX}"
    assert lines.call_up(counter.context(10), KIND, FIRST) is None
    assert counter.moved == []
    counter.sweep(10)
    assert counter.moved[-1:] == [FIRST]
    assert lines.call_up(counter.context(10), KIND, FIRST) == last


def test_who_leaves_in_vain_takes_its_idempotency_record_along(counter: Counter) -> None:
    context = counter.context()
    context.keyed = ("key", b"fingerprint")
    left, served = (
        lines.join(context, KIND, FIRST, scope_id=counter.scope_id, holder=holder, session="s1", wait_ms=100)
        for holder in ("ann", "bob")
    )
    for waiter, kept in ((served, True), (left, False)):
        idempotency.keep(context, "key", b"fingerprint", 202, b"{}")
        (lines.serve if kept else lines.leave)(context, waiter)
        assert (idempotency.recall(context, "key", b"fingerprint") is not None) is kept
