"""A rising list is a sorted list, whatever is added and removed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemachine.rising import SLACK, RisingList


def test_values_come_in_order_from_any_place() -> None:
    values = RisingList()
    for value in (3, 5, 4, 9):
        values.add(value)
    assert list(values) == [3, 4, 5, 9]
    assert list(values.islice(2)) == [5, 9]
    assert (values[0], values[3], len(values)) == (3, 9, 4)
    assert [values.bisect_left(value) for value in (1, 4, 6, 10)] == [0, 1, 3, 4]


@pytest.mark.parametrize("gone", [(), (3,), (9,), (3, 4, 5, 9)])
def test_a_value_that_is_not_there_is_not_removed(gone: tuple[int, ...]) -> None:
    values = RisingList()
    for value in (3, 4, 5, 9):
        values.add(value)
    for value in gone:
        values.remove(value)
    for value in (1, 6, 10, *gone):
        with pytest.raises(ValueError, match=str(value)):
            values.remove(value)
    assert list(values) == [value for value in (3, 4, 5, 9) if value not in gone]


def test_places_in_front_are_given_back() -> None:
    values = RisingList()
    for value in range(20 * SLACK):
        values.add(value)
        if value >= SLACK:
            values.remove(value - SLACK)
        assert len(values._values) <= 2 * SLACK + 2
    assert list(values) == list(range(19 * SLACK, 20 * SLACK))


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 12)), max_size=60))
def test_equals_a_sorted_list(steps: list[tuple[bool, int]]) -> None:
    values, expected = RisingList(), set[int]()
    for add, value in steps:
        if add and value not in expected:
            values.add(value)
            expected.add(value)
        elif not add and value in expected:
            values.remove(value)
            expected.remove(value)
        assert list(values) == sorted(expected)
        assert len(values) == len(expected)
        assert values.bisect_left(value) == len([one for one in expected if one < value])
