"""Due items come up in one total order, whatever the order and the number of the changes that made them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from statemachine.due import DueItems


def drain(items: DueItems) -> list[tuple[int, str, str]]:
    drained = []
    while (item := items.first()) is not None:
        drained.append(item)
        items.set(item[1], item[2], None)
    return drained


def test_oldest_first_then_by_kind_and_key() -> None:
    items = DueItems()
    items.set("b", "1", 5)
    items.set("a", "2", 5)
    items.set("a", "1", 5)
    items.set("z", "0", 4)
    assert drain(items) == [(4, "z", "0"), (5, "a", "1"), (5, "a", "2"), (5, "b", "1")]


def test_first_leaves_the_item_in_place() -> None:
    items = DueItems()
    items.set("a", "1", 5)
    assert items.first() == items.first() == (5, "a", "1")
    assert len(items) == 1


def test_a_moved_item_comes_up_at_its_new_time_only() -> None:
    items = DueItems()
    items.set("a", "1", 5)
    items.set("a", "1", 9)
    items.set("a", "2", 7)
    assert drain(items) == [(7, "a", "2"), (9, "a", "1")]


def test_an_item_moved_away_and_back_comes_up_once() -> None:
    items = DueItems()
    for at_ms in (5, 9, 5):
        items.set("a", "1", at_ms)
    assert drain(items) == [(5, "a", "1")]
    assert len(items) == 0


def test_none_removes_an_item_also_one_that_is_not_there() -> None:
    items = DueItems()
    items.set("a", "1", None)
    items.set("a", "1", 3)
    items.set("a", "1", None)
    assert items.first() is None


def test_dead_items_do_not_pile_up() -> None:
    items = DueItems()
    for at_ms in range(10_000):
        items.set("a", "1", at_ms)
    assert len(items._heap) < 200
    assert drain(items) == [(9_999, "a", "1")]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("1234"), st.none() | st.integers(0, 6))))
def test_equals_a_sorted_dict(changes: list[tuple[str, str, int | None]]) -> None:
    items, model = DueItems(), dict[tuple[str, str], int]()
    for kind, key, at_ms in changes:
        items.set(kind, key, at_ms)
        model.pop((kind, key), None)
        if at_ms is not None:
            model[(kind, key)] = at_ms
        expected = min(((at, *name) for name, at in model.items()), default=None)
        assert items.first() == expected
    assert drain(items) == sorted((at, *name) for name, at in model.items())
