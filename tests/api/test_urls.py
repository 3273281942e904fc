"""Request targets and queries, decoded strictly."""

from __future__ import annotations

import pytest

from api.urls import parameters, segments, split_target
from statemachine.errors import VALIDATION_FAILED, Refused


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        ("/a/b", "/a/b", ""),
        ("/a?x=1&y=2", "/a", "x=1&y=2"),
        ("/a?x=?", "/a", "x=?"),
        ("http://host:7070/a/b?x=1", "/a/b", "x=1"),
        ("http://host", "", ""),
        ("*", "*", ""),
        ("/", "/", ""),
    ],
)
def test_targets_are_split(target: str, path: str, query: str) -> None:
    assert split_target(target) == (path, query)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/a/b", ["a", "b"]),
        ("/a/b/", ["a", "b", ""]),
        ("/a%2Fb/c", ["a/b", "c"]),
        ("/a+b/c%2Bd", ["a+b", "c+d"]),
        ("/caf%C3%A9/%F0%9F%90%8C", ["café", "🐌"]),
        ("/%3A%25%2e", [":%."]),
        ("/%00", ["\0"]),
        ("/caf\u00e9", ["café"]),
    ],
)
def test_segments_are_decoded_one_by_one(path: str, expected: list[str]) -> None:
    assert segments(path) == expected


@pytest.mark.parametrize("path", ["/a%", "/%2", "/%zz", "/%ff", "/%ed%a0%80", "/\udcff"])
def test_a_segment_that_is_no_text_is_refused(path: str) -> None:
    with pytest.raises(Refused) as refused:
        segments(path)
    assert refused.value.error is VALIDATION_FAILED
    assert refused.value.message.startswith("path: ")


def test_parameters_are_decoded() -> None:
    assert parameters("a=1&b=x+y%2B%26&c=&d&&e==") == {"a": "1", "b": "x y+&", "c": "", "d": "", "e": "="}
    assert parameters("") == {}


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("a=1&a=1", "a: given twice in the query"),
        ("a=%f", "a: has a % that two hexadecimal digits do not follow; write %25 for it"),
        ("a=%ff", "a: is not UTF-8 once it is percent-decoded"),
        ("%=1", "query: has a % that two hexadecimal digits do not follow; write %25 for it"),
    ],
)
def test_parameters_that_are_no_text_or_double_are_refused(query: str, message: str) -> None:
    with pytest.raises(Refused) as refused:
        parameters(query)
    assert refused.value.message == message
