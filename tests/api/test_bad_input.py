"""Bad input for everything that is declared: the declared error, the field by its name, and nothing changed.

The requests are made from the declarations (`specimens`): wrong types, bounds and one beyond, unknown fields, Unicode,
U+0000, payloads of 64 KiB and one byte more, nesting of 64 and 65, huge bodies.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import inspect

from statemachine import registry
from statemachine.declare import OPERATIONS, QUERIES, Access, Operation, Query
from statemachine.errors import ERRORS
from tests.api.served import OPERATOR_KEY, Api, Reply, served
from tests.api.specimens import Bad, Specimen, example

assert registry.PRIMITIVES

DECLARED = [declared for declared in (*OPERATIONS.values(), *QUERIES.values()) if declared.path]
ANY_CALL = {"VALIDATION_FAILED", "UNAUTHENTICATED", "FORBIDDEN", "SPACE_SUSPENDED", "UNAVAILABLE", "RESOURCE_EXHAUSTED"}


async def ask(api: Api, declared: Operation | Query, path: str, body: bytes | None, **options: Any) -> Reply:
    key = OPERATOR_KEY if declared.access is Access.OPERATOR else api.key
    options.setdefault("key", key)
    return await api.request(declared.method, path, *(() if body is None else (body,)), **options)


async def all_permissions(api: Api) -> None:
    api.key = await api.make_key("work", "resource_config", "read", "admin")


@pytest.mark.parametrize("declared", DECLARED, ids=lambda declared: declared.name)
@served
async def test_what_does_not_fit_is_refused_by_name_and_changes_nothing(api: Api, declared: Operation | Query) -> None:
    await all_permissions(api)
    specimen = Specimen(declared, api.space)
    before, index = api.replica.machine.store.dump(), api.replica.machine.index
    for bad in specimen.all_bad():
        reply = await ask(api, declared, bad.path, bad.body)
        expect_refusal(bad, reply)
    assert api.replica.machine.index == index, "something that does not fit went into the log"
    assert api.replica.machine.store.dump() == before


def expect_refusal(bad: Bad, reply: Reply) -> None:
    assert (reply.status, reply.code) == (400, "VALIDATION_FAILED"), (bad.why, bad.path, reply)
    message = reply.error["message"]
    named = {bad.field, "body"} if "surrogate" in bad.why or "is null" in bad.why else {bad.field}
    assert any(message.startswith(field) for field in named), (bad.why, bad.field, message)
    assert len(message) < 500, message


@pytest.mark.parametrize("declared", DECLARED, ids=lambda declared: declared.name)
@served
async def test_what_fits_is_never_a_defect(api: Api, declared: Operation | Query) -> None:
    """A request of the right form for things that do not exist, or the smallest that makes one: a declared answer."""
    await all_permissions(api)
    specimen = Specimen(declared, api.space)
    for optional in (False, True):
        values = specimen.fitting()
        if optional:
            values |= {f.name: example(f.plain) for f in specimen.fields if f.name not in specimen.in_path}
        if specimen.takes_body:
            reply = await ask(api, declared, specimen.path(), json.dumps(values).encode())
        else:
            reply = await ask(api, declared, f"{specimen.path()}?{specimen.query(values)}", None)
        allowed = ANY_CALL | {error.code for error in declared.errors}
        assert reply.code == "" or reply.code in allowed, (declared.name, optional, reply)
        assert reply.code != "INTERNAL"
        assert reply.code == "" or ERRORS[reply.code].status == reply.status


@pytest.mark.parametrize(
    "declared",
    [declared for declared in DECLARED if isinstance(declared, Operation)],
    ids=lambda declared: declared.name,
)
@served
async def test_a_payload_at_its_bounds_is_taken(api: Api, declared: Operation) -> None:
    await all_permissions(api)
    specimen = Specimen(declared, api.space)
    deep: Any = 1
    for _ in range(64):
        deep = [deep]
    for field in specimen.fields:
        if isinstance(field.plain, inspect.RawType):
            for value in ("x" * 65_534, "é" * 32_767, deep, None, {"a": 12345678901234567890123}):
                body = json.dumps({**specimen.fitting(), field.name: value}).encode()
                reply = await ask(api, declared, specimen.path(), body)
                assert reply.code != "VALIDATION_FAILED", (field.name, reply)
                assert reply.code != "INTERNAL", (field.name, reply)


@pytest.mark.parametrize(
    "declared",
    [declared for declared in DECLARED if isinstance(declared, Operation)],
    ids=lambda declared: declared.name,
)
@served
async def test_null_is_absent_where_a_field_is_optional(api: Api, declared: Operation) -> None:
    await all_permissions(api)
    specimen = Specimen(declared, api.space)
    nulls = {f.name: None for f in specimen.fields if not f.required and f.name not in specimen.in_path}
    reply = await ask(api, declared, specimen.path(), json.dumps({**specimen.fitting(), **nulls}).encode())
    assert reply.code != "VALIDATION_FAILED", reply
    assert reply.code != "INTERNAL", reply
