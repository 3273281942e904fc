"""The bounds of fields, and times as people and the machine write them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemachine.types import (
    TIME_MS_MAX,
    Id,
    Key,
    LeaseSeconds,
    Limit,
    Name,
    Request,
    Time,
    WaitMs,
    time_ms,
    time_text,
)


class Sample(Request, frozen=True):
    name: Name | None = None
    key: Key | None = None
    id: Id | None = None
    lease_seconds: LeaseSeconds | None = None
    wait_ms: WaitMs | None = None
    limit: Limit | None = None
    at: Time | None = None


def fits(**fields: Any) -> bool:
    try:
        msgspec.json.decode(msgspec.json.encode(fields), type=Sample)
    except msgspec.ValidationError:
        return False
    return True


@pytest.mark.parametrize("field", ["name", "key"])
def test_names_and_keys(field: str) -> None:
    longest = {"name": 256, "key": 512}[field]
    for good in (
        "a",
        "a" * longest,
        "ü" * longest,
        "😀" * longest,
        "a/b:c%+ d",
        "...",
        ".a",
        " ",
        "\n",
        "\x01",
        "..\n",
    ):
        assert fits(**{field: good}), good
    for bad in ("", "a" * (longest + 1), "\0", "a\0b", ".", "..", 7, True, ["a"], {}):
        assert not fits(**{field: bad}), bad


def test_ids() -> None:
    for good in ("scp_0001", "A-z_09", "a" * 64):
        assert fits(id=good), good
    for bad in ("", "a" * 65, "a b", "ä", "a\n", "a/b", "٣", 1):
        assert not fits(id=bad), bad


def test_units_and_seconds_are_integers_in_bounds() -> None:
    for good in (1, 30, 3600):
        assert fits(leaseSeconds=good), good
    for bad in (0, 3601, -1, 1.5, True, "30", 2**70):
        assert not fits(leaseSeconds=bad), bad
    assert fits(waitMs=10**12)
    assert not fits(waitMs=-1)
    assert fits(limit=1000)
    assert not fits(limit=1001)


def test_an_unknown_field_is_refused_by_name() -> None:
    with pytest.raises(msgspec.ValidationError, match="colour"):
        msgspec.json.decode(b'{"colour":1}', type=Sample)


def test_fields_are_in_camel_case_and_only_there_when_given() -> None:
    assert msgspec.json.encode(Sample(lease_seconds=5)) == b'{"leaseSeconds":5}'


def test_times_need_an_offset() -> None:
    for good in ("2026-01-01T00:00:00Z", "2026-01-01T02:00:00.123456+02:00", "0001-01-01T00:00:00Z"):
        assert fits(at=good), good
    for bad in ("2026-01-01T00:00:00", "2026-01-01", "now", 1767225600, "2026-02-30T00:00:00Z"):
        assert not fits(at=bad), bad


def test_a_time_is_written_in_utc_with_milliseconds() -> None:
    assert time_text(0) == "1970-01-01T00:00:00.000Z"
    assert time_text(1_767_225_600_007) == "2026-01-01T00:00:00.007Z"
    assert time_ms(datetime.fromisoformat("2026-01-01T02:00:00.0079+02:00")) == 1_767_225_600_007


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("9999-12-31T23:59:59.999-23:59", TIME_MS_MAX),
        ("9999-12-31T23:59:59.999Z", TIME_MS_MAX),
        ("0001-01-01T00:00:00+23:59", 0),
        ("1969-12-31T23:59:59Z", 0),
    ],
)
def test_a_time_beyond_what_can_be_written_is_the_nearest_one(text: str, expected_ms: int) -> None:
    time = msgspec.json.decode(msgspec.json.encode(text), type=Time)
    assert time_ms(time) == expected_ms
    assert time_ms(datetime.fromisoformat(time_text(expected_ms))) == expected_ms


def test_a_lease_that_ends_after_the_last_year_is_written_as_its_end() -> None:
    assert time_text(TIME_MS_MAX + 3_600_000) == "9999-12-31T23:59:59.999Z"


@given(st.integers(0, TIME_MS_MAX))
def test_a_time_reads_back(wall_ms: int) -> None:
    assert time_ms(datetime.fromisoformat(time_text(wall_ms))) == wall_ms
