"""Bounds in words, and errors of msgspec as sentences."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

import msgspec
import pytest
from msgspec import Meta, Raw

from api.phrases import bounds, sentence
from statemachine import registry
from statemachine.declare import OPERATIONS, QUERIES
from statemachine.types import Id, Key, LeaseSeconds, Limit, Payload, Request, Text, Time, Token, WaitMs

assert registry.PRIMITIVES


class Color(StrEnum):
    RED = "red"
    BLUE = "blue"


class Inner(Request, frozen=True):
    deep_count: Annotated[int, Meta(ge=1, le=3)]


class Sample(Request, frozen=True):
    key: Key
    scope_id: Id
    lease_seconds: LeaseSeconds | None = None
    wait_ms: WaitMs = 0
    limit: Limit = 1
    note: Text = ""
    token: Token = "t"
    at: Time | None = None
    flag: bool = False
    color: Color = Color.RED
    mode: Literal["WORK", "INBOX"] = "WORK"
    inner: Inner | None = None
    many: Annotated[list[Inner], Meta(min_length=1, max_length=4)] | None = None
    anything: Payload = Raw(b"null")
    table: dict[str, int] | None = None


def test_bounds_are_those_of_the_types() -> None:
    time = "an RFC 3339 time with an offset or Z, such as 2026-01-31T12:00:00Z"
    assert bounds(Sample) == {
        "key": 'a string of 1 to 512 characters without U+0000 and other than "." and ".."',
        "scopeId": "a string of 1 to 64 characters of A-Z, a-z, 0-9, _ and -",
        "leaseSeconds": "an integer from 1 to 3600",
        "waitMs": "an integer of at least 0",
        "limit": "an integer from 1 to 1000",
        "note": "a string of at most 4096 characters",
        "token": "a string of 1 to 256 characters",
        "at": time,
        "flag": "true or false",
        "color": "one of red, blue",
        "mode": "one of INBOX, WORK",
        "inner": "a JSON object",
        "inner.deepCount": "an integer from 1 to 3",
        "many": "a list of 1 to 4 items, each a JSON object",
        "many[]": "a JSON object",
        "many[].deepCount": "an integer from 1 to 3",
        "anything": "any JSON value",
        "table": "a JSON object",
    }


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"scopeId":"s"}', "key: required"),
        (b'{"key":"k","scopeId":"s","extra":1}', "extra: unknown field"),
        (b'{"key":"k","scopeId":"s","inner":{"extra":1}}', "inner.extra: unknown field"),
        (b'{"key":"k","scopeId":"s","inner":{}}', "inner.deepCount: required"),
        (b'{"key":"k","scopeId":"s","inner":{"deepCount":4}}', "inner.deepCount: must be an integer from 1 to 3"),
        (
            b'{"key":"k","scopeId":"s","many":[{"deepCount":1},{"deepCount":true}]}',
            "many[1].deepCount: must be an integer from 1 to 3",
        ),
        (b'{"key":"k","scopeId":"s","mode":"work"}', "mode: must be one of INBOX, WORK"),
        (b'{"key":"k","scopeId":"s","table":{"a":"b"}}', "table[...]: Expected `int`, got `str`"),
        (b"[]", "body: must be a JSON object"),
        (b"null", "body: must be a JSON object"),
        (b'{"key":"k","scopeId":"s","' + b"x" * 300 + b'":1}', "x" * 100 + ": unknown field"),
    ],
)
def test_a_sentence_names_the_field_and_its_bound(body: bytes, message: str) -> None:
    with pytest.raises(msgspec.ValidationError) as error:
        msgspec.json.decode(body, type=Sample)
    assert sentence(str(error.value), bounds(Sample)) == message


@pytest.mark.parametrize("declared", [*OPERATIONS.values(), *QUERIES.values()], ids=lambda d: d.name)
def test_every_bound_of_every_request_has_words(declared: object) -> None:
    for name, words in bounds(declared.request).items():  # type: ignore[attr-defined]
        assert "of the right form" not in words, (name, "a pattern without words")
