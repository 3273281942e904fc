"""What goes through the log reads back as it was written, and anything else is refused as a format error."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemachine.entry import (
    FORMAT,
    SYSTEM,
    Entry,
    FormatError,
    decode_entry,
    decode_operation,
    encode_entry,
    encode_operation,
    genesis_entry,
)

origins = st.tuples(st.text(max_size=8), st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1))
times = st.integers(0, 2**62)


@given(times, times, st.binary(max_size=16), st.lists(st.tuples(st.binary(max_size=30), origins), max_size=5))
def test_an_entry_reads_back(
    lease_ms: int, wall_ms: int, entropy: bytes, content: list[tuple[bytes, tuple[str, int, int]]]
) -> None:
    operations = [operation for operation, _ in content]
    made_by = [origin for _, origin in content]
    data = encode_entry(lease_ms, wall_ms, entropy, operations, made_by)
    expected = Entry(FORMAT, lease_ms, wall_ms, entropy, operations, made_by)
    assert decode_entry(data) == decode_entry(memoryview(data)) == expected


@given(
    st.text(max_size=20),
    st.text(max_size=20),
    st.binary(max_size=32),
    times,
    st.none() | st.tuples(st.text(max_size=255), st.binary(max_size=32)),
    st.binary(max_size=100),
)
def test_an_operation_reads_back(
    name: str, space: str, actor: bytes, deadline_ms: int, idempotency: tuple[str, bytes] | None, arguments: bytes
) -> None:
    command = decode_operation(encode_operation(name, space, actor, deadline_ms, idempotency, arguments))
    assert msgspec.structs.astuple(command) == (name, space, actor, deadline_ms, idempotency, arguments)


@given(st.binary(max_size=60))
def test_anything_else_is_a_format_error(data: bytes) -> None:
    for decode in (decode_entry, decode_operation):
        try:
            decode(data)
        except FormatError:
            continue
        assert data[:1] in (b"\x96", b"\xdc", b"\xdd"), data  # an array; only by chance one of the right content


def test_another_format_says_what_to_do() -> None:
    data = msgspec.msgpack.encode([FORMAT + 1, 0, 0, b"", [], []])
    with pytest.raises(FormatError, match=f"format {FORMAT + 1}, this build reads {FORMAT}: start a newer build"):
        decode_entry(data)


def test_one_origin_an_operation() -> None:
    with pytest.raises(AssertionError):
        encode_entry(0, 0, b"", [b"x"], [])


def test_genesis_is_the_same_however_its_members_are_listed() -> None:
    one = genesis_entry("cls_1", {"a": 1, "b": 2}, 5, bytes(16))
    two = genesis_entry("cls_1", {"b": 2, "a": 1}, 5, bytes(16))
    assert one == two
    entry = decode_entry(one)
    assert (entry.lease_now_ms, entry.wall_now_ms) == (0, 5)
    (operation,) = entry.operations
    command = decode_operation(operation)
    assert (command.name, command.actor, command.deadline_ms) == ("cluster.genesis", SYSTEM, 0)
    assert msgspec.json.decode(command.arguments) == {
        "clusterId": "cls_1",
        "members": {"a": 1, "b": 2},
        "featureLevel": 1,
    }
