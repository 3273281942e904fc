"""Whether an outcome is one that its declaration allows: errors, events, and the shape of the answer.

Every operation and query that any test runs through the driver is checked, so that no declaration says less than what
is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args, get_type_hints

import msgspec

from statemachine.declare import Access, Operation, Query
from statemachine.errors import ERRORS
from statemachine.machine import Outcome
from statemachine.types import InLine

ANY_CALL = {"VALIDATION_FAILED", "UNAVAILABLE", "INTERNAL", "UNAUTHENTICATED", "FORBIDDEN"}
IN_SPACE = {"SPACE_SUSPENDED"}
KEYED = {"IDEMPOTENCY_CONFLICT", "SERVICE_RATE_LIMITED"}
NEW_WORK = {"RESOURCE_EXHAUSTED"}
ANY_CHANGE = {"space.nearly-full"}  # events of the space itself, by whatever filled it


class Error(msgspec.Struct, forbid_unknown_fields=True):
    """What every refusal has."""

    code: str
    message: str
    details: dict[str, Any] | None = None


class Envelope(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a refusal."""

    error: Error


def conforms(declared: Operation | Query, outcome: Outcome, events: Sequence[str] = ()) -> None:
    """Raises AssertionError when the declaration does not allow the outcome."""
    if outcome.code:
        allowed = allowed_codes(declared)
        assert outcome.code in allowed, f"{declared.name} refused with {outcome.code}, which it does not declare"
        assert outcome.status == ERRORS[outcome.code].status
        refusal = msgspec.json.decode(outcome.body, type=Envelope)
        assert refusal.error.code == outcome.code
        assert refusal.error.message
        assert refusal.error.details != {}, "details that say nothing"
    elif outcome.status == 204:
        assert not outcome.body
    else:
        assert outcome.status in (200, 201, 202), outcome
        _decode_strictly(outcome.body, in_line(declared) if outcome.status == 202 else declared.answer)
    if isinstance(declared, Operation):
        undeclared = set(events) - set(declared.events) - ANY_CHANGE
        assert not undeclared, f"{declared.name} emitted {undeclared}, which it does not declare"


def allowed_codes(declared: Operation | Query) -> set[str]:
    """The codes that the declaration allows, with those that any call of its kind may have."""
    allowed = ANY_CALL | {error.code for error in declared.errors}
    if declared.access is not Access.OPERATOR:
        allowed |= IN_SPACE
    if isinstance(declared, Operation):
        allowed |= set() if declared.repeatable else KEYED
        allowed |= set() if declared.urgent else NEW_WORK
    return allowed


def in_line(declared: Operation | Query) -> type:
    """The type of the answer to a caller that stands in a line now."""
    assert isinstance(declared, Operation)
    returned = get_type_hints(declared.apply)["return"]
    (found,) = [one for one in get_args(returned) if isinstance(one, type) and issubclass(one, InLine)]
    return found


def _decode_strictly(body: bytes, type_: type) -> None:
    decoded = msgspec.json.decode(body, type=type_)
    sent, read = msgspec.json.decode(body), msgspec.json.decode(msgspec.json.encode(decoded))
    assert sent == read, f"fields that {type_.__name__} does not have: {sent} {read}"
