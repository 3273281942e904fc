"""The types of the door, derived from declared ones."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import pytest
from msgspec import UNSET, Meta, Raw, UnsetType

from api.shapes import base_types, part, payload_paths
from statemachine.types import NULL, Key, LeaseSeconds, Payload, Request, Time


class Result(Request, frozen=True, kw_only=True):
    payload: Payload
    note: str | None = None


class Unit(Request, frozen=True, kw_only=True):
    name: str
    units: int = 1


class Sample(Request, frozen=True, kw_only=True):
    key: Key
    token: str
    lease_seconds: LeaseSeconds | None = None
    count: int = 5
    maybe: int | UnsetType = UNSET
    at: Time | None = None
    result: Result | None = None
    observation: Payload = NULL
    pools: Annotated[list[Unit], Meta(max_length=2)] | None = None


NAMES = ["token", "leaseSeconds", "count", "maybe", "at", "result", "observation", "pools"]


def body(text: str) -> Any:
    return msgspec.json.decode(text, type=part(Sample, NAMES, "Body"))


def test_null_is_absent_for_what_is_optional() -> None:
    decoded = body('{"token":"t","leaseSeconds":null,"count":null,"maybe":null,"at":null,"result":null,"pools":null}')
    assert msgspec.json.encode(decoded) == b'{"token":"t"}'


def test_null_is_absent_inside_as_well() -> None:
    decoded = body('{"token":"t","result":{"payload":1,"note":null},"pools":[{"name":"a","units":null}]}')
    assert msgspec.json.encode(decoded) == b'{"token":"t","result":{"payload":1},"pools":[{"name":"a"}]}'


def test_null_is_a_value_of_a_payload() -> None:
    decoded = body('{"token":"t","result":{"payload":null},"observation":null}')
    assert msgspec.json.encode(decoded) == b'{"token":"t","result":{"payload":null},"observation":null}'


@pytest.mark.parametrize(
    "text",
    [
        '{"token":null}',
        "{}",
        '{"token":"t","key":"k"}',
        '{"token":"t","count":1.0}',
        '{"token":"t","leaseSeconds":0}',
        '{"token":"t","result":{"other":1}}',
        '{"token":"t","pools":[{"units":1}]}',
        '{"token":"t","pools":[null]}',
        '{"token":"t","pools":[{"name":"a"},{"name":"b"},{"name":"c"}]}',
        '{"token":"t","at":"2026-01-01T00:00:00"}',
    ],
)
def test_bounds_stay(text: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        body(text)


def test_payloads_are_found_wherever_they_are() -> None:
    assert payload_paths(part(Sample, NAMES, "Body")) == [("result", "payload"), ("observation",)]
    assert payload_paths(part(Sample, ["token"], "Body")) == []


def test_base_types_look_through_bounds_and_unions() -> None:
    types = {field.name: base_types(field.type) for field in msgspec.structs.fields(Sample)}
    assert types["lease_seconds"] == {int}
    assert types["maybe"] == {int}
    assert types["key"] == {str}
    assert types["observation"] == {Raw}
    assert types["pools"] == {list}


def test_a_strict_part_keeps_defaults_for_schemas() -> None:
    strict = part(Sample, ["count", "token"], "Body", lenient=False)
    fields = {field.name: (field.required, field.default) for field in msgspec.structs.fields(strict)}
    assert fields == {"token": (True, msgspec.NODEFAULT), "count": (False, 5)}
