"""Answers of requests that carried an idempotency key, kept so that a repeat gets the first one.

Only what changed something is kept, for 15 minutes of lease time; when the records of all spaces outgrow their bound,
the oldest go earlier, but none before two minutes. If even that makes no room, new keyed work is refused.
"""

from __future__ import annotations

from statemachine.context import Context, View
from statemachine.errors import IDEMPOTENCY_CONFLICT, SERVICE_RATE_LIMITED, Refused
from statemachine.store import Due, Ordered, Table, Tally
from statemachine.types import Record

KEPT_MS = 15 * 60_000
KEPT_AT_LEAST_MS = 2 * 60_000
BYTES_MAX = 256 << 20  # over all spaces, equal on all nodes
EVICTED_AT_ONCE = 64


class Answered(Record, frozen=True):
    space: str
    key: str
    fingerprint: bytes
    status: int
    body: bytes
    index: int
    position: int
    at_ms: int  # lease time


def _forget(context: Context, answered: Answered) -> None:
    context.rows(ANSWERS).delete((answered.space, answered.key))


def _weight(answered: Answered) -> int:
    return 256 + len(answered.key) + len(answered.body)


OLDEST: Ordered[Answered] = Ordered(group=lambda _: 0, order=lambda a: (a.index, a.position))
SIZE: Tally[Answered] = Tally(group=lambda _: 0, amount=_weight)

ANSWERS = Table(
    "idempotency",
    Answered,
    key=lambda a: (a.space, a.key),
    space=lambda a: a.space,
    weight=_weight,
    indexes=(OLDEST, SIZE),
    due=(Due("idempotency.forget", "lease", at=lambda a: a.at_ms + KEPT_MS, run=_forget),),
)


def recall(view: View, key: str, fingerprint: bytes) -> Answered | None:
    """The kept answer of the same request, None if there is none.

    Raises IDEMPOTENCY_CONFLICT when the key was used for another request.
    """
    answered = view.rows(ANSWERS).get((view.space, key))
    if answered is None or answered.at_ms + KEPT_MS <= view.lease_now_ms:
        return None
    if answered.fingerprint != fingerprint:
        raise Refused(
            IDEMPOTENCY_CONFLICT, f"idempotency key {key!r} was used for another request; use a new key for a new one"
        )
    return answered


def make_room(context: Context) -> None:
    """Drop the oldest answers while the bound is exceeded; SERVICE_RATE_LIMITED when they are too young for that."""
    rows = context.rows(ANSWERS)
    for _ in range(EVICTED_AT_ONCE):
        if rows.tally(SIZE, 0) <= BYTES_MAX:
            return
        oldest = rows.first(OLDEST, 0)
        assert oldest is not None
        if oldest.at_ms + KEPT_AT_LEAST_MS > context.lease_now_ms:
            wait_ms = oldest.at_ms + KEPT_AT_LEAST_MS - context.lease_now_ms
            raise Refused(SERVICE_RATE_LIMITED, "no room for another idempotency record", retry_after_ms=wait_ms)
        rows.delete((oldest.space, oldest.key))


def drop(context: Context, key: str) -> None:
    """Forget the answer of a request whose place in a line came to nothing, so that a repeat tries afresh."""
    if (context.space, key) in context.rows(ANSWERS):
        context.rows(ANSWERS).delete((context.space, key))


def keep(context: Context, key: str, fingerprint: bytes, status: int, body: bytes) -> None:
    """Keep the answer of an operation that just succeeded and changed something."""
    context.rows(ANSWERS).put(
        Answered(
            space=context.space,
            key=key,
            fingerprint=fingerprint,
            status=status,
            body=body,
            index=context.index,
            position=context.position,
            at_ms=context.lease_now_ms,
        )
    )
