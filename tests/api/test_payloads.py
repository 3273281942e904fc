"""Payloads as compact text: what is kept to the letter, and where the bounds are."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.payloads import compacted, deeper_than
from statemachine.errors import Refused

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def quoted(text: str) -> str:
    return f'"{text}"'


@pytest.mark.parametrize(
    ("text", "compact"),
    [
        ("null", "null"),
        (' { "a" : [ 1 , 2 ] } ', '{"a":[1,2]}'),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        ("1.50e+05", "1.50e+05"),
        ("[-0, -0.0, 1E400, 0.1]", "[-0,-0.0,1E400,0.1]"),
        (r'"a b\tc"', r'"a b\tc"'),
        (r'"\u00e9\u4e2d\/"', '"é中/"'),
        (r'"\ud83d\udc0c"', '"🐌"'),
        (r'"\u0022\u005c\u000a\u001f\u007f"', '"\\"\\\\\\n\\u001f\x7f"'),
        (r'"\\u0041\\/"', r'"\\u0041\\/"'),
        (r'"\\\u0041"', r'"\\A"'),
        ('"[{]}"', '"[{]}"'),
        ('{"a":1,"a":2}', '{"a":1,"a":2}'),
    ],
)
def test_text_is_compact_and_unescaped(text: str, compact: str) -> None:
    assert compacted("payload", text.encode()).decode() == compact


@given(JSON_VALUES)
def test_the_value_stays_and_the_text_is_what_a_client_would_measure(value: object) -> None:
    compact = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    for spelled in (compact, json.dumps(value), json.dumps(value, indent=3)):
        assert compacted("payload", spelled.encode("utf-8", "surrogatepass")) == compact.encode()


def test_the_bound_is_on_the_compact_text() -> None:
    for text in (quoted("x" * 65_534), f"[{' ' * 70_000}{quoted('x' * 65_532)}]", quoted(r"\u00e9" * 32_767)):
        assert len(compacted("payload", text.encode())) == 65_536
    for text in (quoted("x" * 65_535), quoted(r"\u00e9" * 32_768), quoted("é" * 32_768)):
        with pytest.raises(Refused, match="payload: exceeds 65536 bytes"):
            compacted("payload", text.encode())


def test_a_lower_bound_is_named() -> None:
    assert compacted("input", b'"12345678"', 10) == b'"12345678"'
    with pytest.raises(Refused, match="input: exceeds 10 bytes"):
        compacted("input", b'"123456789"', 10)


@pytest.mark.parametrize(("begin", "end"), [("[", "]"), ('{"a":', "}")])
def test_the_bound_on_nesting(begin: str, end: str) -> None:
    def nested(levels: int) -> bytes:
        return (begin * levels + "1" + end * levels).encode()

    assert compacted("result", nested(64)) == nested(64)
    for levels in (65, 500, 3_000):
        with pytest.raises(Refused, match="nested more than 64 deep"):
            compacted("result", nested(levels))


def test_brackets_in_strings_and_side_by_side_are_no_nesting() -> None:
    assert not deeper_than(b'"' + b"[" * 1000 + b'"', 64)
    assert not deeper_than(b"[" + b"[]," * 1000 + b"[]]", 64)
    assert not deeper_than(rb'["\"' + b"[" * 100 + b'"]', 64)
    assert deeper_than(b"[" * 65 + b"]" * 65, 64)
    assert not deeper_than(b"[" * 64 + b"]" * 64, 64)
