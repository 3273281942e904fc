"""Requests made from declarations: one that fits, and every way in which one field of it can fail to.

Nothing here knows an operation by name, so a primitive that is declared tomorrow is tested tomorrow.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import inspect

from api.router import PREFIXES, fields_of
from api.shapes import WAITS
from statemachine.declare import Operation, Query

TIME = "2030-01-31T12:00:00Z"


@dataclass(frozen=True)
class Bad:
    """A request that must be refused. field: that the message has to name. why: for the report."""

    why: str
    field: str
    path: str
    body: bytes | None


@dataclass(frozen=True)
class Field:
    name: str
    type: inspect.Type
    required: bool

    @property
    def plain(self) -> inspect.Type:
        """The type without null and absence."""
        if not isinstance(self.type, inspect.UnionType):
            return self.type
        kept = [one for one in self.type.types if not isinstance(one, inspect.NoneType)]
        return kept[0] if len(kept) == 1 else inspect.UnionType(tuple(kept))

    @property
    def attribute(self) -> str:
        return "".join(f"_{character.lower()}" if character.isupper() else character for character in self.name)


def fields(declared: Operation | Query) -> list[Field]:
    """All that a caller may send."""
    info = inspect.type_info(declared.request)
    assert isinstance(info, inspect.StructType)
    fronted = declared.front_fields if isinstance(declared, Operation) else ()
    return [Field(f.encode_name, f.type, f.required) for f in info.fields if f.name not in fronted]


def example(type_: inspect.Type) -> Any:
    """A value that fits."""
    match type_:
        case inspect.BoolType():
            return True
        case inspect.IntType():
            return 1 if type_.ge is None else type_.ge
        case inspect.StrType():
            return "x" * max(1, type_.min_length or 0)
        case inspect.DateTimeType():
            return TIME
        case inspect.EnumType(cls=cls):
            return next(iter(cls)).value
        case inspect.LiteralType(values=values):
            return values[0]
        case inspect.StructType():
            return {field.encode_name: example(field.type) for field in type_.fields if field.required}
        case inspect.ListType() | inspect.VarTupleType():
            return [example(type_.item_type)] * max(1, type_.min_length or 0)
        case inspect.DictType() | inspect.RawType():
            return {}
        case inspect.UnionType(types=types):
            return example(next(one for one in types if not isinstance(one, inspect.NoneType)))
    raise AssertionError(type_)


class Specimen:
    """Requests of one declaration. scope: its path in front of the template's, with the space filled in."""

    def __init__(self, declared: Operation | Query, space: str) -> None:
        self.declared = declared
        self.prefix = PREFIXES[declared.access].replace("{spaceId}", space)
        self.fields = fields(declared)
        self.in_path = fields_of(declared.path)
        self.takes_body = declared.method != "GET"

    def path(self, **values: str) -> str:
        path = self.prefix + self.declared.path
        for name in self.in_path:
            path = path.replace(f"{{{name}}}", values.get(name, "x"))
        return path

    def given(self, name: str, value: Any, why: str, field: str = "") -> Bad:
        """The request that fits, with one field replaced."""
        if self.takes_body:
            body = json.dumps({**self.fitting(), name: value}, ensure_ascii=False).encode("utf-8", "surrogatepass")
            return Bad(f"{name} {why}", field or name, self.path(), body)
        return Bad(f"{name} {why}", field or name, f"{self.path()}?{self.query({name: value})}", None)

    def fitting(self) -> dict[str, Any]:
        """What the body (or the query) of a request that fits must have."""
        return {f.name: example(f.plain) for f in self.fields if f.required and f.name not in self.in_path}

    def query(self, changed: dict[str, Any]) -> str:
        values = {**self.fitting(), **changed}
        return "&".join(f"{name}={_encoded(value)}" for name, value in values.items())

    def all_bad(self) -> Iterator[Bad]:
        """Every way in which the request can fail to fit."""
        for field in self.fields:
            if field.name in self.in_path:
                yield from self._bad_in_path(field)
                continue
            for value, why in bad_values(field, in_query=not self.takes_body):
                yield self.given(field.name, value, why)
            if self.takes_body:
                yield from self._bad_inside(field)
            else:
                yield self._twice(field)
            if field.required and not isinstance(field.plain, inspect.RawType):
                yield self._without(field)
        yield self.given("noSuchField", 1, "is unknown", "noSuchField")
        yield self.given("holder_session", "x", "is spelled as in Python", "holder_session")
        if self.takes_body:
            yield from self._bad_bodies()
            yield Bad("a body of braces", "a", self.path(), b'{"a":' * 100_000)
            yield Bad("a query", "q", self.path() + "?q=1", json.dumps(self.fitting()).encode())

    def _bad_in_path(self, field: Field) -> Iterator[Bad]:
        type_ = field.plain
        assert isinstance(type_, inspect.StrType)
        body = json.dumps(self.fitting()).encode() if self.takes_body else None
        query = "" if self.takes_body or not self.fitting() else "?" + self.query({})
        too_long = "x" * ((type_.max_length or 0) + 1)
        for value, why in ((too_long, "is too long"), ("", "is empty"), ("%00", "is U+0000"), (".", "is a dot")):
            yield Bad(f"{field.name} {why}", field.name, self.path(**{field.name: value}) + query, body)
        for value in ("%", "%zz", "%ff", "%ed%a0%80"):
            yield Bad(f"{field.name} is {value}", "path", self.path(**{field.name: value}) + query, body)
        if self.takes_body:
            yield self.given(field.name, "x", "stands in the body as well")

    def _bad_inside(self, field: Field) -> Iterator[Bad]:
        """Fields of an object within the request."""
        inner = field.plain
        if not isinstance(inner, inspect.StructType):
            return
        fitting = example(inner)
        yield self.given(field.name, {**fitting, "noSuchField": 1}, "has an unknown field", f"{field.name}.noSuchField")
        for nested in inner.fields:
            one = Field(nested.encode_name, nested.type, nested.required)
            for value, why in bad_values(one, in_query=False):
                yield self.given(
                    field.name, {**fitting, one.name: value}, f".{one.name} {why}", f"{field.name}.{one.name}"
                )

    def _twice(self, field: Field) -> Bad:
        value = _encoded(example(field.plain))
        return Bad(
            f"{field.name} comes twice",
            field.name,
            f"{self.path()}?{self.query({field.name: example(field.plain)})}&{field.name}={value}",
            None,
        )

    def _without(self, field: Field) -> Bad:
        left = {name: value for name, value in self.fitting().items() if name != field.name}
        if self.takes_body:
            return Bad(f"{field.name} is missing", field.name, self.path(), json.dumps(left).encode())
        query = "&".join(f"{name}={_encoded(value)}" for name, value in left.items())
        return Bad(f"{field.name} is missing", field.name, f"{self.path()}?{query}", None)

    def _bad_bodies(self) -> Iterator[Bad]:
        fitting = json.dumps(self.fitting()).encode()
        for body, why in (
            (b"[]", "a list"),
            (b"null", "null"),
            (b'"x"', "a text"),
            (b"1", "a number"),
            (fitting[:-1], "cut off"),
            (fitting + b"x", "followed by something"),
            (b"\xef\xbb\xbf" + fitting, "with a byte order mark"),
            (fitting.decode().encode("utf-16"), "UTF-16"),
            (b"\xff\xfe", "no UTF-8"),
            (b"[" * 100_000, "of brackets"),
            (fitting[:-1] + b" " * (1 << 20) + b"}", "too long"),
        ):
            yield Bad(f"a body {why}", "body", self.path(), body)


def bad_values(field: Field, *, in_query: bool) -> Sequence[tuple[Any, str]]:
    """Values that a field must refuse, each with why."""
    type_ = field.plain
    if isinstance(type_, inspect.RawType):
        return _bad_payloads()
    bad: list[tuple[Any, str]] = []
    if not in_query:
        bad += [(value, f"is {value!r}") for value in _of_other_types(type_)]
        if field.required:
            bad.append((None, "is null"))
    match type_:
        case inspect.IntType():
            if type_.ge is not None:
                bad.append((type_.ge - 1, "is below its bound"))
            if type_.le is not None and field.attribute not in WAITS:
                bad += [(type_.le + 1, "is above its bound"), (10**30, "is far above its bound")]
            if in_query:
                bad += [(text, f"is {text!r}") for text in ("1.0", "1e1", "x", "", " 1", "+1", "true", "null")]
        case inspect.StrType():
            if type_.min_length:
                bad.append(("", "is empty"))
            if type_.max_length is not None:
                bad += [(one * (type_.max_length + 1), "is too long") for one in ("x" if in_query else "x🐌")]
            if type_.pattern is not None:
                bad += [(value, f"is {value!r}") for value in (".", "..", "a\0b", "\0")]
            if not in_query:
                bad.append(("\ud800", "is half a surrogate pair"))
        case inspect.DateTimeType():
            texts = ("", "x", "2026-01-01", "2026-01-01T00:00:00", "2026-13-01T00:00:00Z", "1767225600", "now")
            bad += [(text, f"is {text!r}") for text in texts]
        case inspect.EnumType() | inspect.LiteralType():
            bad += [("", "is empty"), ("no-such-choice", "is no choice")]
        case inspect.ListType() | inspect.VarTupleType():
            if type_.min_length:
                bad.append(([], "is empty"))
            if type_.max_length is not None:
                bad.append(([example(type_.item_type)] * (type_.max_length + 1), "is too long"))
        case inspect.BoolType():
            if in_query:
                bad += [(text, f"is {text!r}") for text in ("1", "yes", "True", "")]
    return bad


def _of_other_types(type_: inspect.Type) -> list[Any]:
    fits: dict[type[inspect.Type], tuple[type, ...]] = {
        inspect.BoolType: (bool,),
        inspect.IntType: (int,),
        inspect.ListType: (list,),
        inspect.VarTupleType: (list,),
        inspect.StructType: (dict,),
        inspect.DictType: (dict,),
    }
    allowed = fits.get(type(type_), (str,))
    return [value for value in (True, 1, 1.5, 1.0, "x", [], {}) if type(value) not in allowed]


def _bad_payloads() -> Sequence[tuple[Any, str]]:
    deep: Any = 1
    for _ in range(65):
        deep = [deep]
    return [
        ("x" * 65_535, "is 65,537 bytes"),
        ("é" * 32_768, "is 65,538 bytes"),
        (deep, "is 65 deep"),
        (float("nan"), "is NaN"),
        (float("inf"), "is Infinity"),
        ({"a": [float("-inf")]}, "has -Infinity"),
        ({"a": "\udc00"}, "has half a surrogate pair"),
        ({"\ud800": 1}, "has half a surrogate pair as a name"),
    ]


def _encoded(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return "".join(f"%{byte:02X}" for byte in text.encode("utf-8", "surrogatepass"))
