"""Addresses as people write them."""

import pytest

from cluster.addresses import format_address, is_loopback, is_wildcard, parse_address


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("127.0.0.1:7070", ("127.0.0.1", 7070)),
        ("node-1.example:1", ("node-1.example", 1)),
        ("[::1]:65535", ("::1", 65535)),
    ],
)
def test_parses_and_formats(text: str, parsed: tuple[str, int]) -> None:
    assert parse_address(text) == parsed
    assert format_address(*parsed) == text


@pytest.mark.parametrize(
    "text",
    ["", "host", "host:", ":7070", "host:0", "host:65536", "host:-1", "host:+1", "host:1_0", "host:٣", "::1:7070"],
)
def test_refuses_what_is_no_address(text: str) -> None:
    assert parse_address(text) is None


@pytest.mark.parametrize("text", ["a b:1", "http://host:1", "user@host:1", "[::1]", "[]:1", "host:7070/"])
def test_refuses_what_is_more_than_an_address(text: str) -> None:
    assert parse_address(text) is None


@pytest.mark.parametrize(
    ("host", "loopback", "wildcard"),
    [
        ("127.0.0.1", True, False),
        ("127.9.9.9", True, False),
        ("::1", True, False),
        ("localhost", True, False),
        ("0.0.0.0", False, True),
        ("::", False, True),
        ("10.0.0.1", False, False),
        ("localhost.example", False, False),
    ],
)
def test_tells_loopback_and_wildcard(host: str, loopback: bool, wildcard: bool) -> None:
    assert (is_loopback(host), is_wildcard(host)) == (loopback, wildcard)
