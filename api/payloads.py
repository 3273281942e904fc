"""Payloads: any JSON value, kept as its text.

The text is made compact and unescaped here, once, so that every node stores and measures the same bytes. Numbers keep
their spelling and strings their characters; nothing is ever parsed into a value, which would lose both.
"""

from __future__ import annotations

import re

import msgspec

from api.limits import NESTING
from statemachine.errors import VALIDATION_FAILED, Refused
from statemachine.types import PAYLOAD_BYTES_MAX

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"')
_ESCAPES = re.compile(rb'(?:\\["\\bfnrt])++|\\u[dD][89abAB]..\\u....|\\u....|\\/')
_ESCAPED_BYTES_MAX = 6  # that an escape takes for each byte it stands for
_SHORT = {0x08: b"\\b", 0x09: b"\\t", 0x0A: b"\\n", 0x0C: b"\\f", 0x0D: b"\\r", 0x22: b'\\"', 0x5C: b"\\\\"}


def compacted(field: str, text: bytes, bytes_max: int = PAYLOAD_BYTES_MAX) -> bytes:
    """The compact, unescaped text of a JSON value that is known to be well-formed.

    field: its name, for the message. bytes_max: of the compact text. Raises VALIDATION_FAILED over that, or when it is
    nested more than 64 deep.
    """
    try:
        compact = msgspec.json.format(text, indent=-1)
    except RecursionError:
        raise Refused(VALIDATION_FAILED, f"{field}: is nested more than {NESTING} deep") from None
    size = len(compact)
    if size <= bytes_max * _ESCAPED_BYTES_MAX and (b"\\u" in compact or b"\\/" in compact):
        compact = _ESCAPES.sub(_unescape, compact)
        size = len(compact)
    if size > bytes_max:
        raise Refused(VALIDATION_FAILED, f"{field}: exceeds {bytes_max} bytes as compact UTF-8")
    if deeper_than(compact, NESTING):
        raise Refused(VALIDATION_FAILED, f"{field}: is nested more than {NESTING} deep")
    return compact


def deeper_than(text: bytes, levels: int) -> bool:
    """Whether arrays and objects of a well-formed JSON text are nested deeper than that."""
    if text.count(b"[") + text.count(b"{") <= levels:
        return False
    depth = 0
    for byte in _STRING.sub(b"", text):
        if byte in b"[{":
            depth += 1
            if depth > levels:
                return True
        elif byte in b"]}":
            depth -= 1
    return False


def _unescape(found: re.Match[bytes]) -> bytes:
    escape = found.group()
    if escape == b"\\/":
        return b"/"
    if escape[1:2] != b"u":
        return escape
    code = int(escape[2:6], 16)
    if len(escape) > 6:
        code = 0x10000 + ((code - 0xD800) << 10) + (int(escape[8:12], 16) - 0xDC00)
    if code in _SHORT:
        return _SHORT[code]
    return b"\\u%04x" % code if code < 0x20 else chr(code).encode()
