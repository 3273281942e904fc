"""From what a caller sent to what the machine takes: every bound of a declared request, checked at the door.

The body and the path (of an operation) or the query and the path (of a query) are decoded into types derived from the
declaration. What leaves an operation's door is the canonical JSON of its arguments: no nulls for absent fields, waits
clamped, payloads compact. A refusal is VALIDATION_FAILED with one sentence that names the field and its bound.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from api.damage import explain
from api.payloads import compacted
from api.phrases import bounds, sentence
from api.shapes import WAITS, base_types, part, payload_paths
from api.urls import parameters
from statemachine.declare import Operation, Query
from statemachine.errors import VALIDATION_FAILED, Refused
from statemachine.types import NULL, PAYLOAD_BYTES_MAX

_INTEGER = re.compile(r"-?[0-9]{1,4000}", re.ASCII)
_BOOLEANS = {"true": True, "false": False}

_encode = msgspec.json.Encoder().encode


class OperationDoor:
    """Reads the arguments of an operation, or of a query by POST, which has a body too. fields: those in its path, in
    order."""

    def __init__(self, declared: Operation | Query, fields: Sequence[str]) -> None:
        title = _title(declared.name)
        names = [field.encode_name for field in msgspec.structs.fields(declared.request)]
        made_here = declared.front_fields if isinstance(declared, Operation) else ()
        fronted = [field.encode_name for field in msgspec.structs.fields(declared.request) if field.name in made_here]
        self._fields = list(fields)
        self._bounds = bounds(declared.request)
        self.body_names = [name for name in names if name not in fields and name not in fronted]
        self.body_type = part(declared.request, self.body_names, title)
        self._path_type = part(declared.request, fields, title + "Path") if fields else None
        self._decode = msgspec.json.Decoder(self.body_type).decode
        self._payloads = payload_paths(self.body_type)
        self._waits = [(name, most) for name, most in WAITS.items() if name in self.body_type.__struct_fields__]
        optional = {field.encode_name for field in msgspec.structs.fields(declared.request) if not field.required}
        self._needs_payload = {name for name in self.body_names if name not in optional}

    @property
    def has_payload(self) -> bool:
        return bool(self._payloads)

    def read(
        self, values: Sequence[str], query: str, body: bytes, payload_bytes_max: int = PAYLOAD_BYTES_MAX
    ) -> tuple[bytes, int]:
        """The arguments as JSON, and the milliseconds that the caller wants to wait.

        values: of the path's fields, decoded. Raises VALIDATION_FAILED.
        """
        if query:
            _refuse_parameters(query)
        try:
            decoded = self._decode(body or b"{}")
        except (msgspec.DecodeError, RecursionError) as error:
            if isinstance(error, msgspec.ValidationError):
                raise Refused(VALIDATION_FAILED, sentence(str(error), self._bounds)) from None
            raise Refused(VALIDATION_FAILED, explain(body, error)) from None
        if not body.isascii():
            _require_utf_8(body)
        if self._payloads:
            self._compact(decoded, payload_bytes_max)
        wait_ms = self._clamp(decoded) if self._waits else 0
        arguments = _encode(decoded)
        if self._path_type is not None:
            in_path = _encode(
                _converted(dict(zip(self._fields, values, strict=True)), self._path_type, self._bounds, "path")
            )
            arguments = in_path if arguments == b"{}" else in_path[:-1] + b"," + arguments[1:]
        return arguments, wait_ms

    def _compact(self, decoded: Any, bytes_max: int) -> None:
        for path in self._payloads:
            holder = decoded
            for name in path[:-1]:
                holder = None if holder is None else getattr(holder, name)
            if holder is None:
                continue
            value = getattr(holder, path[-1])
            if value is UNSET:
                if path[-1] in self._needs_payload:
                    setattr(holder, path[-1], NULL)
                continue
            setattr(holder, path[-1], Raw(compacted(".".join(path), bytes(value), bytes_max)))

    def _clamp(self, decoded: Any) -> int:
        for name, most in self._waits:
            wanted: int | None = getattr(decoded, name)
            if wanted is not None:
                clamped = min(wanted, most)
                setattr(decoded, name, clamped)
                return clamped if name == "wait_ms" else clamped * 1000
        return 0


class QueryDoor:
    """Reads the request of one query. fields: those in its path, in order.

    body: of a query by POST, whose request comes as that of an operation does; None for a GET, which has none.
    """

    def __init__(self, declared: Query, fields: Sequence[str]) -> None:
        self.request = declared.request
        self.body = OperationDoor(declared, fields) if declared.method == "POST" else None
        self._decode = msgspec.json.Decoder(declared.request).decode
        self._fields = list(fields)
        self._bounds = bounds(declared.request)
        self._coercions: dict[str, Callable[[str], Any]] = {}
        self._waits = {}
        for field in msgspec.structs.fields(declared.request):
            types = base_types(field.type)
            self._coercions[field.encode_name] = _integer if types == {int} else _boolean if types == {bool} else str
            if field.name in WAITS:
                self._waits[field.encode_name] = WAITS[field.name]

    def read(self, values: Sequence[str], query: str, body: bytes = b"") -> Any:
        """The request. values: of the path's fields, decoded. Raises VALIDATION_FAILED."""
        if self.body is not None:
            return self._decode(self.body.read(values, query, body)[0])
        given: dict[str, Any] = dict(zip(self._fields, values, strict=True))
        if query:
            for name, text in parameters(query).items():
                if name in self._fields or name not in self._coercions:
                    raise Refused(VALIDATION_FAILED, f"{name[:100]}: unknown query parameter")
                given[name] = self._coercions[name](text)
            for name, most in self._waits.items():
                if isinstance(given.get(name), int):
                    given[name] = min(given[name], most)
        return _converted(given, self.request, self._bounds, "query")


def _converted(values: Mapping[str, Any], into: type[Any], bounds: Mapping[str, str], whole: str) -> Any:
    try:
        return msgspec.convert(values, into)
    except msgspec.ValidationError as error:
        raise Refused(VALIDATION_FAILED, sentence(str(error), bounds, whole)) from None


def _integer(text: str) -> Any:
    """The integer that a text is; a text that is none stays one, for the type to refuse."""
    return int(text) if _INTEGER.fullmatch(text) else text


def _boolean(text: str) -> Any:
    return _BOOLEANS.get(text, text)


def _refuse_parameters(query: str) -> None:
    for name in parameters(query):
        raise Refused(VALIDATION_FAILED, f"{name[:100]}: unknown query parameter; this call takes none")


def _require_utf_8(body: bytes) -> None:
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refused(VALIDATION_FAILED, f"body: is not UTF-8 at byte {error.start}") from None


def _title(name: str) -> str:
    return "".join(word.capitalize() for word in re.split(r"[.\-_]", name))
