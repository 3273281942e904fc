"""Bounded types of the fields of requests, shared by every primitive, and the rendering of times.

A bound stands in the type, so that validation, OpenAPI and the message of a refusal all say the same. Requests are
`Request` structs (unknown fields refused, camel case on the wire), answers are `Answer` structs: a field that is absent
from an answer is `UNSET`, one that is `null` is `None`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Annotated, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

_PLAIN = (
    r"\A(?!\.\.?\Z)[^\x00]+\Z"  # any character but U+0000; "." and ".." alone vanish from URLs in clients' libraries
)

Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=256, pattern=_PLAIN)]
Key: TypeAlias = Annotated[str, Meta(min_length=1, max_length=512, pattern=_PLAIN)]
Id: TypeAlias = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"\A[A-Za-z0-9_-]+\Z")]
Token: TypeAlias = Annotated[str, Meta(min_length=1, max_length=256)]
Text: TypeAlias = Annotated[str, Meta(max_length=4096)]
LeaseSeconds: TypeAlias = Annotated[int, Meta(ge=1, le=3600)]
WaitMs: TypeAlias = Annotated[int, Meta(ge=0)]
Limit: TypeAlias = Annotated[int, Meta(ge=1, le=1000)]
Cursor: TypeAlias = Annotated[str, Meta(max_length=1024)]
Time: TypeAlias = Annotated[datetime, Meta(tz=True)]  # any offset; a naive time is refused
Payload: TypeAlias = Raw  # any JSON value as its text; bounds are checked at the door by its name, see PAYLOAD_FIELDS

NULL = Raw(b"null")
LEASE_SECONDS_DEFAULT = 30
LIST_LIMIT_DEFAULT = 100
PAYLOAD_BYTES_MAX = 65_536
PAYLOAD_FIELDS = frozenset({"payload", "input", "result", "observation"})
WAIT_MS_MAX = 30_000
COUNT_MAX = 2**53 - 1  # the largest integer that every client's JSON library keeps exactly


class Request(
    msgspec.Struct, rename="camel", forbid_unknown_fields=True, omit_defaults=True, frozen=True, kw_only=True, gc=False
):
    """The arguments of one operation or query: path, query and body in one flat object."""


class Answer(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """What a successful operation or query answers."""


class InLine(Answer, frozen=True):
    """The 202 of an operation whose caller stands in a line now. It is for the node, and never reaches a client."""


class Record(msgspec.Struct, frozen=True, gc=False):
    """One immutable row of a table. Changing one means putting another in its place.

    The collector need not look at records: what cannot change after it was made cannot be part of a cycle.
    """


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


TIME_MS_MAX = 253_402_300_799_999  # the end of the year 9999, in UTC


@lru_cache(maxsize=1024)  # most answers of one moment name the same few times
def time_text(wall_ms: int) -> str:
    """RFC 3339, UTC, with milliseconds and Z, of a wall time in milliseconds since 1970; at most the year 9999."""
    seconds, milliseconds = divmod(min(wall_ms, TIME_MS_MAX), 1000)
    return f"{_second_text(seconds)}.{milliseconds:03d}Z"


@lru_cache(maxsize=1024)
def _second_text(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")


def time_ms(time: datetime) -> int:
    """Milliseconds since 1970 of an aware time, rounded down.

    An offset can carry a time out of the years that UTC can be written in; it counts as the nearest one that can be,
    and all of what is before 1970 as its first moment.
    """
    return min(max((time - _EPOCH) // _MILLISECOND, 0), TIME_MS_MAX)


__all__ = [
    "COUNT_MAX",
    "LEASE_SECONDS_DEFAULT",
    "LIST_LIMIT_DEFAULT",
    "NULL",
    "PAYLOAD_BYTES_MAX",
    "PAYLOAD_FIELDS",
    "UNSET",
    "WAIT_MS_MAX",
    "Answer",
    "Cursor",
    "Id",
    "InLine",
    "Key",
    "LeaseSeconds",
    "Limit",
    "Name",
    "Payload",
    "Raw",
    "Record",
    "Request",
    "Text",
    "Time",
    "Token",
    "UnsetType",
    "WaitMs",
    "time_ms",
    "time_text",
]
