"""What is wrong with a body that is no JSON, told as exactly as can be: at best with the name of the field.

Only called for bodies that were refused already, so it may take its time.
"""

from __future__ import annotations

import json
import re
from typing import Any

from api.limits import NESTING

_SURROGATE = re.compile("[\ud800-\udfff]")
_BYTE = re.compile(r".*\(byte (\d+)\)")


class _NotANumber(str):
    """NaN, Infinity or -Infinity, which other libraries write and JSON does not have."""


def explain(body: bytes, error: Exception) -> str:
    """One sentence. error: with which the decoder refused the body."""
    if isinstance(error, RecursionError):
        return f"body: is nested more than {NESTING} deep"
    if body.startswith(b"\xef\xbb\xbf"):
        return "body: begins with a byte order mark; send plain UTF-8"
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as broken:
        return f"body: is not UTF-8 at byte {broken.start}"
    try:
        value = json.loads(text, parse_constant=_NotANumber, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return _unreadable(str(error))
    for name, inner in value.items() if isinstance(value, dict) else ():
        found = _damage(name) or _damage(inner)
        if found:
            return f"{_SURROGATE.sub('?', name)[:100]}: {found}"
    return _unreadable(str(error))


def _unreadable(reason: str) -> str:
    at = _BYTE.fullmatch(reason)
    reason = reason.removeprefix("JSON is malformed: ")
    return f"body: is not valid JSON: {reason}" if at else "body: is not valid JSON: it ends too early"


def _damage(value: Any) -> str:
    match value:
        case _NotANumber():
            return f"has {value}, which is no JSON"
        case str():
            return "has half of a surrogate pair, which is no character" if _SURROGATE.search(value) else ""
        case dict():
            return next((found for pair in value.items() for part in pair if (found := _damage(part))), "")
        case list():
            return next((found for item in value if (found := _damage(item))), "")
    return ""
