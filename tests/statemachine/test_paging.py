"""Pages cover a list once and in order, also while it changes, and no made-up cursor does harm."""

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemachine.errors import VALIDATION_FAILED, Refused
from statemachine.paging import EXAMINED_MAX, decode_cursor, encode_cursor, page
from statemachine.store import Store
from tests.statemachine.specimens import Specimen


@pytest.fixture
def rows(specimens: SimpleNamespace) -> Any:
    rows = Store().rows(specimens.table)
    for number in range(10):
        rows.put(Specimen(id=f"s{number}", group="g", rank=number // 3))
    return rows


def ids(found: list[Specimen]) -> str:
    return "".join(row.id[1:] for row in found)


def test_pages_follow_each_other(rows: Any, specimens: SimpleNamespace) -> None:
    pages, cursor = [], None
    while True:
        found, cursor = page(rows, specimens.ranked, "g", 4, cursor)
        pages.append(ids(found))
        if cursor is None:
            break
    assert pages == ["0123", "4567", "89"]


def test_a_last_page_that_is_just_full_has_no_cursor(rows: Any, specimens: SimpleNamespace) -> None:
    found, cursor = page(rows, specimens.ranked, "g", 10, None)
    assert (ids(found), cursor) == ("0123456789", None)


def test_a_cursor_holds_when_its_row_goes_and_others_come(rows: Any, specimens: SimpleNamespace) -> None:
    _, cursor = page(rows, specimens.ranked, "g", 4, None)
    rows.delete("s3")
    rows.put(Specimen(id="s1", group="g", rank=99))
    rows.put(Specimen(id="s0", group="g", rank=-1))
    found, _ = page(rows, specimens.ranked, "g", 100, cursor)
    assert ids(found) == "4567891"


def test_only_matching_rows_are_given(rows: Any, specimens: SimpleNamespace) -> None:
    found, cursor = page(rows, specimens.ranked, "g", 2, None, lambda row: row.rank == 1)
    assert ids(found) == "34"
    found, cursor = page(rows, specimens.ranked, "g", 2, cursor, lambda row: row.rank == 1)
    assert (ids(found), cursor) == ("5", None)


def test_a_page_looks_at_a_bounded_number_of_rows(specimens: SimpleNamespace) -> None:
    rows = Store().rows(specimens.table)
    for number in range(EXAMINED_MAX + 1):
        rows.put(Specimen(id=f"s{number:05}", group="g"))
    found, cursor = page(rows, specimens.ranked, "g", 2, None, lambda row: row.id == f"s{EXAMINED_MAX:05}")
    assert found == []
    assert cursor is not None
    found, cursor = page(rows, specimens.ranked, "g", 2, cursor, lambda row: row.id == f"s{EXAMINED_MAX:05}")
    assert ([row.id for row in found], cursor) == ([f"s{EXAMINED_MAX:05}"], None)


def test_an_empty_group_has_one_empty_page(rows: Any, specimens: SimpleNamespace) -> None:
    assert page(rows, specimens.ranked, "none", 5, None) == ([], None)
    assert page(rows, specimens.ranked, "none", 5, encode_cursor((1, "x"))) == ([], None)


@pytest.mark.parametrize(
    "cursor",
    ["", "x", "ä", "====", "%", encode_cursor(7), encode_cursor("s1"), encode_cursor(("1", "s1")), encode_cursor((1,)),
     encode_cursor((1, 2)), encode_cursor((1, None)), encode_cursor((1.0, "s1")), encode_cursor((True, "s1")),
     encode_cursor({"a": 1}), encode_cursor([[1], "s1"]), encode_cursor((1, "s1", 3)), encode_cursor(b"s1"),
     encode_cursor(None), encode_cursor(msgspec.Raw(b"\x81\x91" * 350 + b"\x01"))],
)  # fmt: skip
def test_a_cursor_that_no_page_gave_is_refused(rows: Any, specimens: SimpleNamespace, cursor: str) -> None:
    with pytest.raises(Refused) as refused:
        page(rows, specimens.ranked, "g", 5, cursor)
    assert refused.value.error is VALIDATION_FAILED


@given(st.text(max_size=40) | st.binary(max_size=20).map(lambda data: encode_cursor(msgspec.Raw(data))))
def test_reading_any_text_as_a_cursor_ends_in_an_answer(cursor: str) -> None:
    with suppress(Refused):
        decode_cursor(cursor)


orders = st.integers(-(2**63), 2**64 - 1) | st.text(max_size=20)


@given(orders | st.tuples(orders, orders))
def test_a_cursor_reads_back(order: Any) -> None:
    assert decode_cursor(encode_cursor(order)) == order
