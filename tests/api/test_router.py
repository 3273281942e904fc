"""The routing table, on paths of its own and on all that is declared."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from api.call import Call
from api.endpoint import Result
from api.router import PREFIXES, Router, access_of, fields_of
from statemachine import registry
from statemachine.declare import OPERATIONS, QUERIES, Access

assert registry.PRIMITIVES


@dataclass(frozen=True)
class Spot:
    """An endpoint that is only found, never called."""

    method: str
    template: str
    name: str = ""
    access: Access | None = None

    async def answer(self, call: Call) -> Result:
        raise AssertionError(call)


SPOTS = [
    Spot("GET", "/tasks"),
    Spot("POST", "/tasks"),
    Spot("POST", "/tasks/admit"),
    Spot("GET", "/tasks/{id}"),
    Spot("POST", "/tasks/{id}/cancel"),
    Spot("PUT", "/mailboxes/by-name/{name}"),
    Spot("POST", "/mailboxes/{id}/messages"),
    Spot("GET", "/"),
]
ROUTER = Router(SPOTS)


def find(method: str, path: str) -> tuple[str, list[str]] | None:
    found = ROUTER.match(method, path.split("/")[1:])
    return None if found is None else (found[0].template, found[1])


@pytest.mark.parametrize(
    ("method", "path", "template", "values"),
    [
        ("GET", "/tasks", "/tasks", []),
        ("POST", "/tasks/admit", "/tasks/admit", []),
        ("GET", "/tasks/admit", "/tasks/{id}", ["admit"]),
        ("POST", "/tasks/admit/cancel", "/tasks/{id}/cancel", ["admit"]),
        ("GET", "/tasks/", "/tasks/{id}", [""]),
        ("PUT", "/mailboxes/by-name/messages", "/mailboxes/by-name/{name}", ["messages"]),
        ("POST", "/mailboxes/by-name/messages", "/mailboxes/{id}/messages", ["by-name"]),
        ("GET", "/", "/", []),
    ],
)
def test_literals_win_and_fields_catch_the_rest(method: str, path: str, template: str, values: list[str]) -> None:
    assert find(method, path) == (template, values)


@pytest.mark.parametrize("path", ["/task", "/tasks/1/cancel/", "/tasks/1/2/3", "//tasks", "/mailboxes/by-name"])
def test_what_is_not_in_the_table_is_not_found(path: str) -> None:
    assert find("GET", path) is None
    assert find("POST", path) is None


def test_allowed_methods_are_those_of_every_branch() -> None:
    assert ROUTER.allowed(["tasks"]) == ["GET", "POST"]
    assert ROUTER.allowed(["tasks", "admit"]) == ["GET", "POST"]
    assert ROUTER.allowed(["mailboxes", "by-name", "messages"]) == ["POST", "PUT"]
    assert ROUTER.allowed(["nothing"]) == []


def test_a_path_is_declared_once() -> None:
    with pytest.raises(AssertionError, match="declared twice"):
        Router([Spot("GET", "/a/{x}"), Spot("GET", "/a/{y}")])


@pytest.mark.parametrize("declared", [*OPERATIONS.values(), *QUERIES.values()], ids=lambda d: d.name)
def test_everything_declared_is_found_at_its_path(declared: object) -> None:
    spots = [
        Spot(d.method, PREFIXES[d.access] + d.path, d.name) for d in (*OPERATIONS.values(), *QUERIES.values()) if d.path
    ]
    wanted = [spot for spot in spots if spot.name == getattr(declared, "name", "")]
    for spot in wanted:
        parts = [f"<{part[1:-1]}>" if part[:1] == "{" else part for part in spot.template.split("/")[1:]]
        found = Router(spots).match(spot.method, parts)
        assert found == (spot, [f"<{name}>" for name in fields_of(spot.template)])


def test_whose_an_unknown_path_is() -> None:
    assert access_of(["v1", "spaces", "spc_1", "nothing"]) is Access.SPACE
    assert access_of(["v1", "nothing"]) is Access.KEY
    assert access_of(["admin", "v1", "nothing"]) is Access.OPERATOR
    assert access_of(["nothing"]) is None
    assert access_of([]) is None
