"""Requests for every declared operation and query, made from their declared types: mostly sound, some not.

What earlier answers said (ids, tokens, keys) is remembered and used again where a field has the same name, so that
most requests are about something that exists, or existed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import cache
from random import Random
from typing import Any

import msgspec

from statemachine.declare import Operation, Query

# Few values, so that requests meet each other.
SMALL: dict[str, list[Any]] = {
    "key": ["k", "other", "a/b:c%+ ü"],
    "name": ["nightly", "label", "ü" * 256],
    "holder": ["ann", "bob"],
    "holderSession": ["s1", "s2"],
    "leaseSeconds": [1, 5, 30, 3600],
    "waitMs": [0, 30_000, 30_000, 10**12],
    "maxAttempts": [1, 2, 5],
    "childLimit": [0, 1, 2],
    "generation": [1, 2, 3],
    "permissions": [["work"], ["read", "work"], ["admin"], ["resource_config"]],
    "state": ["ACTIVE", "CANCELLED", "COMPLETED", "EXPIRED"],
    "maxRecords": [5, 30, 1000],
    "maxBytes": [2_000, 200_000],
    "maxHoldSeconds": [1, 60],
    "maxLapses": [1, 2],
    "eventCount": [1, 50],
    "aggregate": ["claim:k", "scope:x", "nonsense"],
    "types": ["claim.acquired,scope.created", "nothing"],
    "suspended": [False],
    "featureLevel": [1],
}
ODD = [None, True, 0, -1, 1.5, 2**70, "", "\0", ".", "x" * 600, [], {}, "scp_unheard", "2026-01-01T00:00:00", "1e9"]
IDENTIFYING = {"key", "token", "scopeId", "waiterId", "spaceId", "keyId", "organizationId"}
PREFIXES = {"parentId": "scp_", "scopeId": "scp_", "spaceId": "spc_", "keyId": "key_", "organizationId": "org_"}
PAYLOADS = [None, 17, "text", {"deep": [{"er": [1.50, True, "ü"]}]}, 12345678901234567890, "x" * 5_000]


BROKEN = [b"", b"{", b"[]", b"null", b'{"a":1}', b'{"key":"\\ud800"}', b"\xff", b"{}", b'{"scopeId":"x","scopeId":"y"}']
LETTERS = "aZ09_-/.:%+ \n\t\"\\'äß😀\u202e\ufeff\x01"
OFFSETS_MS = [-(10**12), -1, 0, 1, 5_000, 3_600_000, 10**10]  # of times, from now


fields_of = cache(msgspec.structs.fields)
type_info_of = cache(msgspec.inspect.type_info)


class Asking:
    """Makes the arguments of calls.

    random: seeded. memory: what earlier calls said and answered, newest last. time: the time that is so many
    milliseconds from now, as text.
    """

    def __init__(self, random: Random, memory: list[Mapping[str, Any]], time: Callable[[int], str]) -> None:
        self._random = random
        self._memory = memory
        self._time = time

    def arguments(self, declared: Operation | Query) -> bytes:
        """The arguments of one call, as JSON."""
        random = self._random
        by_node = declared.front_fields if isinstance(declared, Operation) else ()
        if not by_node and not random.randrange(40):
            return random.choice(BROKEN)
        remembered = self._fitting(declared)
        found: dict[str, Any] = {}
        for field in fields_of(declared.request):
            if field.required or field.name in by_node or random.randrange(2):
                found[field.encode_name] = self._value(field, remembered)
        if found and not random.randrange(25):
            found[random.choice(sorted(found))] = random.choice(ODD)
        if not random.randrange(50):
            found[random.choice(["colour", "Key", "scope_id"])] = 1
        if found and not random.randrange(50):
            del found[random.choice(sorted(found))]
        return msgspec.json.encode(
            {name: value for name, value in found.items() if name not in by_node}
            | {name: self._of_node(name) for name in by_node}
        )

    def _fitting(self, declared: Operation | Query) -> Mapping[str, Any]:
        """One of the last things said or answered, mostly by the same primitive, that has what the call needs."""
        random = self._random
        if not random.randrange(6):
            return random.choice(self._memory)
        needed = {field.encode_name for field in fields_of(declared.request) if field.required}
        family = declared.name.partition(".")[0]
        fitting = [said for said in self._memory[-60:] if needed & IDENTIFYING <= said.keys()]
        own = [said for said in fitting if said.get("$family") == family]
        return random.choice((own or fitting or self._memory)[-4:])

    def _of_node(self, name: str) -> Any:
        if name == "hash":
            return hashlib.sha256(b"%d" % self._random.randrange(40)).digest()
        return self._random.randrange(3)

    def _value(self, field: Any, remembered: Mapping[str, Any]) -> Any:
        random, name = self._random, field.encode_name
        if name in remembered and random.randrange(10):
            return remembered[name]
        known = self._known(name)
        if known and random.randrange(10):
            return random.choice(known[-4:])
        if name in SMALL and random.randrange(20):
            return random.choice(SMALL[name])
        return self._of_type(type_info_of(field.type))

    def _known(self, name: str) -> list[Any]:
        if name == "cursor":
            return [said["nextCursor"] for said in self._memory if said.get("nextCursor")]
        prefix = PREFIXES.get(name)
        if prefix is not None:
            return [said["id"] for said in self._memory if str(said.get("id", "")).startswith(prefix)]
        return [said[name] for said in self._memory if name in said] if name in ("token", "waiterId") else []

    def _of_type(self, info: Any) -> Any:
        random = self._random
        match info:
            case msgspec.inspect.Metadata():
                return self._of_type(info.type)
            case msgspec.inspect.UnionType():
                return self._of_type(random.choice(info.types))
            case msgspec.inspect.NoneType():
                return None
            case msgspec.inspect.StrType():
                letters = "aZ09_-" if info.pattern is not None and "A-Za-z0-9_-" in info.pattern else LETTERS
                lengths = [1, 2, 17, *(length for length in (info.min_length, info.max_length) if length is not None)]
                return "".join(random.choice(letters) for _ in range(random.choice(lengths)))
            case msgspec.inspect.IntType():
                bounds = [-(2**40) if info.ge is None else info.ge, 2**40 if info.le is None else info.le]
                return random.choice([*bounds, random.randint(*bounds)])
            case msgspec.inspect.BoolType():
                return random.choice([True, False])
            case msgspec.inspect.BytesType():
                return random.randbytes(random.choice([0, 16, 32]))
            case msgspec.inspect.DateTimeType():
                return self._time(random.choice(OFFSETS_MS))
            case msgspec.inspect.RawType():
                return random.choice(PAYLOADS)
            case msgspec.inspect.LiteralType():
                return random.choice(info.values)
            case msgspec.inspect.EnumType():
                return random.choice(list(info.cls)).value
            case msgspec.inspect.VarTupleType() | msgspec.inspect.ListType():
                return [self._of_type(info.item_type) for _ in range(random.randrange(4))]
            case msgspec.inspect.DictType():
                return {"n1": self._of_type(info.value_type)}
            case msgspec.inspect.StructType():
                fields = fields_of(info.cls)
                return {field.encode_name: self._value(field, {}) for field in fields if random.randrange(2)}
        raise AssertionError(f"no value is known for {info}")
