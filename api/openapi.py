"""The OpenAPI 3.1 document, read off the same declarations that routing and validation read.

Nothing about a call is written here: its path, fields, bounds, answer, errors and permissions come from its
declaration. Two errors of one status share one response that names both.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any

from api.call import Call
from api.endpoint import Endpoint, Page
from api.operations import OperationEndpoint
from api.own import OwnEndpoint
from api.queries import QueryEndpoint
from api.requests import OperationDoor
from api.respond import JSON
from api.router import fields_of
from api.schemas import Described, Schemas
from api.yaml_text import yaml_text
from statemachine import errors
from statemachine.declare import EVENT_TYPES, Access, Operation, Query
from statemachine.errors import ErrorCode

YAML = "application/yaml"

_ANY_CALL = (errors.VALIDATION_FAILED, errors.UNAVAILABLE, errors.INTERNAL)
_WITH_KEY = (errors.UNAUTHENTICATED, errors.FORBIDDEN)
_IN_SPACE = (errors.SPACE_SUSPENDED,)
_KEYED = (errors.IDEMPOTENCY_CONFLICT, errors.SERVICE_RATE_LIMITED)
_NEW_WORK = (errors.RESOURCE_EXHAUSTED,)

_HEADERS = {
    "X-Request-Id": "id of this request, for the logs",
    "X-Raft-Index": "`index/position` of the log entry that decided; of a read, the index of the state read, `index/0`",
    "X-Raft-Leader": "URL of the node that leads",
    "Retry-After": "seconds after which a repeat makes sense, 0.05 to 30, where that is known",
    "Idempotency-Replayed": "`true` when this is the kept answer to an earlier request with the same key",
}
_SECURITY = {Access.SPACE: "key", Access.KEY: "key", Access.OPERATOR: "operatorKey"}


def document(endpoints: Iterable[Endpoint], server_url: str = "/") -> dict[str, Any]:
    """The whole document as JSON values."""
    schemas = Schemas()
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in sorted(endpoints, key=lambda e: (e.template, e.method)):
        paths.setdefault(endpoint.template, {})[endpoint.method.lower()] = _operation(endpoint, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "runstate",
            "version": "1",
            "description": "Coordination for swarms of agents: claims, once, runs, events. Linearizable at every node.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": server_url}],
        "paths": paths,
        "x-event-types": dict(sorted(EVENT_TYPES.items())),
        "components": {
            "schemas": schemas.components() | {"Error": _error_schema()},
            "headers": {
                name: {"description": text, "schema": {"type": "string"}} for name, text in sorted(_HEADERS.items())
            },
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "an API key of the space"},
                "operatorKey": {"type": "http", "scheme": "bearer", "description": "the operator key of the cluster"},
            },
        },
    }


def _operation(endpoint: Endpoint, schemas: Schemas) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": endpoint.name,
        "tags": [endpoint.name.partition(".")[0]],
        "security": [] if endpoint.access is None else [{_SECURITY[endpoint.access]: []}],
    }
    parameters = [_parameter("path", name, {"type": "string"}) for name in fields_of(endpoint.template)]
    match endpoint:
        case OperationEndpoint(declared=declared):
            described |= _words(declared.doc)
            described["x-permissions"] = sorted(declared.permissions) if endpoint.access is Access.SPACE else []
            described["x-events"] = list(declared.events)
            _bounds(parameters, schemas.fields(declared.request, "path"))
            if not declared.repeatable:
                parameters.append(_parameter("header", "Idempotency-Key", _KEY_SCHEMA))
            described |= _body(endpoint.door, declared, schemas)
            answer: dict[str, Any] | None = schemas.answer(declared.answer)
            codes = (
                *declared.errors,
                *(() if declared.repeatable else _KEYED),
                *(() if declared.urgent else _NEW_WORK),
            )
            created = "201" if declared.method == "POST" else "200"
        case QueryEndpoint(declared=query):
            described |= _words(query.doc)
            described["x-permissions"] = sorted(query.permissions) if endpoint.access is Access.SPACE else []
            found = schemas.fields(query.request, "query")
            _bounds(parameters, found)
            if endpoint.door.body is not None:
                described |= _body(endpoint.door.body, query, schemas)
            else:
                parameters += _query(found, fields_of(endpoint.template))
            answer, codes, created = schemas.answer(query.answer), query.errors, "200"
        case OwnEndpoint():
            described |= _words(endpoint.doc)
            if endpoint.query is not None:
                parameters += _query(schemas.fields(endpoint.query, "query"), ())
            if endpoint.request is not None:
                schema = schemas.answer(endpoint.request)
                described["requestBody"] = {"required": True, "content": {JSON: {"schema": schema}}}
            answer = None if endpoint.response is None else schemas.answer(endpoint.response)
            codes, created = endpoint.errors, "200"
        case _:
            raise AssertionError(endpoint)
    described["parameters"] = parameters
    content_type = endpoint.content_type if isinstance(endpoint, OwnEndpoint) else JSON
    described["responses"] = _success(created, answer, content_type) | _failures(endpoint.access, codes)
    return described


_KEY_SCHEMA = {"type": "string", "minLength": 1, "maxLength": 255}


def _body(door: OperationDoor, declared: Operation | Query, schemas: Schemas) -> dict[str, Any]:
    if not door.body_names:
        return {}
    body = schemas.request(declared.request, door.body_names, declared.name)
    return {"requestBody": {"required": body.required, "content": {JSON: {"schema": body.schema}}}}


def _words(doc: str) -> dict[str, str]:
    text = " ".join(line.strip() for line in doc.strip().splitlines())
    summary, stop, _ = text.partition(". ")
    return {"summary": (summary + stop).strip().rstrip("."), "description": text}


def _parameter(place: str, name: str, schema: dict[str, Any], required: bool = False) -> dict[str, Any]:
    return {"name": name, "in": place, "required": required or place == "path", "schema": schema}


def _query(fields: dict[str, Described], in_path: Iterable[str]) -> list[dict[str, Any]]:
    left = {name: field for name, field in fields.items() if name not in in_path}
    return [_parameter("query", name, field.schema, required=field.required) for name, field in left.items()]


def _bounds(parameters: list[dict[str, Any]], fields: dict[str, Any]) -> None:
    """Give the parameters in the path the schemas of the request's fields."""
    for parameter in parameters:
        if parameter["name"] in fields:
            parameter["schema"] = fields[parameter["name"]].schema


def _success(created: str, answer: dict[str, Any] | None, content_type: str) -> dict[str, Any]:
    schema = answer if answer is not None else {"type": "string"}
    described = {
        "description": "done",
        "headers": {
            name: {"$ref": f"#/components/headers/{name}"}
            for name in ("X-Request-Id", "X-Raft-Index", "X-Raft-Leader", "Idempotency-Replayed")
        },
        "content": {content_type: {"schema": schema}},
    }
    return {"200": described} if created == "200" else {"200": described, "201": described | {"description": "created"}}


def _failures(access: Access | None, codes: Iterable[ErrorCode]) -> dict[str, Any]:
    all_codes: dict[str, ErrorCode] = {code.code: code for code in codes}
    if access is not None:
        for code in (*_ANY_CALL, *_WITH_KEY, *(_IN_SPACE if access is Access.SPACE else ())):
            all_codes.setdefault(code.code, code)
    by_status: dict[int, list[ErrorCode]] = {}
    for code in all_codes.values():
        by_status.setdefault(code.status, []).append(code)
    return {
        str(status): {
            "description": "; ".join(f"{code.code}: {code.meaning}" for code in sharing),
            "headers": {"X-Request-Id": {"$ref": "#/components/headers/X-Request-Id"}}
            | ({"Retry-After": {"$ref": "#/components/headers/Retry-After"}} if status in (409, 429, 503) else {}),
            "content": {
                JSON: {
                    "schema": {
                        "allOf": [
                            {"$ref": "#/components/schemas/Error"},
                            {"properties": {"error": {"properties": {"code": {"enum": [c.code for c in sharing]}}}}},
                        ]
                    }
                }
            },
        }
        for status, sharing in sorted(by_status.items())
    }


def _error_schema() -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["code", "message", "requestId"],
                "properties": {
                    "code": {"type": "string", "enum": sorted(errors.ERRORS)},
                    "message": {"type": "string"},
                    "requestId": {"type": "string"},
                    "details": {"type": "object"},
                },
            }
        },
    }


class OpenApiPages:
    """The document as JSON and as YAML, made when it is first asked for; in a thread, for it takes long."""

    def __init__(self) -> None:
        self._endpoints: Iterable[Endpoint] = ()
        self._pages: tuple[Page, Page] | None = None

    def begin(self, endpoints: Iterable[Endpoint]) -> None:
        """What the document describes: all endpoints, these two included."""
        self._endpoints = endpoints

    def endpoints(self) -> list[OwnEndpoint]:
        about = "This document"
        return [
            OwnEndpoint("openapi.json", "GET", "/openapi.json", None, f"{about} as JSON.", self.as_json),
            OwnEndpoint(
                "openapi.yaml", "GET", "/openapi.yaml", None, f"{about} as YAML.", self.as_yaml, content_type=YAML
            ),
        ]

    async def as_json(self, _: Call) -> Page:
        return (await self._made())[0]

    async def as_yaml(self, _: Call) -> Page:
        return (await self._made())[1]

    async def _made(self) -> tuple[Page, Page]:
        if self._pages is None:
            self._pages = await asyncio.to_thread(self._make)
        return self._pages

    def _make(self) -> tuple[Page, Page]:
        described = document(self._endpoints)
        text = json.dumps(described, indent=2, ensure_ascii=False)
        return Page(200, JSON, text.encode()), Page(200, YAML, yaml_text(described).encode())
