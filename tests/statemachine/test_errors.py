"""The table of errors is a promise: codes, statuses and what a client may do about them."""

from __future__ import annotations

import pytest

from statemachine import errors
from statemachine.errors import ERRORS, ErrorCode, Refused, Retry

STATUSES = {
    400: {"VALIDATION_FAILED"},
    401: {"UNAUTHENTICATED"},
    403: {"FORBIDDEN", "ENTITLEMENT_EXCEEDED", "SPACE_SUSPENDED"},
    404: {"NOT_FOUND"},
    405: {"METHOD_NOT_ALLOWED"},
    409: {
        "CONFLICT", "CLAIM_HELD", "IDEMPOTENCY_CONFLICT", "SCOPE_CANCELLED", "DEADLINE_EXCEEDED", "STALE_CLAIM",
        "CAPACITY_UNAVAILABLE", "BACKLOG_FULL", "BARRIER_RELEASED", "BARRIER_CANCELLED", "INSUFFICIENT_BUDGET",
        "LEASE_RENEWALS_EXHAUSTED",
    },
    410: {"CURSOR_EXPIRED"},
    429: {
        "RATE_LIMITED", "SERVICE_RATE_LIMITED", "ALLOWANCE_EXHAUSTED", "ALLOWANCE_COOLDOWN", "CONCURRENCY_LIMITED",
        "OPERATIONS_EXHAUSTED",
    },
    500: {"INTERNAL"},
    503: {"UNAVAILABLE"},
    507: {"RESOURCE_EXHAUSTED"},
}  # fmt: skip


def test_every_code_has_its_status_and_none_is_missing() -> None:
    listed = {code: status for status, codes in STATUSES.items() for code in codes}
    assert {code: error.status for code, error in ERRORS.items()} == listed


@pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS.keys())
def test_a_code_is_a_constant_of_the_module_with_a_meaning(error: ErrorCode) -> None:
    assert getattr(errors, error.code) is error
    assert error.meaning
    assert not error.meaning.endswith(".")


def test_only_an_unknown_outcome_needs_the_same_key_again() -> None:
    assert [code for code, error in ERRORS.items() if error.retry is Retry.SAME_KEY] == ["UNAVAILABLE"]


def test_what_is_over_a_rate_or_busy_may_be_tried_later() -> None:
    for status in (429, 507):
        assert all(ERRORS[code].retry is Retry.LATER for code in STATUSES[status])


def test_a_refusal_carries_its_meaning_unless_told_more() -> None:
    plain = Refused(errors.NOT_FOUND)
    assert plain.message == str(plain) == errors.NOT_FOUND.meaning
    assert plain.details == {}
    assert plain.retry_after_ms is None
    told = Refused(errors.CLAIM_HELD, "held", retry_after_ms=50, holder="w")
    assert (told.message, told.retry_after_ms, told.details) == ("held", 50, {"holder": "w"})
