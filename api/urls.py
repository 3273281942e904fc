"""Request targets: percent-encoded paths and queries to text, strictly.

Every segment is decoded by itself, so that an encoded slash is part of a name. What is not valid UTF-8 or not valid
percent-encoding is refused and never guessed, since two spellings of one key would be two keys.
"""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

from statemachine.errors import VALIDATION_FAILED, Refused

_BROKEN = re.compile(r"%(?![0-9A-Fa-f]{2})")


def split_target(target: str) -> tuple[str, str]:
    """Path and query of a request target; of an absolute one, without scheme and authority."""
    if not target.startswith("/"):
        _, separator, rest = target.partition("://")
        if separator:
            _, slash, path = rest.partition("/")
            target = slash + path
    path, _, query = target.partition("?")
    return path, query


def segments(path: str) -> list[str]:
    """The decoded segments of a path. Raises VALIDATION_FAILED."""
    parts = path.split("/")[1:]
    if "%" in path or not path.isascii():
        return [_decode(part, "path") for part in parts]
    return parts


def parameters(query: str) -> dict[str, str]:
    """The decoded parameters of a query; `+` is a space. Raises VALIDATION_FAILED, also for one that comes twice."""
    found: dict[str, str] = {}
    for pair in query.split("&"):
        if not pair:
            continue
        name, _, value = pair.replace("+", " ").partition("=")
        name = _decode(name, "query")
        if name in found:
            raise Refused(VALIDATION_FAILED, f"{name}: given twice in the query")
        found[name] = _decode(value, name)
    return found


def _decode(text: str, field: str) -> str:
    if _BROKEN.search(text):
        raise Refused(
            VALIDATION_FAILED, f"{field}: has a % that two hexadecimal digits do not follow; write %25 for it"
        )
    try:
        return unquote_to_bytes(text.encode("utf-8", "surrogateescape")).decode("utf-8")
    except UnicodeDecodeError:
        raise Refused(VALIDATION_FAILED, f"{field}: is not UTF-8 once it is percent-decoded") from None
