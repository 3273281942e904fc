"""How values become bytes on a peer connection: a length of four bytes, then msgpack.

What arrives is data and never code. A frame is bounded before a byte of it is kept, and anything that is not a frame
raises FramingError; the connection it came from is of no further use.
"""

import msgspec

MAX_FRAME_BYTES = 8 << 20
LENGTH_BYTES = 4

# None as a frame says "still here" when there is nothing else to say.
STILL_HERE = b"\x00\x00\x00\x01\xc0"

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


class FramingError(Exception):
    """What came is no frame, or one over the bound."""


def encode_frame(value: object) -> bytes:
    """The bytes of one frame. Raises FramingError when it is over MAX_FRAME_BYTES: whoever made it has no bound."""
    body = _encode(value)
    if len(body) > MAX_FRAME_BYTES:
        raise FramingError(f"a frame of {len(body)} bytes, at most {MAX_FRAME_BYTES} are allowed")
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def decode_body(body: bytes | bytearray | memoryview) -> object:
    """The value of a frame without its length. Raises FramingError."""
    try:
        return _decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise FramingError(f"a frame that is not msgpack: {error}") from None


def body_length(header: bytes | bytearray | memoryview, limit_bytes: int) -> int:
    """The length that the first four bytes of a frame announce. Raises FramingError when it is over the limit."""
    length = int.from_bytes(header, "big")
    if length > limit_bytes:
        raise FramingError(f"a frame of {length} bytes is announced, at most {limit_bytes} are allowed")
    return length


class FrameReader:
    """Cuts a stream of bytes into frames. `limit_bytes` bounds the next ones and may be raised by its owner."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._rest = bytearray()  # the beginning of a frame whose end has not arrived

    def feed(self, data: bytes) -> list[object]:
        """The frames that are complete now. Raises FramingError; what came before it in `data` is lost with it."""
        frames: list[object] = []
        rest = self._rest
        if rest:
            rest += data
            source: bytes | bytearray = rest
        else:
            source = data
        position, end = 0, len(source)
        with memoryview(source) as view:
            while end - position >= LENGTH_BYTES:
                start = position + LENGTH_BYTES
                stop = start + body_length(view[position:start], self.limit_bytes)
                if stop > end:
                    break
                frames.append(decode_body(view[start:stop]))
                position = stop
        if source is data:
            rest += data[position:]
        else:
            del rest[:position]
        return frames
