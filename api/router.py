"""The routing table: a tree of path segments, built once from the declarations.

A literal segment wins over a field; where the literal branch does not have the method, the field's branch is tried, so
that `/tasks/admit` and `/tasks/{id}` can stand side by side. Paths are exact: no trailing slash, no redirect.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from api.endpoint import Endpoint
from statemachine.declare import Access

PREFIXES = {Access.SPACE: "/v1/spaces/{spaceId}", Access.KEY: "/v1", Access.OPERATOR: "/admin/v1"}

_FIELD = re.compile(r"\{([A-Za-z]+)\}")


@dataclass(slots=True)
class _Node:
    literals: dict[str, _Node] = field(default_factory=dict)
    any: _Node | None = None
    methods: dict[str, Endpoint] = field(default_factory=dict)


class Router:
    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self._root = _Node()
        for endpoint in endpoints:
            node = self._root
            for segment in endpoint.template.split("/")[1:]:
                if _FIELD.fullmatch(segment):
                    node.any = node.any or _Node()
                    node = node.any
                else:
                    assert "{" not in segment, endpoint.template
                    node = node.literals.setdefault(segment, _Node())
            assert endpoint.method not in node.methods, f"{endpoint.method} {endpoint.template} is declared twice"
            node.methods[endpoint.method] = endpoint

    def match(self, method: str, segments: Sequence[str]) -> tuple[Endpoint, list[str]] | None:
        """The endpoint of a path's decoded segments, and the values of the template's fields in order."""
        values: list[str] = []
        endpoint = _find(self._root, method, segments, 0, values)
        return None if endpoint is None else (endpoint, values)

    def allowed(self, segments: Sequence[str]) -> list[str]:
        """The methods that the path has, sorted; none for an unknown path."""
        return sorted({method for node in _ends(self._root, segments, 0) for method in node.methods})


def fields_of(template: str) -> list[str]:
    """The names of a template's fields, in order."""
    return _FIELD.findall(template)


def access_of(segments: Sequence[str]) -> Access | None:
    """Whose an unknown path is: who may not ask there is told so before he learns that there is nothing."""
    match segments:
        case ["v1", "spaces", _, *_]:
            return Access.SPACE
        case ["v1", *_]:
            return Access.KEY
        case ["admin", "v1", *_]:
            return Access.OPERATOR
    return None


def _find(node: _Node, method: str, segments: Sequence[str], depth: int, values: list[str]) -> Endpoint | None:
    if depth == len(segments):
        return node.methods.get(method)
    segment = segments[depth]
    literal = node.literals.get(segment)
    if literal is not None:
        found = _find(literal, method, segments, depth + 1, values)
        if found is not None:
            return found
    if node.any is not None:
        values.append(segment)
        found = _find(node.any, method, segments, depth + 1, values)
        if found is not None:
            return found
        values.pop()
    return None


def _ends(node: _Node, segments: Sequence[str], depth: int) -> Iterator[_Node]:
    if depth == len(segments):
        yield node
        return
    if (literal := node.literals.get(segments[depth])) is not None:
        yield from _ends(literal, segments, depth + 1)
    if node.any is not None:
        yield from _ends(node.any, segments, depth + 1)
