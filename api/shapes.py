"""The types that requests are decoded into at the door, derived from the declared ones.

They differ in two points of the wire contract. `null` for an optional field means absent, so an optional field may be
`None` here and is left out when the arguments are encoded again. A payload is any JSON value, `null` included, so its
field is absent only when the caller left it out, and then stands for `null`.
"""

from __future__ import annotations

import types
from collections.abc import Collection, Iterator
from functools import reduce
from operator import or_
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import FieldInfo

from statemachine.types import PAYLOAD_FIELDS, WAIT_MS_MAX

Path = tuple[str, ...]
WAITS = {"wait_ms": WAIT_MS_MAX, "wait_seconds": WAIT_MS_MAX // 1000}  # clamped, never refused

_lenient: dict[type[Any], type[Any]] = {}


def part(request: type[Any], names: Collection[str], title: str, *, lenient: bool = True) -> type[msgspec.Struct]:
    """A struct of some of a request's fields, chosen by their names on the wire.

    title: its name in schemas. lenient: optional fields may be null. Not frozen, unknown fields are refused.
    """
    chosen = [field for field in msgspec.structs.fields(request) if field.encode_name in names]
    return _struct(title, chosen, lenient)


def payload_paths(struct: type[Any]) -> list[Path]:
    """Where the payloads of a struct made by `part` are, as attribute names."""
    return list(_payloads(struct, ()))


def base_types(declared: Any) -> set[Any]:
    """The plain types that a field's type admits, without bounds and null."""
    origin = get_origin(declared)
    if origin is Annotated:
        return base_types(get_args(declared)[0])
    if origin in (Union, types.UnionType):
        return {base for one in get_args(declared) for base in base_types(one)} - {type(None), UnsetType}
    return {origin or declared}


def _struct(title: str, fields: list[FieldInfo], lenient: bool) -> type[msgspec.Struct]:
    definitions: list[Any] = []
    for field in fields:
        if field.type is Raw or Raw in base_types(field.type):
            assert field.encode_name in PAYLOAD_FIELDS, field
            definitions.append((field.name, Raw | UnsetType, UNSET))
        elif field.required:
            definitions.append((field.name, _loosened(field.type) if lenient else field.type))
        elif lenient:
            definitions.append((field.name, _loosened(field.type) | None, None))
        else:
            definitions.append((field.name, field.type, _default(field)))
    return msgspec.defstruct(
        title,
        definitions,
        rename={field.name: field.encode_name for field in fields},
        forbid_unknown_fields=True,
        omit_defaults=True,
        kw_only=True,
    )


def _default(field: FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return msgspec.field(default_factory=field.default_factory)
    return field.default


def _loosened(declared: Any) -> Any:
    """The type with null allowed for the optional fields of every struct in it."""
    origin, args = get_origin(declared), get_args(declared)
    if origin is Annotated:
        inner, *metas = args
        loose = _loosened(inner)
        return declared if loose is inner else Annotated[(loose, *metas)]
    if origin in (Union, types.UnionType):
        return reduce(or_, [_loosened(one) for one in args if one is not UnsetType])
    if origin is not None:
        return origin[tuple(_loosened(one) for one in args)]
    if isinstance(declared, type) and issubclass(declared, msgspec.Struct):
        if declared not in _lenient:
            _lenient[declared] = _struct(declared.__name__, list(msgspec.structs.fields(declared)), lenient=True)
        return _lenient[declared]
    return declared


def _payloads(struct: type[Any], prefix: Path) -> Iterator[Path]:
    for field in msgspec.structs.fields(struct):
        for base in base_types(field.type):
            if base is Raw:
                yield (*prefix, field.name)
            elif isinstance(base, type) and issubclass(base, msgspec.Struct):
                yield from _payloads(base, (*prefix, field.name))
