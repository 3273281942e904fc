"""The doors of operations and queries: what goes through, as what, and what a refusal says."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import msgspec
import pytest
from msgspec import Meta, Raw

from api.requests import OperationDoor, QueryDoor
from statemachine import registry
from statemachine.declare import OPERATIONS, QUERIES
from statemachine.errors import VALIDATION_FAILED, Refused
from statemachine.types import NULL, Key, Payload, Request, Time, WaitMs

assert registry.PRIMITIVES


class Sample(Request, frozen=True, kw_only=True):
    key: Key
    count: int = 5
    wait_ms: WaitMs = 0
    payload: Payload
    observation: Payload = NULL
    at: Time | None = None
    hash: bytes = b""


class Polled(Request, frozen=True, kw_only=True):
    name: Key
    wait_seconds: Annotated[int, Meta(ge=0)] = 5
    limit: Annotated[int, Meta(ge=1, le=10)] = 3
    flag: bool = False
    at: Time | None = None
    cursor: str | None = None


def operation_door(*fields: str) -> OperationDoor:
    declared = replace(OPERATIONS["scopes.create"], request=Sample, front_fields=("hash",))
    return OperationDoor(declared, fields)


DOOR = operation_door("key")
QUERY = QueryDoor(replace(QUERIES["scopes.get"], request=Polled), ["name"])


def through(body: str | bytes, key: str = "k", query: str = "") -> tuple[dict[str, Any], int]:
    data = body.encode() if isinstance(body, str) else body
    arguments, wait_ms = DOOR.read([key], query, data)
    return msgspec.json.decode(arguments), wait_ms


def refused(body: str | bytes, key: str = "k", query: str = "") -> str:
    with pytest.raises(Refused) as caught:
        through(body, key, query)
    assert caught.value.error is VALIDATION_FAILED
    return caught.value.message


def test_an_empty_body_is_an_empty_object() -> None:
    assert through("") == ({"key": "k", "payload": None}, 0)
    assert through(" {} ") == ({"key": "k", "payload": None}, 0)


def test_arguments_are_body_and_path_in_one() -> None:
    arguments, _ = DOOR.read(['a/"b\\é'], "", b'{ "count" : 7 }')
    assert arguments == '{"key":"a/\\"b\\\\é","count":7,"payload":null}'.encode()
    assert msgspec.json.decode(arguments, type=Sample).key == 'a/"b\\é'


def test_without_fields_in_the_path_all_is_in_the_body() -> None:
    arguments, _ = operation_door().read([], "", b'{"key":"k"}')
    assert msgspec.json.decode(arguments) == {"key": "k", "payload": None}


def test_an_absent_required_payload_is_null_and_null_stays_null() -> None:
    assert through('{"payload":null,"observation":null}')[0] == {"key": "k", "payload": None, "observation": None}
    assert "observation" not in through("{}")[0]


def test_payloads_are_kept_to_the_letter_but_compact() -> None:
    arguments, _ = DOOR.read(["k"], "", rb'{"payload": { "a" : 1.10, "b": 12345678901234567890123 , "c":"\u00e9"} }')
    assert '"payload":{"a":1.10,"b":12345678901234567890123,"c":"é"}'.encode() in arguments


def test_waits_are_clamped_and_told() -> None:
    assert through('{"waitMs":250}') == ({"key": "k", "waitMs": 250, "payload": None}, 250)
    for huge in ("30001", "9223372036854775807", "9" * 40):
        assert through(f'{{"waitMs":{huge}}}')[1] == 30_000
    assert through('{"waitMs":null}')[1] == 0


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('{"key":"k"}', "key: unknown field"),
        ('{"hash":"aGFzaA=="}', "hash: unknown field"),
        ('{"count":"5"}', "count: must be an integer"),
        ('{"waitMs":-1}', "waitMs: must be an integer of at least 0"),
        ('{"waitMs":1.5}', "waitMs: must be an integer of at least 0"),
        (b'{"payload":"\xff"}', "body: is not UTF-8 at byte 12"),
        ('{"payload":"%s"}' % ("x" * 65_535), "payload: exceeds 65536 bytes as compact UTF-8"),
        ('{"payload":%s}' % ("[" * 65 + "]" * 65), "payload: is nested more than 64 deep"),
        ('{"payload":NaN}', "payload: has NaN, which is no JSON"),
        ("[", "body: must be a JSON object"),
    ],
)
def test_refusals_of_bodies(body: str | bytes, message: str) -> None:
    assert refused(body) == message


@pytest.mark.parametrize("key", ["", ".", "..", "\0", "a\0b", "x" * 513])
def test_refusals_of_paths(key: str) -> None:
    assert refused("{}", key) == (
        'key: must be a string of 1 to 512 characters without U+0000 and other than "." and ".."'
    )


@pytest.mark.parametrize("key", ["...", ".a", "x" * 512, "🐌" * 512, "a/b:c%+ é"])
def test_keys_of_any_other_characters_go_through(key: str) -> None:
    assert through("{}", key)[0]["key"] == key


def test_an_operation_takes_no_query_parameters() -> None:
    assert refused("{}", query="a=1") == "a: unknown query parameter; this call takes none"
    assert through("{}", query="&")


def test_a_lower_bound_of_the_plan_is_named() -> None:
    with pytest.raises(Refused, match="payload: exceeds 10 bytes"):
        DOOR.read(["k"], "", b'{"payload":"123456789"}', 10)
    DOOR.read(["k"], "", b'{"payload":"12345678"}', 10)


def test_a_query_is_read_by_the_types_of_its_fields() -> None:
    request = QUERY.read(["a b"], "waitSeconds=007&limit=10&flag=true&cursor=null&at=2026-01-01T00%3A00%3A00Z")
    assert (request.name, request.wait_seconds, request.limit, request.flag) == ("a b", 7, 10, True)
    assert request.cursor == "null"
    assert request.at is not None
    assert QUERY.read(["n"], "") == Polled(name="n")
    assert QUERY.read(["n"], "waitSeconds=" + "9" * 30).wait_seconds == 30


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("x=1", "x: unknown query parameter"),
        ("name=b", "name: unknown query parameter"),
        ("wait_seconds=1", "wait_seconds: unknown query parameter"),
        ("limit=1&limit=1", "limit: given twice in the query"),
        ("limit=11", "limit: must be an integer from 1 to 10"),
        ("limit=1.0", "limit: must be an integer from 1 to 10"),
        ("limit=1e1", "limit: must be an integer from 1 to 10"),
        ("limit=+1", "limit: must be an integer from 1 to 10"),
        ("limit=", "limit: must be an integer from 1 to 10"),
        ("limit=null", "limit: must be an integer from 1 to 10"),
        ("limit=%D9%A1", "limit: must be an integer from 1 to 10"),
        ("waitSeconds=-1", "waitSeconds: must be an integer of at least 0"),
        ("flag=1", "flag: must be true or false"),
        ("flag=True", "flag: must be true or false"),
        ("at=yesterday", "at: must be an RFC 3339 time with an offset or Z, such as 2026-01-31T12:00:00Z"),
        ("at=2026-01-01T00:00:00", "at: must be an RFC 3339 time with an offset or Z, such as 2026-01-31T12:00:00Z"),
    ],
)
def test_refusals_of_queries(query: str, message: str) -> None:
    with pytest.raises(Refused) as caught:
        QUERY.read(["n"], query)
    assert caught.value.message == message


@pytest.mark.parametrize("name", [name for name, declared in OPERATIONS.items() if declared.path])
def test_what_goes_through_a_door_the_machine_can_read(name: str) -> None:
    """An operation without required fields in its body: its own defaults must decode in the machine."""
    declared = OPERATIONS[name]
    fields = {field.encode_name: field for field in msgspec.structs.fields(declared.request)}
    path = [part[1:-1] for part in declared.path.split("/") if part.startswith("{")]
    door = OperationDoor(declared, path)
    if any(fields[field].required for field in door.body_names):
        return
    arguments, _ = door.read(["x"] * len(path), "", b"")
    assert msgspec.json.decode(arguments, type=declared.request) is not None


def test_a_payload_is_text_all_the_way() -> None:
    arguments, _ = DOOR.read(["k"], "", b'{"payload":[1.0]}')
    assert msgspec.json.decode(arguments, type=Sample).payload == Raw(b"[1.0]")
