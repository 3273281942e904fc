"""What a field must be, in words, and a validation error of msgspec as one sentence that names field and bound.

The words are made from the declared types, once a request, so that a message cannot differ from what is checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import inspect

from statemachine import types

_AT = re.compile(r"(.*?)(?: - at `\$\.?(.*)`)?", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`", re.DOTALL)
_SHOWN_MAX = 100  # characters of a caller's own text in a message


def _pattern(alias: Any) -> str:
    (meta,) = [meta for meta in alias.__metadata__ if meta.pattern is not None]
    return str(meta.pattern)


_PATTERNS = {
    _pattern(types.Key): 'without U+0000 and other than "." and ".."',
    _pattern(types.Id): "of A-Z, a-z, 0-9, _ and -",
}


def bounds(request: type[Any]) -> dict[str, str]:
    """Each field by its name on the wire, nested ones as `outer.inner` and `list[].inner`, with what it must be."""
    info = inspect.type_info(request)
    assert isinstance(info, inspect.StructType)
    return dict(_fields(info, ""))


def sentence(message: str, bounds: Mapping[str, str], whole: str = "body") -> str:
    """The message of a msgspec.ValidationError, for a person. whole: what holds the fields, to name when none is."""
    match = _AT.fullmatch(message)
    assert match is not None
    reason, path = match[1], match[2] or ""
    for pattern, text in ((_UNKNOWN, "unknown field"), (_MISSING, "required")):
        if (named := pattern.fullmatch(reason)) is not None:
            name = f"{path}.{named[1]}" if path else named[1]
            return f"{name[:_SHOWN_MAX]}: {text}"
    if not path:
        return f"{whole}: must be a JSON object" if reason.startswith("Expected `object`") else f"{whole}: {reason}"
    must = bounds.get(re.sub(r"\[\d+\]", "[]", path))
    return f"{path}: must be {must}" if must else f"{path}: {reason[:_SHOWN_MAX]}"


def _fields(info: inspect.StructType, prefix: str) -> Iterator[tuple[str, str]]:
    for field in info.fields:
        yield from _walk(field.type, prefix + field.encode_name)


def _walk(type_: inspect.Type, name: str) -> Iterator[tuple[str, str]]:
    yield name, _words(type_)
    for inner in type_.types if isinstance(type_, inspect.UnionType) else (type_,):
        match inner:
            case inspect.StructType():
                yield from _fields(inner, name + ".")
            case inspect.ListType() | inspect.VarTupleType() | inspect.SetType():
                yield from _walk(inner.item_type, name + "[]")
            case _:
                pass


def _words(type_: inspect.Type) -> str:
    match type_:
        case inspect.UnionType(types=inner):
            kept = [one for one in inner if not isinstance(one, inspect.NoneType)]
            return " or ".join(_words(one) for one in kept)
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType():
            return "an integer" + _range(type_.ge, type_.le, "")
        case inspect.StrType():
            words = "a string" + _range(type_.min_length, type_.max_length, " characters")
            return words if type_.pattern is None else f"{words} {_PATTERNS.get(type_.pattern, 'of the right form')}"
        case inspect.DateTimeType():
            return "an RFC 3339 time with an offset or Z, such as 2026-01-31T12:00:00Z"
        case inspect.EnumType(cls=cls):
            return "one of " + ", ".join(str(member.value) for member in cls)
        case inspect.LiteralType(values=values):
            return "one of " + ", ".join(sorted(str(value) for value in values))
        case inspect.ListType() | inspect.VarTupleType():
            words = "a list" + _range(type_.min_length, type_.max_length, " items")
            return f"{words}, each {_words(type_.item_type)}"
        case inspect.StructType() | inspect.DictType():
            return "a JSON object"
        case inspect.RawType() | inspect.AnyType():
            return "any JSON value"
        case _:
            return type(type_).__name__.removesuffix("Type").lower()


def _range(low: int | None, high: int | None, unit: str) -> str:
    if low is not None and high is not None:
        return f" {'of' if unit else 'from'} {low} to {high}{unit}"
    if high is not None:
        return f" of at most {high}{unit}"
    if low is None:
        return ""
    return " that is not empty" if unit and low == 1 else f" of at least {low}{unit}"
