"""Who owns a key of a run: how ownership begins, ends and passes on. The calls are in `claims` and `owners`.

At most one live lease a key. The generation is the fencing number that an outside system compares: it rises by one with
every owner of the key for the life of the run and is never used again. A key that nobody has owned for FORGOTTEN_MS is
forgotten; its generation goes into the run's floor (`scopes.forget_generation`), above which the next owner starts. So
the first owner of a key has generation 1 in a run that has forgotten none, and a higher one than any forgotten one
otherwise.

Who waits for a key stands in its line. When the key comes free, by release, lapse or force, the first in line owns it
in that same entry, without anybody asking. Its token then has to be fetched within TAKE_MS (`claims.take`), else the
key passes on: a client that has gone holds nobody up for longer.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import Any

from statemachine import dependents, leases, lines, scopes
from statemachine.context import Context, View
from statemachine.declare import event_types
from statemachine.leases import Lease
from statemachine.lines import Waiter
from statemachine.store import Due, Ordered, Table
from statemachine.types import Record

HELD = "HELD"
RELEASED = "RELEASED"
LAPSED = "LAPSED"
REVOKED = "REVOKED"
ENDINGS = {RELEASED: "claim.released", LAPSED: "claim.lapsed", REVOKED: "claim.revoked"}  # state to event

LINES = "claims"  # the kind of the lines
TAKE_MS = 5_000  # lease time in which the next in line must fetch its token
FORGOTTEN_MS = 5 * 60_000  # lease time after which a key that nobody owns is forgotten

event_types(
    claim_acquired="a key got an owner; previousHolder and previousEnd: whose it was before, and how that ended",
    claim_released="an owner handed its key back",
    claim_lapsed="an owner did not renew in time and lost its key",
    claim_revoked="an owner lost its key by force",
)


class Claim(Record, frozen=True):
    """A key that has, or lately had, an owner.

    state: HELD, or how the last ownership ended. lease: of the present or the last owner. observation: JSON that the
    last release left, None for null. waiter: the place in line through which the owner came, "" for none.
    forget_at_ms: lease time, of one that nobody owns.
    """

    space: str
    scope_id: str
    key: str
    id: str
    state: str
    lease: Lease
    observation: bytes | None = None
    waiter: str = ""
    forget_at_ms: int = 0


# ---------------------------------------------------------------------- changes


def begin(
    context: Context, scope_id: str, key: str, lease: Lease, previous: Claim | None, waiter: Waiter | None = None
) -> Claim:
    """Make the lease's holder the owner of a key that nobody owns; the only place where an ownership begins.

    previous: the record of the key, if there is one. waiter: the place in line through which the owner comes.
    """
    facts: dict[str, Any] = {}
    if previous is not None:
        assert previous.state != HELD, previous
        assert previous.lease.generation < lease.generation, previous
        facts = {"previousHolder": previous.lease.holder, "previousEnd": previous.state}
    claim = Claim(
        context.space,
        scope_id,
        key,
        context.new_id("clm") if previous is None else previous.id,
        HELD,
        lease,
        None if previous is None else previous.observation,
        "" if waiter is None else waiter.id,
    )
    context.rows(CLAIMS).put(claim)
    _emit(context, "claim.acquired", claim, facts)
    return claim


def end(context: Context, claim: Claim, state: str, facts: dict[str, Any], observation: bytes | None = None) -> Claim:
    """End the present ownership and pass the key on; the only place where an ownership ends.

    state: how it ends. facts: what the event says besides. observation: of a release. Returns the claim as it is now,
    which the next in line may own.
    """
    assert claim.state == HELD, claim
    unfetched = context.rows(lines.WAITERS).get(claim.waiter) if claim.waiter else None
    if unfetched is not None:
        lines.give_up(context, unfetched)
    ended = Claim(
        claim.space,
        claim.scope_id,
        claim.key,
        claim.id,
        state,
        claim.lease,
        observation if state == RELEASED else claim.observation,
        "",
        context.lease_now_ms + FORGOTTEN_MS,
    )
    context.rows(CLAIMS).put(ended)
    _emit(context, ENDINGS[state], ended, facts)
    return _pass_on(context, ended)


def lapse_unswept(context: Context, claim: Claim) -> Claim:
    """End the ownership of a lease that has run out before the sweep came by, if it is one."""
    return end(context, claim, LAPSED, {}) if claim.state == HELD else claim


def _pass_on(context: Context, claim: Claim) -> Claim:
    """Make the next in line, if there is one, the owner of a key that nobody owns."""
    line = line_of(claim.scope_id, claim.key)
    waiter = lines.call_up(context, LINES, line)
    if waiter is None:
        return claim
    lease = leases.grant(
        context,
        claim.scope_id,
        claim.lease.generation + 1,
        waiter.holder,
        waiter.session,
        waiter.lease_seconds,
        first_ms=TAKE_MS,
    )
    lines.signal(context, waiter, TAKE_MS)
    return begin(context, claim.scope_id, claim.key, lease, claim, waiter)


def _turn(context: Context, claim: Claim) -> None:
    """What time does to a claim: a lease lapses, a key that nobody owns is forgotten."""
    if claim.state == HELD:
        end(context, claim, LAPSED, {})
    else:
        scopes.forget_generation(context, claim.scope_id, claim.lease.generation)
        context.rows(CLAIMS).delete((claim.scope_id, claim.key))


def _moved(context: Context, line: str) -> None:
    scope_id, _, key = line.partition("/")
    claim = context.rows(CLAIMS).get((scope_id, key))
    if claim is not None and claim.state != HELD:
        _pass_on(context, claim)


def _emit(context: Context, type_: str, claim: Claim, facts: dict[str, Any]) -> None:
    lease = claim.lease
    context.emit(
        type_,
        ("claim", claim.key),
        claim.scope_id,
        claimId=claim.id,
        key=claim.key,
        holder=lease.holder,
        generation=lease.generation,
        **facts,
    )


# ---------------------------------------------------------------------- looking


def line_of(scope_id: str, key: str) -> str:
    """The line of those who wait for the key. No id of a scope has a slash in it."""
    return f"{scope_id}/{key}"


def owned(view: View, claim: Claim) -> bool:
    """Whether the key has an owner by now."""
    return claim.state == HELD and leases.live(view, claim.lease)


def of_token(view: View, key: str, token: str) -> Claim | None:
    """The claim that a token is for, if it is for this key; whether it is the current token is not yet said."""
    claim = view.rows(CLAIMS).get((leases.thing_of(token), key))
    return None if claim is None or claim.space != view.space else claim


# ---------------------------------------------------------------------- the table

# By id, so that what is new goes to the end.
BY_OWNED: Ordered[Claim] = Ordered(group=lambda c: (c.scope_id, c.state == HELD), order=lambda c: c.id)

CLAIMS = Table(
    "claims",
    Claim,
    key=lambda c: (c.scope_id, c.key),
    space=lambda c: c.space,
    weight=lambda c: 768 + len(c.key) + (0 if c.observation is None else len(c.observation)),
    indexes=(BY_OWNED,),
    due=(
        Due(
            "claims.turn",
            "lease",
            at=lambda c: c.lease.deadline_ms if c.state == HELD else c.forget_at_ms,
            run=_turn,
        ),
    ),
)


def _remove(context: Context, scope_id: str, budget: int) -> int:
    rows = context.rows(CLAIMS)
    groups = [rows.ordered(BY_OWNED, (scope_id, held)) for held in (True, False)]
    found = [claim.key for claim in islice(chain(*groups), budget)]
    for key in found:
        rows.delete((scope_id, key))
    return len(found)


lines.declare(LINES, moved=_moved)
dependents.of_scope("claims", remove=_remove)
