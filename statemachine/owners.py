"""The calls of the API on claims that have an owner: renew, release, revoke, verify, list. Acquiring is in `claims`.

A lost token is STALE_CLAIM everywhere but in `verify`, which says so. No token is ever in an answer here. An ended run
refuses renewals; what is held there can still be released.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from statemachine import leases, lines, ownership, scopes
from statemachine.context import Context, View
from statemachine.declare import ADMIN, operation, query
from statemachine.errors import (
    CONFLICT,
    DEADLINE_EXCEEDED,
    LEASE_RENEWALS_EXHAUSTED,
    NOT_FOUND,
    SCOPE_CANCELLED,
    STALE_CLAIM,
    Refused,
)
from statemachine.ownership import BY_OWNED, CLAIMS, HELD, LAPSED, LINES, RELEASED, REVOKED, Claim
from statemachine.paging import page
from statemachine.types import (
    COUNT_MAX,
    LIST_LIMIT_DEFAULT,
    NULL,
    Answer,
    Cursor,
    Id,
    Key,
    LeaseSeconds,
    Limit,
    Payload,
    Request,
    Text,
    Token,
    time_text,
)

OBSERVATION_TOLD_BYTES_MAX = 4_096  # an event tells a longer one's size, and GET has it


class RenewClaim(Request, frozen=True):
    """lease_seconds: from now on; as many as were last asked for when absent."""

    key: Key
    token: Token
    lease_seconds: LeaseSeconds | None = None


class ReleaseClaim(Request, frozen=True):
    """observation: what the owner leaves for those who come after it; events and reads show it."""

    key: Key
    token: Token
    observation: Payload = NULL


class RevokeClaim(Request, frozen=True):
    """generation: only that owner."""

    key: Key
    scope_id: Id
    reason: Text | None = None
    generation: Annotated[int, Meta(ge=1, le=COUNT_MAX)] | None = None


class VerifyClaim(Request, frozen=True):
    key: Key
    token: Token


class ListClaims(Request, frozen=True):
    scope_id: Id
    key: Key | None = None
    limit: Limit = LIST_LIMIT_DEFAULT
    cursor: Cursor | None = None


class ClaimRenewed(Answer, frozen=True):
    lease_expires_at: str
    generation: int


class ClaimReleased(Answer, frozen=True):
    released: bool


class ClaimRevoked(Answer, frozen=True):
    revoked: bool


class ClaimVerified(Answer, frozen=True):
    valid: bool
    generation: int | UnsetType = UNSET
    lease_expires_at: str | UnsetType = UNSET


class ClaimView(Answer, frozen=True):
    """state: HELD, or how the last ownership ended: RELEASED, LAPSED, REVOKED.

    holder to lease_expires_at: of the present owner, or the last one. observation: what the last release left, absent
    before the first. waiting: how many stand in line.
    """

    claim_id: str
    key: str
    scope_id: str
    state: str
    holder: str
    holder_session: str
    generation: int
    acquired_at: str
    lease_expires_at: str | None
    waiting: int
    observation: Raw | UnsetType = UNSET


class Claims(Answer, frozen=True):
    claims: list[ClaimView]
    next_cursor: str | None


@operation(
    "claims.renew",
    "POST /claims/{key}/renew",
    repeatable=True,
    urgent=True,
    errors=(STALE_CLAIM, SCOPE_CANCELLED, DEADLINE_EXCEEDED, LEASE_RENEWALS_EXHAUSTED),
)
def renew(context: Context, request: RenewClaim) -> ClaimRenewed:
    """Keep owning a key. Refused once the run has ended."""
    claim = ownership.of_token(context, request.key, request.token)
    if claim is None:
        raise leases.stale()
    _require_current(context, claim, request.token)
    scopes.require_active(context, claim.scope_id)
    lease = leases.renewed(context, claim.lease, request.lease_seconds)
    context.rows(CLAIMS).put(msgspec.structs.replace(claim, lease=lease))
    return ClaimRenewed(context.lease_text(lease.deadline_ms), lease.generation)


@operation(
    "claims.release",
    "POST /claims/{key}/release",
    repeatable=True,
    urgent=True,
    errors=(STALE_CLAIM,),
    events=("claim.released", "claim.acquired"),
)
def release(context: Context, request: ReleaseClaim) -> ClaimReleased:
    """Hand a key back. The repeat of one's own release is answered the same until the key has its next owner."""
    claim = ownership.of_token(context, request.key, request.token)
    observation = None if request.observation == NULL else bytes(request.observation)
    if claim is None:
        raise leases.stale()
    if claim.state == RELEASED and claim.lease.token == request.token and claim.observation == observation:
        return ClaimReleased(released=True)
    _require_current(context, claim, request.token)
    ownership.end(context, claim, RELEASED, _told(observation), observation)
    return ClaimReleased(released=True)


def _require_current(context: Context, claim: Claim, token: str) -> None:
    if claim.state != HELD:
        raise leases.stale()
    leases.require(context, claim.lease, token)


def _told(observation: bytes | None) -> dict[str, Any]:
    if observation is None:
        return {}
    if len(observation) > OBSERVATION_TOLD_BYTES_MAX:
        return {"observationBytes": len(observation)}
    return {"observation": Raw(observation)}


@operation(
    "claims.revoke",
    "POST /claims/{key}/revoke",
    permissions=ADMIN,
    urgent=True,
    errors=(NOT_FOUND, CONFLICT),
    events=("claim.revoked", "claim.acquired"),
)
def revoke(context: Context, request: RevokeClaim) -> ClaimRevoked:
    """End an ownership by force: its token is stale from here on, and the next in line owns the key.

    CONFLICT: nobody owns the key, or the owner is not of the generation that was named.
    """
    scope = scopes.find(context, request.scope_id)
    claim = context.rows(CLAIMS).get((scope.id, request.key))
    if claim is None or not ownership.owned(context, claim):
        raise Refused(CONFLICT, f"nobody owns {request.key!r}")
    generation = claim.lease.generation
    if request.generation not in (None, generation):
        raise Refused(
            CONFLICT,
            f"generation: {request.key!r} is owned by generation {generation}, not {request.generation}",
            generation=generation,
            holder=claim.lease.holder,
        )
    ownership.end(context, claim, REVOKED, {} if request.reason is None else {"reason": request.reason})
    return ClaimRevoked(revoked=True)


# ---------------------------------------------------------------------- looking


@query("claims.verify", "POST /claims/{key}/verify")
def verify(view: View, request: VerifyClaim) -> ClaimVerified:
    """Whether a token is the current one of a key, for an outside system that is handed one. A lost one is no error."""
    claim = ownership.of_token(view, request.key, request.token)
    if claim is None or not ownership.owned(view, claim) or claim.lease.token != request.token:
        return ClaimVerified(valid=False)
    return ClaimVerified(True, claim.lease.generation, view.lease_text(claim.lease.deadline_ms))


@query("claims.list", "GET /claims", errors=(NOT_FOUND,))
def list_some(view: View, request: ListClaims) -> Claims:
    """Who owns which keys of a run. With `key`: that one, also when its last owner has gone, as long as it is known."""
    scope = scopes.find(view, request.scope_id)
    rows = view.rows(CLAIMS)
    if request.key is not None:
        claim = rows.get((scope.id, request.key))
        return Claims(claims=[] if claim is None else [_view(view, claim)], next_cursor=None)
    found, cursor = page(
        rows,
        BY_OWNED,
        (scope.id, True),
        request.limit,
        request.cursor,
        matches=lambda claim: leases.live(view, claim.lease),
    )
    return Claims(claims=[_view(view, claim) for claim in found], next_cursor=cursor)


def _view(view: View, claim: Claim) -> ClaimView:
    lease, owned = claim.lease, ownership.owned(view, claim)
    in_line = lines.length(view, LINES, ownership.line_of(claim.scope_id, claim.key))
    return ClaimView(
        claim_id=claim.id,
        key=claim.key,
        scope_id=claim.scope_id,
        state=LAPSED if claim.state == HELD and not owned else claim.state,
        holder=lease.holder,
        holder_session=lease.session,
        generation=lease.generation,
        acquired_at=time_text(lease.since_ms),
        lease_expires_at=view.lease_text(lease.deadline_ms) if owned else None,
        waiting=in_line - (claim.waiter in view.rows(lines.WAITERS)),  # the owner has its place until it takes over
        observation=UNSET if claim.observation is None else Raw(claim.observation),
    )
