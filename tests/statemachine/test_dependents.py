"""The register of what primitives keep in runs and spaces."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from statemachine import dependents
from statemachine.context import Context
from statemachine.store import Store
from tests.statemachine.specimens import Specimen


@pytest.fixture(autouse=True)
def empty_register(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dependents, "IN_SCOPES", {})
    monkeypatch.setattr(dependents, "IN_SPACES", {})


def context(store: Store) -> Context:
    return Context(store, "spc_default", b"", 1, 0, 0, position=0, entropy=b"")


def steps(have: dict[str, int], log: list[tuple[str, int]]) -> Any:
    def step_of(name: str) -> Any:
        def step(_: Context, owner: str, budget: int) -> int:
            taken = min(have[name], budget)
            have[name] -= taken
            log.append((name, taken))
            return taken

        return step

    return step_of


def test_steps_share_the_budget_in_the_order_of_their_names(specimens: SimpleNamespace) -> None:
    have, log = {"b": 3, "a": 4, "c": 2}, []
    step_of = steps(have, log)
    for name in have:
        dependents.of_scope(name, end=step_of(name), remove=step_of(name))
    at = context(Store())
    assert dependents.end_in_scope(at, "scp_1", 5) == 5
    assert log == [("a", 4), ("b", 1)]
    assert dependents.remove_of_scope(at, "scp_1", 5) == 4  # less than asked for: nothing is left
    assert set(have.values()) == {0}


def test_a_primitive_need_not_care_for_endings(specimens: SimpleNamespace) -> None:
    log: list[tuple[str, int]] = []
    dependents.of_scope("a", remove=steps({"a": 1}, log)("a"))
    at = context(Store())
    assert dependents.end_in_scope(at, "scp_1", 5) == 0
    assert log == []
    assert dependents.remove_of_scope(at, "scp_1", 5) == 1


def test_a_name_is_taken_once(specimens: SimpleNamespace) -> None:
    step = steps({}, [])("a")
    dependents.of_scope("a", remove=step)
    dependents.of_space("a", step)
    with pytest.raises(AssertionError):
        dependents.of_scope("a", remove=step)
    with pytest.raises(AssertionError):
        dependents.of_space("a", step)


def test_deleting_a_group_in_order(specimens: SimpleNamespace) -> None:
    store = Store()
    rows = store.rows(specimens.table)
    for number in range(5):
        rows.put(Specimen(id=f"s{number}", group="g" if number else "other", rank=-number))
    step = dependents.deleting(specimens.table, specimens.ranked)
    at = context(store)
    assert step(at, "g", 3) == 3
    assert [row.id for row in rows.ordered(specimens.ranked, "g")] == ["s1"]
    assert step(at, "g", 3) == 1
    assert step(at, "g", 3) == 0
    assert "s0" in rows
