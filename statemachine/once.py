"""The calls of the API on keys that are run once per run, their result shared. The rules are in `results`.

Whoever acquires an open key runs it and hands back a result or an error; everybody else learns that it is held, or its
outcome. A hand-back that is repeated with the same token and content gets the first answer as long as the key has had
no other holder; every other call with a token that is not the current one is STALE_CLAIM.

An ended run refuses to acquire and to renew; what is held there can still be handed back, and is still read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from statemachine import leases, results, scopes
from statemachine.context import Context, View
from statemachine.declare import operation, query
from statemachine.errors import (
    DEADLINE_EXCEEDED,
    LEASE_RENEWALS_EXHAUSTED,
    NOT_FOUND,
    SCOPE_CANCELLED,
    STALE_CLAIM,
)
from statemachine.results import DONE, FAILED, HELD, ONCE, OPEN, Once
from statemachine.store import Topic
from statemachine.types import (
    LEASE_SECONDS_DEFAULT,
    NULL,
    Answer,
    Id,
    Key,
    LeaseSeconds,
    Name,
    Payload,
    Request,
    Token,
    WaitMs,
)

ERROR_LENGTH_MAX = 4_096  # characters; what is longer is cut
State: TypeAlias = Literal["OPEN", "HELD", "DONE", "FAILED"]


class AcquireOnce(Request, frozen=True):
    scope_id: Id
    key: Key
    holder: Name
    holder_session: Name
    lease_seconds: LeaseSeconds | None = None


class GetOnce(Request, frozen=True):
    """wait_ms: how long to wait while somebody runs it."""

    scope_id: Id
    key: Key
    wait_ms: WaitMs = 0


class RenewOnce(Request, frozen=True):
    """lease_seconds: from now on; as many as were last asked for when absent."""

    scope_id: Id
    key: Key
    token: Token
    lease_seconds: LeaseSeconds | None = None


class CompleteOnce(Request, frozen=True):
    scope_id: Id
    key: Key
    token: Token
    result: Payload = NULL


class FailOnce(Request, frozen=True):
    """error: cut at 4,096 characters. max_attempts: this was the last try when there are as many failed ones."""

    scope_id: Id
    key: Key
    token: Token
    error: str
    max_attempts: Annotated[int, Meta(ge=1, le=1_000_000)]


class OnceAcquired(Answer, frozen=True):
    """state: ACQUIRED (run it: token, generation, leaseExpiresAt), HELD (leaseExpiresAt), DONE (result), FAILED
    (lastError). attempts: the failed tries so far.
    """

    state: Literal["ACQUIRED", "HELD", "DONE", "FAILED"]
    attempts: int
    token: str | UnsetType = UNSET
    generation: int | UnsetType = UNSET
    lease_expires_at: str | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    last_error: str | UnsetType = UNSET


class OnceView(Answer, frozen=True):
    """scope_state: how the run ended; absent while it is active."""

    state: State
    attempts: int
    lease_expires_at: str | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    last_error: str | UnsetType = UNSET
    scope_state: str | UnsetType = UNSET


class OnceRenewed(Answer, frozen=True):
    lease_expires_at: str


class OnceDone(Answer, frozen=True):
    state: Literal["DONE"]


class OnceTried(Answer, frozen=True):
    state: Literal["OPEN", "FAILED"]
    attempts: int


@operation(
    "once.acquire",
    "POST /once/acquire",
    errors=(NOT_FOUND, SCOPE_CANCELLED, DEADLINE_EXCEEDED),
    events=("once.acquired", "once.lapsed", "once.exhausted"),
)
def acquire(context: Context, request: AcquireOnce) -> OnceAcquired:
    """Become the one who runs a key, or learn that somebody runs it, or what became of it.

    Not re-entrant: the holder who asks again is told HELD.
    """
    scope = scopes.require_active(context, request.scope_id)
    once = context.rows(ONCE).get((scope.id, request.key))
    if once is not None and once.state == HELD and not leases.live(context, once.lease):
        once = results.lapse(context, once)  # the sweep has not come by yet
    if once is not None and once.state != OPEN:
        context.keyed = None  # a repeat is to learn what became of it since
        results.note_use(context, once)
        return _acquired(context, once)
    seconds = request.lease_seconds or LEASE_SECONDS_DEFAULT
    held = results.hold(context, scope, request.key, once, request.holder, request.holder_session, seconds)
    lease = held.lease
    return OnceAcquired("ACQUIRED", held.attempts, lease.token, lease.generation, context.lease_text(lease.deadline_ms))


def _acquired(context: Context, once: Once) -> OnceAcquired:
    view = _view(context, once, UNSET)
    return OnceAcquired(
        state="HELD" if view.state == "OPEN" else view.state,
        attempts=view.attempts,
        lease_expires_at=view.lease_expires_at,
        result=view.result,
        last_error=view.last_error,
    )


@operation(
    "once.renew",
    "POST /once/renew",
    repeatable=True,
    urgent=True,
    errors=(STALE_CLAIM, SCOPE_CANCELLED, DEADLINE_EXCEEDED, LEASE_RENEWALS_EXHAUSTED),
)
def renew(context: Context, request: RenewOnce) -> OnceRenewed:
    """Keep holding a key. Refused once the run has ended."""
    once = _find(context, request)
    _require_current(context, once, request.token)
    scopes.require_active(context, once.scope_id)
    lease = leases.renewed(context, once.lease, request.lease_seconds)
    context.rows(ONCE).put(msgspec.structs.replace(once, lease=lease))
    return OnceRenewed(context.lease_text(lease.deadline_ms))


@operation(
    "once.complete",
    "POST /once/complete",
    repeatable=True,
    urgent=True,
    errors=(STALE_CLAIM,),
    events=("once.completed",),
)
def complete(context: Context, request: CompleteOnce) -> OnceDone:
    """Hand back the result of a key. It stands from here on."""
    once = _find(context, request)
    result = bytes(request.result)
    if once.state == DONE and once.lease.token == request.token and once.result == result:
        return OnceDone("DONE")
    _require_current(context, once, request.token)
    results.complete(context, once, result)
    return OnceDone("DONE")


@operation(
    "once.fail",
    "POST /once/fail",
    repeatable=True,
    urgent=True,
    errors=(STALE_CLAIM,),
    events=("once.failed", "once.exhausted"),
)
def fail(context: Context, request: FailOnce) -> OnceTried:
    """Hand back a key whose try failed: it is open again, or has failed for good after `maxAttempts` tries."""
    once = _find(context, request)
    error = request.error[:ERROR_LENGTH_MAX]
    repeated = once.handed_back and once.state != DONE and once.lease.token == request.token
    if not (repeated and once.last_error == error and once.max_attempts == request.max_attempts):
        _require_current(context, once, request.token)
        once = results.fail(context, once, error, request.max_attempts)
    return OnceTried("FAILED" if once.state == FAILED else "OPEN", once.attempts)


def _find(view: View, request: RenewOnce | CompleteOnce | FailOnce) -> Once:
    once = view.rows(ONCE).get((request.scope_id, request.key))
    if once is None or once.space != view.space:
        raise leases.stale()
    return once


def _require_current(view: View, once: Once, token: str) -> None:
    if once.state != HELD:
        raise leases.stale()
    leases.require(view, once.lease, token)


def _topics(view: View, request: GetOnce) -> Sequence[Topic]:
    return [(ONCE.name, (request.scope_id, request.key)), *scopes.lineage_topics(view, request.scope_id)]


def _settled(answer: OnceView) -> bool:
    return answer.state != HELD or answer.scope_state is not UNSET


@query("once.get", "GET /once", errors=(NOT_FOUND,), topics=_topics, settled=_settled)
def get(view: View, request: GetOnce) -> OnceView:
    """What became of a key: OPEN when nobody runs it. Waits while it is held, until its run ends."""
    scope = scopes.find(view, request.scope_id)
    state = scopes.effective(view, scope)
    ended = UNSET if state == scopes.ACTIVE else state
    once = view.rows(ONCE).get((scope.id, request.key))
    if once is None:
        return OnceView(state="OPEN", attempts=0, scope_state=ended)
    return _view(view, results.seen(view, once), ended)


def _view(view: View, once: Once, ended: str | UnsetType) -> OnceView:
    held, done = once.state == HELD, once.state == DONE
    return OnceView(
        state=once.state,  # type: ignore[arg-type]
        attempts=once.attempts,
        lease_expires_at=view.lease_text(once.lease.deadline_ms) if held else UNSET,
        result=UNSET if once.result is None else Raw(once.result),
        last_error=UNSET if once.last_error is None or done else once.last_error,
        scope_state=ended,
    )
