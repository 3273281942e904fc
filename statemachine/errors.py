"""Every way in which a request can fail, in one table.

The HTTP status, the OpenAPI responses, the client's exception, its retry policy and the checker's verdict on a failed
operation are all read from here. Codes are part of the wire format: add freely, never rename, never reuse one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Retry(Enum):
    """Whether the same request may succeed when it is sent again."""

    NEVER = "never"
    LATER = "later"  # after the pause that Retry-After names
    SAME_KEY = "same key"  # only with the same idempotency key: the outcome may be unknown


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """One row of the table.

    Every code but UNAVAILABLE says for certain that nothing was changed. UNAVAILABLE says so too, or else the request
    carried an idempotency key, with which a repeat settles what happened.
    """

    code: str
    status: int
    retry: Retry
    meaning: str


class Refused(Exception):
    """Raised by an operation before its first change; becomes the outcome of the request.

    message: one sentence for a person, naming the field and the bound where one is at fault.
    details: machine-readable facts, for example who holds the key and until when.
    retry_after_ms: how long the caller may want to wait, when that is known.
    """

    def __init__(
        self, error: ErrorCode, message: str = "", *, retry_after_ms: int | None = None, **details: Any
    ) -> None:
        super().__init__(message or error.meaning)
        self.error = error
        self.message = message or error.meaning
        self.retry_after_ms = retry_after_ms
        self.details: Mapping[str, Any] = details


ERRORS: dict[str, ErrorCode] = {}


def _declare(code: str, status: int, retry: Retry, meaning: str) -> ErrorCode:
    assert code not in ERRORS, code
    ERRORS[code] = error = ErrorCode(code, status, retry, meaning)
    return error


# fmt: off
VALIDATION_FAILED        = _declare("VALIDATION_FAILED", 400, Retry.NEVER, "a body, a query or a path does not fit")
UNAUTHENTICATED          = _declare("UNAUTHENTICATED", 401, Retry.NEVER, "no key, or an unknown, expired or revoked one")
FORBIDDEN                = _declare("FORBIDDEN", 403, Retry.NEVER, "the key lacks the permission or belongs to another space")
ENTITLEMENT_EXCEEDED     = _declare("ENTITLEMENT_EXCEEDED", 403, Retry.NEVER, "the organization's plan allows no more spaces")
SPACE_SUSPENDED          = _declare("SPACE_SUSPENDED", 403, Retry.NEVER, "the space is suspended by the operator")
NOT_FOUND                = _declare("NOT_FOUND", 404, Retry.NEVER, "there is no such thing")
METHOD_NOT_ALLOWED       = _declare("METHOD_NOT_ALLOWED", 405, Retry.NEVER, "the path exists, the method does not")
CONFLICT                 = _declare("CONFLICT", 409, Retry.NEVER, "exists with other settings, or its state does not allow it")
CLAIM_HELD               = _declare("CLAIM_HELD", 409, Retry.LATER, "somebody else owns the key")
IDEMPOTENCY_CONFLICT     = _declare("IDEMPOTENCY_CONFLICT", 409, Retry.NEVER, "the idempotency key was used for another request")
SCOPE_CANCELLED          = _declare("SCOPE_CANCELLED", 409, Retry.NEVER, "the run or an ancestor was cancelled or completed")
DEADLINE_EXCEEDED        = _declare("DEADLINE_EXCEEDED", 409, Retry.NEVER, "the deadline of the run or of an ancestor passed")
STALE_CLAIM              = _declare("STALE_CLAIM", 409, Retry.NEVER, "the token is not the current one")
CAPACITY_UNAVAILABLE     = _declare("CAPACITY_UNAVAILABLE", 409, Retry.LATER, "the pool is full, or others wait in line")
BACKLOG_FULL             = _declare("BACKLOG_FULL", 409, Retry.LATER, "the mailbox has reached its backlog limit")
BARRIER_RELEASED         = _declare("BARRIER_RELEASED", 409, Retry.NEVER, "the barrier has been released")
BARRIER_CANCELLED        = _declare("BARRIER_CANCELLED", 409, Retry.NEVER, "the barrier's run has ended")
INSUFFICIENT_BUDGET      = _declare("INSUFFICIENT_BUDGET", 409, Retry.NEVER, "the budget does not cover the amount")
LEASE_RENEWALS_EXHAUSTED = _declare("LEASE_RENEWALS_EXHAUSTED", 409, Retry.NEVER, "held longer than the space allows")
CURSOR_EXPIRED           = _declare("CURSOR_EXPIRED", 410, Retry.NEVER, "the cursor is older than the retained events")
RATE_LIMITED             = _declare("RATE_LIMITED", 429, Retry.LATER, "the request rate of the key or the space")
SERVICE_RATE_LIMITED     = _declare("SERVICE_RATE_LIMITED", 429, Retry.LATER, "the request rate of the node")
ALLOWANCE_EXHAUSTED      = _declare("ALLOWANCE_EXHAUSTED", 429, Retry.LATER, "the quota's window is used up, or others wait")
ALLOWANCE_COOLDOWN       = _declare("ALLOWANCE_COOLDOWN", 429, Retry.LATER, "the quota is cooling down")
CONCURRENCY_LIMITED      = _declare("CONCURRENCY_LIMITED", 429, Retry.LATER, "the plan's number of agents at once is reached")
OPERATIONS_EXHAUSTED     = _declare("OPERATIONS_EXHAUSTED", 429, Retry.LATER, "the plan's operations of this month are used up")
RESOURCE_EXHAUSTED       = _declare("RESOURCE_EXHAUSTED", 507, Retry.LATER, "no room for new work; hand-backs and reads go on")
INTERNAL                 = _declare("INTERNAL", 500, Retry.NEVER, "a defect of the server; nothing was changed")
UNAVAILABLE              = _declare("UNAVAILABLE", 503, Retry.SAME_KEY, "no leader, or the request's time ran out")
# fmt: on
