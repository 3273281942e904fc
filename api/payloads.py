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
_ESCAPES = re.compile(rb'(?:\\["\\bfnrt])++|(?:\\u[0-9a-fA-F]{4})++|\\/')
_ESCAPED_BYTES_MAX = 6  # that an escape takes for each byte it stands for
_SPELLED = {code: f"\\u{code:04x}" for code in range(0x20)} | {
    0x08: "\\b",
    0x09: "\\t",
    0x0A: "\\n",
    0x0C: "\\f",
    0x0D: "\\r",
    0x22: '\\"',
    0x5C: "\\\\",
}


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
    escapes = found.group()
    if escapes == b"\\/":
        return b"/"
    if escapes[1:2] != b"u":
        return escapes
    units = bytes.fromhex(escapes.replace(b"\\u", b"").decode("ascii"))
    return units.decode("utf-16-be").translate(_SPELLED).encode()
