"""The tree of runs: who takes new work now, what follows when a subtree ended, what is forgotten when."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, pairwise
from types import SimpleNamespace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from statemachine import dependents, scopes
from statemachine.context import Context, View
from statemachine.errors import DEADLINE_EXCEEDED, NOT_FOUND, SCOPE_CANCELLED, Refused
from statemachine.scopes import SCOPES, TEARDOWNS
from statemachine.store import Rows
from statemachine.types import time_text
from tests.statemachine.driver import Driver
from tests.statemachine.specimens import Specimen

DAY_MS = 86_400_000


def create(driver: Driver, parent: str | None = None, deadline_ms: int | None = None) -> str:
    arguments = {} if deadline_ms is None else {"deadline": time_text(deadline_ms)}
    if parent is not None:
        arguments["parent_id"] = parent
    return str(driver.do("scopes.create", **arguments)["id"])


def view(driver: Driver) -> View:
    return driver.first.view(driver.space, driver.actor)


def state(driver: Driver, scope_id: str) -> tuple[str, str]:
    answer = driver.ask("scopes.get", scope_id=scope_id)
    return answer["storedState"], answer["effective"]


def refusal(driver: Driver, scope_id: str) -> str:
    """With which code the run refuses new work, "" if it takes some."""
    try:
        scopes.require_active(view(driver), scope_id)
    except Refused as refused:
        return refused.error.code
    return ""


# ---------------------------------------------------------------------- who takes new work


def test_an_active_run_takes_work(driver: Driver) -> None:
    root = create(driver)
    assert refusal(driver, root) == ""
    assert scopes.ended(view(driver), scopes.find(view(driver), root)) is None


def test_an_unknown_run_and_one_of_another_space_are_not_found(driver: Driver) -> None:
    root = create(driver)
    assert refusal(driver, "scp_none") == NOT_FOUND.code
    other = View(driver.first.store, "spc_other", b"", 1, 0, 0)
    with pytest.raises(Refused) as refused:
        scopes.find(other, root)
    assert refused.value.error is NOT_FOUND


@pytest.mark.parametrize("ending", ["cancel", "complete"])
def test_a_subtree_refuses_work_from_the_entry_that_ends_it(driver: Driver, ending: str) -> None:
    root = create(driver)
    child = create(driver, root)
    grandchild = create(driver, child)
    other = create(driver, root)
    driver.do(f"scopes.{ending}", scope_id=child)
    assert refusal(driver, child) == refusal(driver, grandchild) == SCOPE_CANCELLED.code
    assert refusal(driver, root) == refusal(driver, other) == ""


def test_a_later_operation_of_the_same_entry_is_refused(driver: Driver) -> None:
    root = create(driver)
    results = driver.apply(
        [
            driver.operation("scopes.create", parent_id=root),
            driver.operation("scopes.cancel", scope_id=root),
            driver.operation("scopes.create", parent_id=root),
        ]
    )
    assert [result.status for result in results] == [201, 200, 409]
    assert results[2].code == SCOPE_CANCELLED.code


def test_a_deadline_ends_the_subtree(driver: Driver) -> None:
    root = create(driver, deadline_ms=driver.wall_ms + 1000)
    child = create(driver, root)
    driver.apply(advance_ms=999)
    assert refusal(driver, child) == ""
    driver.apply(advance_ms=1)
    assert refusal(driver, root) == refusal(driver, child) == DEADLINE_EXCEEDED.code
    assert state(driver, root) == ("EXPIRED", "EXPIRED")
    assert state(driver, child) == ("ACTIVE", "EXPIRED")


def test_a_deadline_counts_before_the_sweep_came_by(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    root = create(driver, deadline_ms=driver.wall_ms + 1000)
    child = create(driver, root)
    monkeypatch.setattr("statemachine.machine.SWEPT_MAX", 0)
    driver.apply(advance_ms=1000)
    assert state(driver, root) == ("ACTIVE", "EXPIRED")
    assert refusal(driver, child) == DEADLINE_EXCEEDED.code
    assert driver.do("scopes.create", parent_id=child).code == DEADLINE_EXCEEDED.code
    assert driver.do("scopes.complete", scope_id=root)["effective"] == "EXPIRED"
    monkeypatch.undo()
    driver.apply()
    assert state(driver, root) == ("EXPIRED", "EXPIRED")


def test_the_nearest_ended_run_decides(driver: Driver) -> None:
    root = create(driver)
    middle = create(driver, root, deadline_ms=driver.wall_ms + 10)
    leaf = create(driver, middle)
    driver.do("scopes.cancel", scope_id=root)
    assert refusal(driver, leaf) == SCOPE_CANCELLED.code
    driver.apply(advance_ms=10)
    assert refusal(driver, leaf) == DEADLINE_EXCEEDED.code
    assert state(driver, leaf) == ("ACTIVE", "EXPIRED")


def test_lineage(driver: Driver) -> None:
    root = create(driver)
    child = create(driver, root)
    grandchild = create(driver, child)
    other = create(driver)
    seen = view(driver)
    assert scopes.lineage_topics(seen, grandchild) == [("scopes", grandchild), ("scopes", child), ("scopes", root)]
    assert scopes.lineage_topics(seen, "scp_none") == [("scopes", "scp_none")]
    assert scopes.in_subtree(seen, grandchild, root)
    assert scopes.in_subtree(seen, root, root)
    assert not scopes.in_subtree(seen, root, grandchild)
    assert not scopes.in_subtree(seen, other, root)
    assert not scopes.in_subtree(seen, "scp_none", root)


def test_an_ending_wakes_those_who_wait_below(driver: Driver) -> None:
    root = create(driver)
    child = create(driver, root)
    topics = scopes.lineage_topics(view(driver), child)
    driver.do("scopes.cancel", scope_id=root)
    assert set(topics) & set(driver.applied.touched)


# ---------------------------------------------------------------------- generations of forgotten keys


def test_generations_go_on_from_the_highest_one_forgotten(driver: Driver) -> None:
    root = create(driver)
    assert scopes.first_generation(scopes.find(view(driver), root)) == 1
    for generation in (7, 3):
        for machine in (driver.first, driver.second):
            context = Context(machine.store, driver.space, b"", machine.index, 0, 0, position=0, entropy=b"")
            scopes.forget_generation(context, root, generation)
            scopes.forget_generation(context, "scp_none", generation)
            machine.store.settle()
    driver.apply()
    assert scopes.first_generation(scopes.find(view(driver), root)) == 8


# ---------------------------------------------------------------------- what follows


@pytest.fixture
def tended(specimens: SimpleNamespace) -> Iterator[SimpleNamespace]:
    """Specimens that live in runs (their group): an ended run's are marked, a forgotten run's are deleted."""

    def mark(context: Context, scope_id: str, budget: int) -> int:
        rows: Rows[Specimen] = context.rows(specimens.table)
        waiting = [s for s in rows.ordered(specimens.ranked, scope_id) if not s.runs]
        for specimen in islice(waiting, budget):
            rows.put(Specimen(id=specimen.id, group=scope_id, rank=specimen.rank, runs=1))
        return min(len(waiting), budget)

    dependents.of_scope("specimens", end=mark, remove=dependents.deleting(specimens.table, specimens.ranked))
    yield specimens
    del dependents.IN_SCOPES["specimens"]


def fill(driver: Driver, table: object, scope_id: str, count: int) -> list[str]:
    ids = [f"{scope_id}-{number}" for number in range(count)]
    for number, id_ in enumerate(ids):
        driver.write(table, Specimen(id=id_, group=scope_id, rank=number))
    return ids


def marked(driver: Driver, table: object, ids: list[str]) -> list[bool]:
    rows = driver.first.store.rows(table)  # type: ignore[arg-type]
    return [bool(rows[id_].runs) for id_ in ids]


def test_what_waits_in_the_whole_subtree_is_cancelled(tended: SimpleNamespace) -> None:
    driver = Driver()
    root = create(driver)
    tree = [root, *(create(driver, root) for _ in range(3))]
    tree += [create(driver, tree[1]), create(driver, tree[1]), create(driver, tree[3])]
    outside = create(driver)
    ids = [id_ for scope_id in tree for id_ in fill(driver, tended.table, scope_id, 3)]
    kept = fill(driver, tended.table, outside, 3)
    driver.do("scopes.cancel", scope_id=root)
    driver.settle_due()
    assert all(marked(driver, tended.table, ids))
    assert not any(marked(driver, tended.table, kept))
    assert not len(driver.first.store.rows(TEARDOWNS))


def test_it_is_done_in_bounded_steps(tended: SimpleNamespace) -> None:
    driver = Driver(reload_every=7, checked=False)
    root = create(driver)
    tree = [root, *(create(driver, root) for _ in range(20))]
    ids = [id_ for scope_id in tree for id_ in fill(driver, tended.table, scope_id, 60)]
    driver.do("scopes.complete", scope_id=root)
    done = steps = 0
    while done < len(ids):
        driver.apply(advance_ms=1)
        now = sum(marked(driver, tended.table, ids))
        assert 0 < now - done <= scopes.STEP_RECORDS
        done, steps = now, steps + 1
    assert steps == -(-len(ids) // scopes.STEP_RECORDS)
    driver.advance(10)
    driver.settle_due()
    assert not len(driver.first.store.rows(TEARDOWNS))


def test_runs_without_anything_in_them_count_as_well() -> None:
    driver = Driver(reload_every=20, checked=False)
    root = create(driver)
    for _ in range(3):
        driver.apply([driver.operation("scopes.create", parent_id=root) for _ in range(200)])
    driver.do("scopes.cancel", scope_id=root)
    paths = []
    while len(rows := driver.first.store.rows(TEARDOWNS)):
        paths.append(rows[root].path)
        driver.apply(advance_ms=1)
    assert len(paths) == 601 // scopes.STEP_RECORDS + 1
    driver.advance(7 * DAY_MS)
    left = [len(driver.first.store.rows(SCOPES))]
    while left[-1]:
        driver.apply(advance_ms=1)
        left.append(len(driver.first.store.rows(SCOPES)))
    assert [before - after for before, after in pairwise(left)] == [256, 256, 89]


def test_a_child_that_ended_by_itself_is_left_to_its_own_walk(tended: SimpleNamespace) -> None:
    driver = Driver()
    root = create(driver)
    child = create(driver, root)
    below = create(driver, child)
    driver.do("scopes.cancel", scope_id=child)
    driver.settle_due()
    ids = fill(driver, tended.table, below, 2)  # what a primitive left alone the first time
    driver.do("scopes.cancel", scope_id=root)
    driver.settle_due()
    assert not any(marked(driver, tended.table, ids))


def test_a_run_is_forgotten_a_week_after_its_end(tended: SimpleNamespace) -> None:
    driver = Driver(reload_every=7, checked=False)
    root, stays = create(driver), create(driver)
    below = create(driver, create(driver, root))
    for scope_id in (root, below):
        fill(driver, tended.table, scope_id, 400)
    kept = fill(driver, tended.table, stays, 2)
    driver.do("scopes.complete", scope_id=root)
    driver.settle_due()
    driver.apply(advance_ms=7 * DAY_MS - 1)
    assert state(driver, below) == ("ACTIVE", "COMPLETED")
    driver.apply(advance_ms=1)
    rows = driver.first.store.rows(SCOPES)
    for _ in range(800 // scopes.STEP_RECORDS):
        assert root in rows  # in steps, the deepest first
        driver.apply(advance_ms=1)
    assert root not in rows
    assert below not in rows
    assert len(driver.first.store.rows(tended.table)) == len(kept)
    assert state(driver, stays) == ("ACTIVE", "ACTIVE")


def test_a_child_run_is_forgotten_while_its_root_goes_on(driver: Driver) -> None:
    root = create(driver)
    child = create(driver, root)
    create(driver, child)
    driver.do("scopes.cancel", scope_id=child)
    driver.settle_due()
    driver.apply(advance_ms=7 * DAY_MS)
    driver.settle_due()
    assert [row["id"] for row in driver.ask("scopes.list")["scopes"]] == [root]


# ---------------------------------------------------------------------- against a model


class Tree(RuleBasedStateMachine):
    """Runs created, ended and passed by time at random; the model keeps parents and the first reason of each end."""

    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver(reload_every=5)
        self.parents: dict[str, str | None] = {}
        self.deadlines: dict[str, int | None] = {}
        self.ends: dict[str, str] = {}

    def effective(self, scope_id: str) -> str:
        at: str | None = scope_id
        while at is not None:
            deadline = self.deadlines[at]
            if at in self.ends:
                return self.ends[at]
            if deadline is not None and deadline <= self.driver.first.wall_now_ms:
                return "EXPIRED"
            at = self.parents[at]
        return "ACTIVE"

    @rule(number=st.integers(0, 40), deadline_ms=st.none() | st.integers(0, 500))
    def add(self, number: int, deadline_ms: int | None) -> None:
        ids = [None, *self.parents]
        parent = ids[number % len(ids)]
        deadline = None if deadline_ms is None else self.driver.wall_ms + deadline_ms
        arguments = {} if deadline is None else {"deadline": time_text(deadline)}
        result = self.driver.do("scopes.create", parent_id=parent, **arguments)
        state = "ACTIVE" if parent is None else self.effective(parent)
        expected = {"ACTIVE": "", "EXPIRED": "DEADLINE_EXCEEDED"}.get(state, "SCOPE_CANCELLED")
        assert result.code == expected
        if not result.code:
            self.parents[result["id"]], self.deadlines[result["id"]] = parent, deadline

    @rule(number=st.integers(0, 40), ending=st.sampled_from(["cancel", "complete"]))
    def end(self, number: int, ending: str) -> None:
        if not self.parents:
            return
        scope_id = list(self.parents)[number % len(self.parents)]
        before = self.effective(scope_id)
        result = self.driver.do(f"scopes.{ending}", scope_id=scope_id)
        if self.effective(scope_id) == before == "ACTIVE":
            self.ends[scope_id] = {"cancel": "CANCELLED", "complete": "COMPLETED"}[ending]
        assert result["effective"] == self.effective(scope_id)

    @rule(ms=st.integers(0, 400))
    def wait(self, ms: int) -> None:
        self.driver.apply(advance_ms=ms)
        self.driver.settle_due()

    @invariant()
    def everyone_agrees(self) -> None:
        for scope_id in self.parents:
            answer = self.driver.ask("scopes.get", scope_id=scope_id)
            assert answer["effective"] == self.effective(scope_id)
            assert answer["storedState"] in ("ACTIVE", "EXPIRED", self.ends.get(scope_id))


TestTree = Tree.TestCase
TestTree.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
