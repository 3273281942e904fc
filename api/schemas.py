"""JSON Schemas of requests and answers, from their types."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from api.shapes import part

_REF = "#/components/schemas/{name}"


@dataclass(frozen=True)
class Described:
    schema: dict[str, Any]
    required: bool


class Schemas:
    """Collects the types that a document names; `components` has the schema of each, once."""

    def __init__(self) -> None:
        self._components: dict[str, Any] = {}
        self._titles: dict[str, type[Any]] = {}

    def components(self) -> dict[str, Any]:
        return dict(sorted(self._components.items()))

    def request(self, request: type[Any], names: Sequence[str], operation: str) -> Described:
        """The body of an operation: the fields of its request with these names. required: it must not be empty."""
        title = "".join(word.capitalize() for word in re.split(r"[.\-_]", operation)) + "Request"
        body = part(request, names, title, lenient=False)
        needed = any(field.required for field in msgspec.structs.fields(body))
        return Described(self.answer(body), needed)

    def answer(self, answer: type[Any]) -> dict[str, Any]:
        """A reference to the schema of a struct."""
        (reference,), components = msgspec.json.schema_components([answer], ref_template=_REF)
        for name, schema in components.items():
            self._add(name, schema)
        return reference

    def fields(self, request: type[Any], place: str) -> dict[str, Described]:
        """The schema of each field of a request, for parameters of a path or a query."""
        found = {}
        for field in msgspec.structs.fields(request):
            (schema,), components = msgspec.json.schema_components([field.type], ref_template=_REF)
            for name, inner in components.items():
                self._add(name, inner)
            found[field.encode_name] = Described(_portable(_without_null(schema)), field.required)
        return found

    def _add(self, name: str, schema: dict[str, Any]) -> None:
        portable = _portable(schema)
        known = self._components.setdefault(name, portable)
        assert known == portable, f"two types are called {name}"


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """In a path or a query nothing can be null."""
    choices = schema.get("anyOf")
    if choices is None:
        return schema
    kept = [choice for choice in choices if choice != {"type": "null"}]
    return kept[0] if len(kept) == 1 else {**schema, "anyOf": kept}


def _portable(schema: Any) -> Any:
    """Python's spelling of patterns in that of JSON Schema: `^` and `$` for the ends of a text."""
    if isinstance(schema, dict):
        return {
            key: value.replace(r"\A", "^").replace(r"\Z", "$").replace(r"\x00", r"\u0000")
            if key == "pattern" and isinstance(value, str)
            else _portable(value)
            for key, value in schema.items()
        }
    if isinstance(schema, list):
        return [_portable(item) for item in schema]
    return schema
