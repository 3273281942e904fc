"""Frames: cut from any chunks, bounded, and nothing but frames."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.framing import (
    LENGTH_BYTES,
    MAX_FRAME_BYTES,
    STILL_HERE,
    FrameReader,
    FramingError,
    decode_body,
    encode_frame,
)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.binary(max_size=40) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
    max_leaves=20,
)


@given(st.lists(VALUES, max_size=8), st.lists(st.integers(1, 60), min_size=1))
def test_frames_come_back_whatever_the_chunks(values: list[object], sizes: list[int]) -> None:
    stream = b"".join(map(encode_frame, values))
    reader = FrameReader(MAX_FRAME_BYTES)
    frames: list[object] = []
    position = turn = 0
    while position < len(stream):
        size = sizes[turn % len(sizes)]
        frames += reader.feed(stream[position : position + size])
        position, turn = position + size, turn + 1
    assert frames == values


def test_a_whole_batch_is_one_read() -> None:
    assert FrameReader(100).feed(encode_frame({"a": b"1"}) * 3 + STILL_HERE) == [{"a": b"1"}] * 3 + [None]


def test_a_frame_over_the_bound_is_refused_by_its_length_alone() -> None:
    reader = FrameReader(1000)
    with pytest.raises(FramingError, match="1001 bytes is announced, at most 1000"):
        reader.feed((1001).to_bytes(LENGTH_BYTES, "big"))
    assert reader.feed(encode_frame(b"x" * 900)) == [b"x" * 900]


def test_the_bound_can_be_raised() -> None:
    reader = FrameReader(10)
    reader.limit_bytes = 2000
    assert reader.feed(encode_frame("x" * 1000)) == ["x" * 1000]


def test_nothing_over_the_bound_is_made() -> None:
    with pytest.raises(FramingError, match="at most 8388608"):
        encode_frame(b"x" * MAX_FRAME_BYTES)
    assert len(encode_frame(b"x" * (MAX_FRAME_BYTES - 5))) == MAX_FRAME_BYTES + 4


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        b"\x80\x00",
        b"\xa1\xff",
        b"\x91" * 5000,
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff\x01",
        b"\xc6\xff\xff\xff\xff",
        b"\x81\x80\x01",
        b"\xd4\xff\x00",
    ],
    ids=repr,
)
def test_what_is_not_msgpack_is_refused(body: bytes) -> None:
    with pytest.raises(FramingError, match="not msgpack"):
        decode_body(body)


@given(st.binary(max_size=200))
def test_garbage_is_frames_or_an_error_and_never_anything_else(data: bytes) -> None:
    with contextlib.suppress(FramingError):
        assert isinstance(FrameReader(1000).feed(data), list)
