"""Acquiring a claim: exclusive, leased ownership of a key in a run, at once or through the key's line.

Who asks with `waitMs` joins the line; otherwise, and when the time is up, the answer is CLAIM_HELD and says whose the
key is. Nobody overtakes the line, and a claim is not re-entrant. The answer to the one who acquired is the only way by
which a token leaves. The rules of ownership are in `ownership`, the other calls in `owners`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from statemachine import leases, lines, ownership, scopes
from statemachine.context import Context
from statemachine.declare import Wait, operation
from statemachine.errors import (
    CLAIM_HELD,
    DEADLINE_EXCEEDED,
    NOT_FOUND,
    SCOPE_CANCELLED,
    Refused,
)
from statemachine.lines import Waiter
from statemachine.ownership import CLAIMS, HELD, LINES, RELEASED, TAKE_MS, Claim
from statemachine.types import (
    LEASE_SECONDS_DEFAULT,
    WAIT_MS_MAX,
    Answer,
    Id,
    InLine,
    Key,
    LeaseSeconds,
    Name,
    Request,
    WaitMs,
)


class AcquireClaim(Request, frozen=True):
    """wait_ms: how long to stand in the key's line when somebody owns it, at most 30,000."""

    key: Key
    scope_id: Id
    holder: Name
    holder_session: Name
    lease_seconds: LeaseSeconds | None = None
    wait_ms: WaitMs = 0


class TakeClaim(Request, frozen=True):
    waiter_id: Id
    scope_id: Id
    key: Key
    leave: bool


class ClaimGranted(Answer, frozen=True):
    claim_id: str
    key: str
    scope_id: str
    token: str
    generation: int
    lease_expires_at: str


class ClaimInLine(InLine, frozen=True):
    waiter_id: str
    scope_id: str
    key: str


# ---------------------------------------------------------------------- acquiring


def _topic(answer: Any) -> Any:
    return lines.topic(answer["waiterId"])


def _resume(answer: Any, leave: bool) -> TakeClaim:
    return TakeClaim(waiter_id=answer["waiterId"], scope_id=answer["scopeId"], key=answer["key"], leave=leave)


ACQUIRE_ERRORS = (NOT_FOUND, SCOPE_CANCELLED, DEADLINE_EXCEEDED, CLAIM_HELD)
ACQUIRE_EVENTS = ("claim.acquired", "claim.lapsed")


@operation(
    "claims.acquire",
    "POST /claims",
    errors=ACQUIRE_ERRORS,
    events=ACQUIRE_EVENTS,
    wait=Wait(take="claims.take", topic=_topic, resume=_resume),
)
def acquire(context: Context, request: AcquireClaim) -> ClaimGranted | ClaimInLine:
    """Become the owner of a key of a run, or join its line if `waitMs` is given.

    CLAIM_HELD: somebody owns it, also when it is the same holder and session; `details` say who and until when.
    """
    scope = scopes.require_active(context, request.scope_id)
    claim = context.rows(CLAIMS).get((scope.id, request.key))
    seconds = request.lease_seconds or LEASE_SECONDS_DEFAULT
    if claim is None:
        generation = scopes.first_generation(scope)
    elif _free(context, claim):
        claim = ownership.lapse_unswept(context, claim)
        generation = claim.lease.generation + 1
    elif request.wait_ms:
        return _join(context, request, seconds)
    else:
        raise _held(context, claim)
    lease = leases.grant(context, scope.id, generation, request.holder, request.holder_session, seconds)
    return _granted(context, ownership.begin(context, scope.id, request.key, lease, claim))


def _free(context: Context, claim: Claim) -> bool:
    """Whether a newcomer may have the key: nobody owns it, and nobody is about to."""
    if claim.state == HELD and leases.live(context, claim.lease):
        return False
    return lines.head(context, LINES, ownership.line_of(claim.scope_id, claim.key)) is None


def _join(context: Context, request: AcquireClaim, seconds: int) -> ClaimInLine:
    waiter = lines.join(
        context,
        LINES,
        ownership.line_of(request.scope_id, request.key),
        scope_id=request.scope_id,
        holder=request.holder,
        session=request.holder_session,
        wait_ms=min(request.wait_ms, WAIT_MS_MAX),
        lease_seconds=seconds,
    )
    context.mark_waiting()
    return ClaimInLine(waiter_id=waiter.id, scope_id=request.scope_id, key=request.key)


@operation(
    "claims.take", repeatable=True, urgent=True, errors=ACQUIRE_ERRORS, events=(*ACQUIRE_EVENTS, "claim.released")
)
def take(context: Context, request: TakeClaim) -> ClaimGranted | ClaimInLine:
    """Fetch the token for a request that stands in line, or give up its place.

    A repeat gets the same answer as long as that owner owns the key.
    """
    claim = context.rows(CLAIMS).get((request.scope_id, request.key))
    waiter = lines.find(context, request.waiter_id)
    if request.leave:
        return _leave(context, request, claim, waiter)
    scopes.require_active(context, request.scope_id)
    if waiter is not None and waiter.state == lines.WAITING:
        context.mark_waiting()
        return ClaimInLine(waiter_id=waiter.id, scope_id=request.scope_id, key=request.key)
    if claim is None or claim.waiter != request.waiter_id or not ownership.owned(context, claim):
        raise _held(context, claim)
    if waiter is not None:
        context.keyed = waiter.keyed
        lines.serve(context, waiter)
        lease = leases.extended(context, claim.lease, claim.lease.seconds)
        claim = msgspec.structs.replace(claim, lease=lease)
        context.rows(CLAIMS).put(claim)
    return _granted(context, claim)


def _leave(context: Context, request: TakeClaim, claim: Claim | None, waiter: Waiter | None) -> ClaimInLine:
    """Remove the place in line, and refuse as if nobody had stood there."""
    error = scopes.ended(context, scopes.find(context, request.scope_id))
    if error is not None:
        raise Refused(error)
    if waiter is None:
        raise _held(context, claim)
    if waiter.state == lines.WAITING:
        lines.leave(context, waiter)
    else:
        assert claim is not None, request
        claim = ownership.end(context, claim, RELEASED, {})
    context.refuse(_held(context, claim))
    return ClaimInLine(waiter_id=waiter.id, scope_id=request.scope_id, key=request.key)


def _granted(context: Context, claim: Claim) -> ClaimGranted:
    context.mark_created()
    lease = claim.lease
    return ClaimGranted(
        claim.id, claim.key, claim.scope_id, lease.token, lease.generation, context.lease_text(lease.deadline_ms)
    )


def _held(context: Context, claim: Claim | None) -> Refused:
    """The refusal of one who cannot have the key now: whose it is, or is about to be."""
    if claim is not None and ownership.owned(context, claim):
        lease = claim.lease
        return Refused(
            CLAIM_HELD,
            f"{claim.key!r} is held by {lease.holder!r}",
            retry_after_ms=leases.left_ms(context, lease),
            holder=lease.holder,
            generation=lease.generation,
            leaseExpiresAt=context.lease_text(lease.deadline_ms),
        )
    head = None if claim is None else lines.head(context, LINES, ownership.line_of(claim.scope_id, claim.key))
    if claim is None or head is None:
        return Refused(CLAIM_HELD, "the place in line came to nothing; ask again", retry_after_ms=0)
    return Refused(
        CLAIM_HELD,
        f"{claim.key!r} is about to be held by {head.holder!r}, who is first in line",
        retry_after_ms=TAKE_MS,
        holder=head.holder,
        generation=leases.never_given(context, claim.lease.generation + 1),
        leaseExpiresAt=context.lease_text(context.lease_now_ms + TAKE_MS),
    )
