"""What a claim, a delivery, a grant and a once hold share: a token, a generation, and an end that comes by itself.

Whoever holds the current token of a thing owns it until the deadline, in lease time. From the entry whose lease time
reaches the deadline on, the token is stale, whether or not the sweep came by; so nothing may look at a stored state
without `live`. A lease is immutable: a renewal puts another one in its place, a hand-over one of the next generation.

The token begins with the name of the thing that it is for, so that a call which carries only the token finds the thing.
It is compared as a whole, and never shown but to the one who took the lease.
"""

from __future__ import annotations

from statemachine.cluster_record import generation_floor
from statemachine.context import Context, View
from statemachine.errors import LEASE_RENEWALS_EXHAUSTED, STALE_CLAIM, Refused
from statemachine.spaces import SPACES
from statemachine.types import Record


class Lease(Record, frozen=True):
    """One hold.

    seconds: how long it lasts from its last renewal, as was last asked for. acquired_at_ms, deadline_ms: lease time.
    since_ms: wall time of the acquisition, for people.
    """

    token: str
    generation: int
    holder: str
    session: str
    seconds: int
    acquired_at_ms: int
    deadline_ms: int
    since_ms: int


def grant(
    context: Context, thing: str, generation: int, holder: str, session: str, seconds: int, first_ms: int | None = None
) -> Lease:
    """A new lease, with a new token.

    thing: what the token is for; no dot may be in it. generation: above every one that the thing is known to have had.
    first_ms: how long it lasts until its first renewal, when that is not `seconds`.
    """
    now_ms = context.lease_now_ms
    generation = never_given(context, generation)
    return Lease(
        context.token(thing, generation),
        generation,
        holder,
        session,
        seconds,
        now_ms,
        now_ms + (seconds * 1000 if first_ms is None else first_ms),
        context.wall_now_ms,
    )


def never_given(view: View, generation: int) -> int:
    """The generation, or the first one that nobody was given before the cluster began anew from a copy."""
    return max(generation, generation_floor(view.store) + 1)


def renewed(view: View, lease: Lease, seconds: int | None) -> Lease:
    """The lease with `seconds` from now on, or as many as were last asked for.

    Raises LEASE_RENEWALS_EXHAUSTED when it has been held for as long as the space allows. The bound is on renewals: a
    lease that was renewed just before runs to its own end, so that there is time left to hand the thing back.
    """
    hold_max_seconds = view.rows(SPACES)[view.space].settings.max_hold_seconds
    if view.lease_now_ms - lease.acquired_at_ms >= hold_max_seconds * 1000:
        raise Refused(
            LEASE_RENEWALS_EXHAUSTED,
            f"held for {hold_max_seconds} seconds, the maxHoldSeconds of the space; hand it back and ask again",
            maxHoldSeconds=hold_max_seconds,
        )
    return extended(view, lease, lease.seconds if seconds is None else seconds)


def extended(view: View, lease: Lease, seconds: int) -> Lease:
    """The lease with `seconds` from now on, however long it has been held."""
    return Lease(
        lease.token,
        lease.generation,
        lease.holder,
        lease.session,
        seconds,
        lease.acquired_at_ms,
        view.lease_now_ms + seconds * 1000,
        lease.since_ms,
    )


def live(view: View, lease: Lease) -> bool:
    """Whether the lease has not reached its deadline. Whether it was handed back before is the thing's to know."""
    return lease.deadline_ms > view.lease_now_ms


def require(view: View, lease: Lease, token: str) -> None:
    """Raises STALE_CLAIM unless it is the lease's token and the lease is live."""
    if lease.token != token or lease.deadline_ms <= view.lease_now_ms:
        raise stale()


def stale() -> Refused:
    """The refusal of every call whose token is not the current one, whatever became of it."""
    return Refused(STALE_CLAIM, "the token is not the current one: the lease lapsed, was handed back or was taken over")


def thing_of(token: str) -> str:
    """The thing that a token claims to be for. Only the comparison with the thing's own token proves it."""
    return token.partition(".")[0]


def left_ms(view: View, lease: Lease) -> int:
    """Milliseconds until the lease ends unless it is renewed; 0 once it has."""
    return max(0, lease.deadline_ms - view.lease_now_ms)
