"""What is declared holds together: for every operation and query that there is."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from statemachine.declare import EVENT_TYPES, OPERATIONS, QUERIES, Access, Permission, event_types, operation
from statemachine.errors import ERRORS
from statemachine.machine import Machine
from statemachine.store import DUE_KINDS, TABLES
from statemachine.types import Answer, Record, Request
from tests.statemachine.specimens import Done, Put

assert Machine
DECLARED = {**OPERATIONS, **QUERIES}
ROUTED = {name: declared for name, declared in DECLARED.items() if declared.path}


def wire_fields(request: type[Request]) -> dict[str, Any]:
    return {field.encode_name: field for field in msgspec.structs.fields(request)}


@pytest.mark.parametrize("name", DECLARED)
def test_names_say_primitive_and_verb(name: str) -> None:
    assert name == "whoami" or re.fullmatch(r"[a-z]+(-[a-z]+)*\.[a-z]+(-[a-z]+)*", name)


@pytest.mark.parametrize("name", ROUTED)
def test_a_path_names_fields_of_its_request_and_requires_them(name: str) -> None:
    declared = ROUTED[name]
    assert declared.path.startswith("/")
    fields = wire_fields(declared.request)
    for placeholder in re.findall(r"\{([^}]*)\}", declared.path):
        assert placeholder in fields, placeholder
        assert fields[placeholder].required, placeholder


def test_no_two_calls_share_method_and_path() -> None:
    routes = [
        (declared.access is Access.OPERATOR, declared.method, re.sub(r"\{[^}]*\}", "{}", declared.path))
        for declared in ROUTED.values()
    ]
    assert len(set(routes)) == len(routes)


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_is_no_read_and_a_query_is(name: str) -> None:
    assert OPERATIONS[name].method in ("", "POST", "PUT", "PATCH", "DELETE")
    assert name not in QUERIES


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_that_waits_says_on_what_and_until_when(name: str) -> None:
    declared = QUERIES[name]
    assert declared.method == "GET" or declared.path.endswith(("/verify", "/poll"))
    waits = {"waitMs", "waitSeconds"} & wire_fields(declared.request).keys()
    assert bool(waits) == (declared.topics is not None)


@pytest.mark.parametrize("name", DECLARED)
def test_errors_and_permissions_are_of_their_tables(name: str) -> None:
    declared = DECLARED[name]
    assert all(ERRORS[error.code] is error for error in declared.errors)
    assert len(set(declared.errors)) == len(declared.errors)
    assert declared.permissions <= frozenset(Permission)
    if declared.access is Access.SPACE:
        assert declared.permissions, "anybody with a key of the space could call it"


@pytest.mark.parametrize("name", DECLARED)
def test_everything_has_its_sentence(name: str) -> None:
    declared = DECLARED[name]
    assert declared.doc.strip().splitlines()[0].endswith(".")
    assert issubclass(declared.request, Request)
    assert issubclass(declared.answer, Answer)


@pytest.mark.parametrize("name", OPERATIONS)
def test_what_waits_resumes_an_internal_operation(name: str) -> None:
    wait = OPERATIONS[name].wait
    if wait is not None:
        take = OPERATIONS[wait.take]
        assert take.access is Access.SYSTEM
        assert not take.path


def test_event_types_are_an_aggregate_and_a_past_participle() -> None:
    for event, meaning in EVENT_TYPES.items():
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*\.[a-z]+(-[a-z]+)*", event), event
        assert meaning, event
        assert not meaning.endswith("."), event


def test_every_event_type_is_declared_by_an_operation_or_comes_from_due_work() -> None:
    for name, declared in OPERATIONS.items():
        assert set(declared.events) <= EVENT_TYPES.keys(), name


@pytest.mark.parametrize("name", TABLES)
def test_a_table_holds_frozen_records_that_read_back(name: str) -> None:
    table = TABLES[name]
    assert issubclass(table.record, Record)
    assert table.record.__struct_config__.frozen
    msgspec.msgpack.Decoder(table.record)


def test_due_kinds_name_their_table() -> None:
    for kind, (table, due) in DUE_KINDS.items():
        assert due in table.due
        assert due.kind == kind
        assert due.clock in ("lease", "wall")


# ---------------------------------------------------------------------- what cannot be declared


@pytest.mark.usefixtures("specimens")
def test_a_name_is_declared_once() -> None:
    def again(context: Any, request: Put) -> Done:
        """Again."""
        raise NotImplementedError

    with pytest.raises(AssertionError, match=r"specimens\.put"):
        operation("specimens.put", "POST /again")(again)
    with pytest.raises(AssertionError, match="names"):
        operation("specimens.again", "POST /again", events=("specimen.unheard",))(again)
    with pytest.raises(AssertionError, match=r"specimen\.put"):
        event_types(specimen_put="again")


@pytest.mark.usefixtures("specimens")
def test_an_operation_without_a_docstring_cannot_be_declared() -> None:
    def silent(context: Any, request: Put) -> Done:
        raise NotImplementedError

    with pytest.raises(AssertionError):
        operation("specimens.silent", "POST /silent")(silent)
