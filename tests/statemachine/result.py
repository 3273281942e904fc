"""What came of an operation or a query, decoded for tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from statemachine.machine import Outcome

_EMPTY: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Result:
    """An outcome, or a query's answer, with its body decoded. `result["field"]` reads the body."""

    name: str
    status: int
    code: str
    body: Any
    message: str = ""
    replayed: bool = False
    index: int = 0
    position: int = 0
    retry_after_ms: int | None = None

    def __getitem__(self, field: str) -> Any:
        assert not self.code, f"{self.name} was refused: {self.code} {self.message}"
        return self.body[field]

    def __contains__(self, field: str) -> bool:
        return self.body is not None and field in self.body

    @property
    def details(self) -> Mapping[str, Any]:
        """The machine-readable part of a refusal."""
        return self.body["error"].get("details", _EMPTY) if self.code else _EMPTY


def decoded(name: str, outcome: Outcome) -> Result:
    """The outcome of the operation or query of that name."""
    body = json.loads(outcome.body) if outcome.body else None
    message = body["error"]["message"] if outcome.code else ""
    return Result(
        name,
        outcome.status,
        outcome.code,
        body,
        message,
        outcome.replayed,
        outcome.index,
        outcome.position,
        outcome.retry_after_ms,
    )
