"""JSON Schemas of requests and answers."""

from __future__ import annotations

from api.schemas import Schemas
from statemachine.types import Answer, Id, Key, LeaseSeconds, Request, WaitMs


class Sample(Request, frozen=True, kw_only=True):
    key: Key
    scope_id: Id
    lease_seconds: LeaseSeconds | None = None
    wait_ms: WaitMs = 0


class Inner(Answer, frozen=True):
    count: int


class Outer(Answer, frozen=True):
    inner: Inner
    name: str | None


def test_a_body_is_the_named_part_of_a_request() -> None:
    schemas = Schemas()
    described = schemas.request(Sample, ["scopeId", "leaseSeconds"], "claims.acquire-now")
    assert described.schema == {"$ref": "#/components/schemas/ClaimsAcquireNowRequest"}
    assert described.required
    component = schemas.components()["ClaimsAcquireNowRequest"]
    assert list(component["properties"]) == ["scopeId", "leaseSeconds"]
    assert component["required"] == ["scopeId"]
    assert component["additionalProperties"] is False
    assert not schemas.request(Sample, ["waitMs"], "other").required


def test_answers_bring_what_they_are_made_of() -> None:
    schemas = Schemas()
    assert schemas.answer(Outer) == {"$ref": "#/components/schemas/Outer"}
    assert set(schemas.components()) == {"Outer", "Inner"}
    schemas.answer(Outer)


def test_parameters_are_never_null_and_patterns_are_portable() -> None:
    fields = Schemas().fields(Sample, "query")
    assert fields["leaseSeconds"].schema == {"type": "integer", "minimum": 1, "maximum": 3600}
    assert fields["waitMs"].schema == {"type": "integer", "minimum": 0}
    assert fields["scopeId"].schema["pattern"] == "^[A-Za-z0-9_-]+$"
    assert (fields["scopeId"].required, fields["waitMs"].required) == (True, False)
