"""What a caller is told about a body that is no JSON."""

from __future__ import annotations

import msgspec
import pytest

from api.damage import explain


def reason(body: bytes) -> str:
    with pytest.raises((msgspec.DecodeError, RecursionError)) as error:
        msgspec.json.decode(body)
    return explain(body, error.value)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"\xef\xbb\xbf{}", "body: begins with a byte order mark; send plain UTF-8"),
        (b'{"a":"\xff"}', "body: is not UTF-8 at byte 6"),
        (b'{"a":"\xed\xa0\x80"}', "body: is not UTF-8 at byte 6"),
        (b'{"name":"\\ud800"}', "name: has half of a surrogate pair, which is no character"),
        (b'{"a":1,"input":{"x":[1,"\\udc00"]}}', "input: has half of a surrogate pair, which is no character"),
        (b'{"\\ud800":1}', "?: has half of a surrogate pair, which is no character"),
        (b'{"result":[NaN]}', "result: has NaN, which is no JSON"),
        (b'{"result":{"a":-Infinity}}', "result: has -Infinity, which is no JSON"),
        (b'{"a":', "body: is not valid JSON: it ends too early"),
        (b'{"a":1,}', "body: is not valid JSON: trailing comma in object (byte 7)"),
        (b"{'a':1}", "body: is not valid JSON: object keys must be strings (byte 1)"),
        (b'{"a":01}', "body: is not valid JSON: invalid number (byte 6)"),
        (b"{} {}", "body: is not valid JSON: trailing characters (byte 4)"),
        (b"[" * 100_000, "body: is nested more than 64 deep"),
    ],
)
def test_the_fault_is_named(body: bytes, message: str) -> None:
    assert reason(body) == message
