"""The one door: whatever goes through it, records and all that is derived from them stay in step."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemachine.store import Due, Store, Table, Tally
from tests.statemachine.specimens import Specimen, declared
from tests.statemachine.state import counted, derived, differences, rebuilt, snapshot


@pytest.fixture
def store(specimens: SimpleNamespace) -> Store:
    return Store()


def fill(store: Store, table: Any) -> None:
    rows = store.rows(table)
    rows.put(Specimen(id="a", alias="first", group="g", rank=2, amount=5, lease_at_ms=10))
    rows.put(Specimen(id="b", group="g", rank=1, amount=7, wall_at_ms=20))
    rows.put(Specimen(id="c", rank=9, amount=100))


def test_reads_what_was_put(store: Store, specimens: SimpleNamespace) -> None:
    fill(store, specimens.table)
    rows = store.rows(specimens.table)
    assert len(rows) == 3
    assert rows["a"].alias == "first"
    assert rows.get("x") is None
    assert "a" in rows
    assert "x" not in rows
    assert rows.find(specimens.alias, "first") is rows["a"]
    assert rows.find(specimens.alias, "second") is None
    assert [row.id for row in rows.ordered(specimens.ranked, "g")] == ["b", "a"]
    assert [row.id for row in rows.ordered(specimens.ranked, "none")] == []
    assert rows.first(specimens.ranked, "g") is rows["b"]
    assert rows.first(specimens.ranked, "none") is None
    assert rows.count(specimens.ranked, "g") == 2
    assert rows.count(specimens.ranked, "g", after=(1, "b")) == 1
    assert rows.count(specimens.ranked, "g", after=(2,)) == 1
    assert rows.count(specimens.ranked, "g", after=(9,)) == 0
    assert rows.count(specimens.ranked, "none", after=(9,)) == 0
    assert rows.tally(specimens.total, "g") == 12
    assert rows.tally(specimens.total, "none") == 0


def test_ordered_goes_on_behind_a_row_that_is_gone(store: Store, specimens: SimpleNamespace) -> None:
    fill(store, specimens.table)
    rows = store.rows(specimens.table)
    assert [row.id for row in rows.ordered(specimens.ranked, "g", after=(1, "b"))] == ["a"]
    rows.delete("b")
    assert [row.id for row in rows.ordered(specimens.ranked, "g", after=(1, "b"))] == ["a"]
    assert [row.id for row in rows.ordered(specimens.ranked, "g", after=(2, "a"))] == []


def test_a_sum_of_nothing_takes_part_like_any_other(store: Store, specimens: SimpleNamespace) -> None:
    rows = store.rows(specimens.table)
    rows.put(Specimen(id="a", group="g", amount=0))
    rows.put(Specimen(id="a", group="g", amount=3))
    assert rows.tally(specimens.total, "g") == 3
    rows.put(Specimen(id="a", group="g", amount=0))
    rows.delete("a")
    assert rows.tally(specimens.total, "g") == 0


@pytest.mark.usefixtures("specimens")
def test_a_tally_counts_records_unless_told_what_to_add_up() -> None:
    by_group: Tally[Specimen] = Tally(group=lambda s: s.group)
    table = Table("counted-specimens", Specimen, key=lambda s: s.id, indexes=(by_group,))
    rows = Store().rows(table)
    for number in range(3):
        rows.put(Specimen(id=f"s{number}", group="g", amount=9))
    assert rows.tally(by_group, "g") == 3


@pytest.mark.usefixtures("specimens")
def test_a_table_and_a_kind_of_due_item_are_declared_once_and_of_a_known_clock() -> None:
    due = Due("specimen.again", "lease", at=lambda _: None, run=lambda _context, _record: None)
    Table("more-specimens", Specimen, key=lambda s: s.id, due=(due,))
    for name, dues in (
        ("specimens", ()),
        ("other-specimens", (due,)),
        ("timeless-specimens", (replace(due, kind="specimen.timeless", clock="moon"),)),
    ):
        with pytest.raises(AssertionError):
            Table(name, Specimen, key=lambda s: s.id, due=dues)


def test_deleting_what_is_not_there_is_a_defect(store: Store, specimens: SimpleNamespace) -> None:
    with pytest.raises(KeyError):
        store.rows(specimens.table).delete("a")
    assert not store.changes


@pytest.mark.parametrize(
    "bad",
    [
        Specimen(id="x", group="g", alias="first", amount=1),  # the alias is taken
        Specimen(id="b", group="g", alias="first", amount=1),
        Specimen(id="x", group="g", alias="new", rank="z", amount=1),  # has no place among ints
        Specimen(id="a", group="g", alias="new", rank="z", amount=1),
        Specimen(id="a", group="g", alias="new", amount="much"),  # type: ignore[arg-type]
        Specimen(id="a", group=[], alias="new"),  # type: ignore[arg-type]
    ],
)
def test_a_change_that_fails_half_way_changes_nothing(store: Store, specimens: SimpleNamespace, bad: Specimen) -> None:
    fill(store, specimens.table)
    before = snapshot(store)
    with pytest.raises((AssertionError, TypeError)):
        store.rows(specimens.table).put(bad)
    assert not differences(before, snapshot(store))
    assert len(store.changes) == 3
    store.undo(0)
    assert not differences(snapshot(Store()), snapshot(store))


def test_undo_takes_back_to_a_mark_newest_first(store: Store, specimens: SimpleNamespace) -> None:
    fill(store, specimens.table)
    rows = store.rows(specimens.table)
    mark, before = len(store.changes), snapshot(store)
    rows.put(Specimen(id="a", group="other", rank=7))
    rows.delete("a")
    rows.put(Specimen(id="a", alias="third"))
    rows.put(Specimen(id="d", alias="first"))
    store.undo(mark)
    assert len(store.changes) == mark
    assert not differences(before, snapshot(store))


def test_settle_names_each_touched_topic_once_in_order(store: Store, specimens: SimpleNamespace) -> None:
    fill(store, specimens.table)
    store.rows(specimens.table).delete("b")
    store.rows(specimens.table).put(Specimen(id="c", rank=1))
    assert store.settle() == [("specimens", "a"), ("specimens", "b"), ("specimens", "c")]
    assert store.settle() == []


def test_sums_of_a_space_follow_its_records(store: Store, specimens: SimpleNamespace) -> None:
    rows = store.rows(specimens.table)
    rows.put(Specimen(id="a", space="one"))
    rows.put(Specimen(id="bb", space="one"))
    assert (store.usage["one"].records, store.usage["one"].bytes) == (2, 23)
    rows.put(Specimen(id="a", space="two"))
    assert counted(store) == {"one": (1, 12), "two": (1, 11)} == derived(store)["usage"]
    rows.delete("a")
    rows.delete("bb")
    assert store.usage == {}


def test_a_dump_does_not_depend_on_the_order_of_arrival(specimens: SimpleNamespace) -> None:
    records = [Specimen(id=f"s{number}", group="g", rank=number % 3) for number in range(20)]
    dumps = []
    for order in (records, records[::-1]):
        store = Store()
        for record in order:
            store.rows(specimens.table).put(record)
        dumps.append(store.dump())
    assert dumps[0] == dumps[1]
    assert [list(table) for table in dumps[0].values()] == [list(table) for table in dumps[1].values()]


def test_a_loaded_store_equals_the_dumped_one(store: Store, specimens: SimpleNamespace) -> None:
    fill(store, specimens.table)
    other = Store()
    other.load(store.dump())
    assert not differences(snapshot(store), snapshot(other))
    assert not other.changes


specimen_records = st.builds(
    Specimen,
    id=st.sampled_from("abcd"),
    space=st.sampled_from(["one", "two"]),
    alias=st.none() | st.sampled_from(["first", "second"]),
    group=st.none() | st.sampled_from("gh"),
    rank=st.integers(0, 3) | st.just("z"),
    amount=st.integers(-2, 2),
    lease_at_ms=st.none() | st.integers(0, 5),
    wall_at_ms=st.none() | st.integers(0, 5),
)


@given(st.lists(specimen_records | st.sampled_from("abcd") | st.sampled_from(["mark", "undo", "settle"]), max_size=40))
def test_anything_through_the_door_keeps_all_in_step(steps: list[Specimen | str]) -> None:
    with declared() as specimens:
        store = Store()
        rows = store.rows(specimens.table)
        mark, kept = 0, snapshot(store)
        for step in steps:
            before = snapshot(store)
            try:
                match step:
                    case Specimen():
                        rows.put(step)
                    case "mark" | "settle":
                        if step == "settle":
                            store.settle()
                        mark, kept = len(store.changes), snapshot(store)
                    case "undo":
                        store.undo(mark)
                        assert not differences(kept, snapshot(store))
                    case _:
                        rows.delete(step)
            except (AssertionError, TypeError, KeyError):
                assert not differences(before, snapshot(store)), step
            assert not differences(derived(store), rebuilt(store))
            assert counted(store) == derived(store)["usage"]
