"""The notation of the golden scripts: how a line is read, and how an outcome is written.

Ids and tokens are written by the names that the script gave them (`$run`, `$first.token`), others by their kind and the
order of their appearance (`<evt 3>`). Times are written as what has passed since the script began (`T+30s`).
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from typing import Any

from statemachine.types import time_ms, time_text
from tests.statemachine.driver import WALL_START_MS

_SPAN = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d{1,3})?)s)?")
_TOKEN = re.compile(r"\b[a-z]{3}_[0-9a-f]{20}\.\d+\.[0-9a-f]{32}\b")
_ID = re.compile(r"\b([a-z]{3})_[0-9a-f]{20}\b")
_TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_BARE = re.compile(r"[^\s\"'=,{}\[\]]+")


def span_ms(text: str) -> int:
    """Milliseconds of `5s`, `1.5s`, `2h30m`, `7d`."""
    found = _SPAN.fullmatch(text)
    assert found is not None, f"not a span of time: {text!r}"
    days, hours, minutes, seconds = found.groups()
    whole = int(days or 0) * 86_400 + int(hours or 0) * 3_600 + int(minutes or 0) * 60
    return whole * 1_000 + round(float(seconds or 0) * 1_000)


def span_text(ms: int) -> str:
    """A span of time as `span_ms` reads it."""
    days, rest = divmod(ms, 86_400_000)
    seconds = f"{rest // 1_000}.{rest % 1_000:03d}".rstrip("0").rstrip(".")
    return (f"{days}d" if days else "") + (f"{seconds}s" if rest or not days else "")


class Names:
    """What the script calls ids, tokens and whole answers."""

    def __init__(self) -> None:
        self._answers: dict[str, Any] = {}
        self._symbols: dict[str, str] = {}
        self._unnamed: dict[str, int] = {}

    def give(self, name: str, answer: Any) -> None:
        """Call an answer `$name`: its `id` is `$name`, its other ids and tokens are `$name.field`."""
        assert name not in self._answers, f"${name} is given twice"
        self._answers[name] = answer
        if isinstance(answer, str):
            self._symbols[answer] = f"${name}"
            return
        for field, value in (answer or {}).items():
            if isinstance(value, str) and (_TOKEN.fullmatch(value) or _ID.fullmatch(value) or field == "nextCursor"):
                self._symbols.setdefault(value, f"${name}" if field == "id" else f"${name}.{field}")

    def resolve(self, symbol: str) -> Any:
        """What `$name` or `$name.field` stands for."""
        name, *path = symbol.removeprefix("$").split(".")
        assert name in self._answers, f"${name} is not known"
        value = self._answers[name]
        if not path and not isinstance(value, str):
            path = ["id"]
        for field in path:
            value = value[int(field)] if isinstance(value, list) else value[field]
        return value

    def answer(self, name: str) -> Any:
        return self._answers[name.removeprefix("$")]

    def written(self, text: str) -> str:
        """The text with names for ids and tokens, and times as they passed."""
        text = _TOKEN.sub(lambda found: self._symbol(found[0], "token"), text)
        text = _ID.sub(lambda found: self._symbol(found[0], found[1]), text)
        return _TIME.sub(_since_start, text)

    def cursor(self, cursor: str) -> str:
        return self._symbols.get(cursor, "<cursor>")

    def _symbol(self, value: str, kind: str) -> str:
        if value not in self._symbols:
            self._unnamed[kind] = self._unnamed.get(kind, 0) + 1
            self._symbols[value] = f"<{kind} {self._unnamed[kind]}>"
        return self._symbols[value]


def _since_start(found: re.Match[str]) -> str:
    passed_ms = time_ms(datetime.fromisoformat(found[0])) - WALL_START_MS
    return f"T+{span_text(passed_ms)}" if 0 <= passed_ms <= 5_000 * 86_400_000 else found[0]


def arguments(text: str, names: Names) -> dict[str, Any]:
    """The arguments of a line: `key=value`, where a value is `$name`, `T+5s`, JSON, or a bare word.

    `secret:name` is the hash of a key's secret, which `@as=name` uses.
    """
    found: dict[str, Any] = {}
    rest = text.strip()
    while rest:
        field, equals, rest = rest.partition("=")
        assert equals, f"an argument without a value: {field!r}"
        if rest[:1] in ('"', "{", "["):
            value, end = json.JSONDecoder().raw_decode(rest)
            rest = rest[end:]
        else:
            word, _, rest = rest.partition(" ")
            value = _value(word, names)
        found[field] = value
        rest = rest.lstrip()
    return found


def _value(word: str, names: Names) -> Any:
    if word.startswith("$"):
        return names.resolve(word)
    if word.startswith("secret:"):
        return b64encode(sha256(word.removeprefix("secret:").encode()).digest()).decode()
    if word.startswith("T+"):
        return time_text(WALL_START_MS + span_ms(word[2:]))
    if word.startswith("T-"):
        return time_text(WALL_START_MS - span_ms(word[2:]))
    try:
        return json.loads(word)
    except json.JSONDecodeError:
        return word


def fields(body: Mapping[str, Any], names: Names) -> str:
    """`field=value` for each field that is not a list of objects."""
    return " ".join(
        f"{name}={names.cursor(value) if name == 'nextCursor' and value else written(value)}"
        for name, value in body.items()
        if not _rows(value)
    )


def rows(body: Mapping[str, Any], names: Names) -> list[str]:
    """A line for every object of the fields that are lists of objects."""
    return [f"- {fields(row, names)}" for value in body.values() if _rows(value) for row in value]


def _rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def written(value: Any) -> str:
    """A value, bare when it is a plain word."""
    match value:
        case str() if _BARE.fullmatch(value) and value not in ("null", "true", "false") and not value.isdigit():
            return value
        case dict() if value:
            return "{" + " ".join(f"{name}={written(item)}" for name, item in value.items()) + "}"
        case list() if value:
            return "[" + " ".join(map(written, value)) + "]"
        case _:
            return json.dumps(value, ensure_ascii=False)
