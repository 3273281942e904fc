"""The OpenAPI document: valid, whole, and the same as what is served."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from openapi_spec_validator import OpenAPIV31SpecValidator

from statemachine import errors
from statemachine.declare import OPERATIONS, QUERIES
from tests.api.served import Api, served


async def document(api: Api) -> dict[str, Any]:
    reply = await api.request("GET", "/openapi.json")
    assert (reply.status, reply.headers["Content-Type"]) == (200, "application/json")
    found: dict[str, Any] = reply.body
    return found


def operations(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        operation["operationId"]: {**operation, "path": path, "method": method}
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


@served
async def test_the_document_is_valid(api: Api) -> None:
    OpenAPIV31SpecValidator(await document(api)).validate()


@served
async def test_json_and_yaml_are_one_document(api: Api) -> None:
    reply = await api.request("GET", "/openapi.yaml")
    assert (reply.status, reply.headers["Content-Type"]) == (200, "application/yaml")
    assert yaml.safe_load(reply.content) == await document(api)


@served
async def test_everything_that_is_served_is_described(api: Api) -> None:
    whole = await document(api)
    found = operations(whole)
    assert set(found) == {endpoint.name for endpoint in api.server.endpoints}
    for declared in (*OPERATIONS.values(), *QUERIES.values()):
        if declared.path:
            described = found[declared.name]
            assert described["path"].endswith(declared.path)
            assert described["method"] == declared.method.lower()
            codes = described_codes(described)
            assert codes >= {code.code for code in declared.errors} | {"VALIDATION_FAILED", "UNAUTHENTICATED"}
            assert codes <= set(errors.ERRORS)
    for name, described in found.items():
        assert described["summary"], name
        assert described["description"], name
        for event in described.get("x-events", ()):
            assert whole["x-event-types"][event], (name, event)
        assert "200" in described["responses"] or "201" in described["responses"], name


def described_codes(operation: dict[str, Any]) -> set[str]:
    return {
        code
        for status, response in operation["responses"].items()
        if int(status) >= 400
        for part in response["content"]["application/json"]["schema"]["allOf"][1:]
        for code in part["properties"]["error"]["properties"]["code"]["enum"]
    }


@served
async def test_two_errors_of_one_status_stand_side_by_side(api: Api) -> None:
    acquire = operations(await document(api))["claims.acquire"]
    conflict = acquire["responses"]["409"]
    for code in ("CLAIM_HELD", "SCOPE_CANCELLED", "DEADLINE_EXCEEDED", "IDEMPOTENCY_CONFLICT"):
        assert f"{code}: {errors.ERRORS[code].meaning}" in conflict["description"]


@served
async def test_requests_have_the_bounds_that_are_checked(api: Api) -> None:
    found = await document(api)
    acquire = operations(found)["claims.acquire"]
    name = acquire["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    schema = found["components"]["schemas"][name]
    assert schema["required"] == ["key", "scopeId", "holder", "holderSession"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["key"] == {
        "type": "string",
        "minLength": 1,
        "maxLength": 512,
        "pattern": "^(?!\\.\\.?$)[^\\u0000]+$",
    }
    renew = operations(found)["claims.renew"]
    assert [parameter["name"] for parameter in renew["parameters"]][:2] == ["spaceId", "key"]
    assert "key" not in json.dumps(renew["requestBody"]).replace("ClaimsRenewRequest", "")
    once = operations(found)["once.get"]
    required = {parameter["name"]: parameter["required"] for parameter in once["parameters"]}
    assert required == {"spaceId": True, "scopeId": True, "key": True, "waitMs": False}


@served
async def test_what_the_node_fills_in_is_in_no_schema(api: Api) -> None:
    found = await document(api)
    for name, schema in found["components"]["schemas"].items():
        assert "hash" not in schema.get("properties", {}), name
        if name.endswith("AdmitNodeRequest"):
            pytest.fail("a request of nothing but the node's own fields has no body")


@served
async def test_keys_are_asked_for_where_they_are_needed(api: Api) -> None:
    found = operations(await document(api))
    assert found["healthz"]["security"] == []
    assert found["claims.acquire"]["security"] == [{"key": []}]
    assert found["whoami"]["security"] == [{"key": []}]
    assert found["spaces.create"]["security"] == [{"operatorKey": []}]


@served
async def test_answers_fit_their_schemas(api: Api) -> None:
    """A sample of real answers against the document; every field that is answered is described."""
    found = await document(api)
    run = await api.run()
    claim = await api.call("POST", "/claims", {"key": "k", "scopeId": run, "holder": "h", "holderSession": "s"})
    samples = {
        "claims.acquire": claim,
        "scopes.get": await api.call("GET", f"/scopes/{run}"),
        "whoami": await api.request("GET", "/v1/whoami", key=api.key),
        "readyz": await api.request("GET", "/readyz"),
        "cluster.show": await api.operate("GET", "/cluster"),
    }
    for name, reply in samples.items():
        response = operations(found)[name]["responses"][str(reply.status)]
        reference = response["content"]["application/json"]["schema"]["$ref"]
        schema = found["components"]["schemas"][reference.rpartition("/")[2]]
        assert set(reply.body) <= set(schema["properties"]), name
        assert set(schema["required"]) <= set(reply.body), name
