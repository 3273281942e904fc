"""Lines: who waits for a thing, first come, first served.

A line belongs to one thing of one primitive (a claim's key, a quota, a pool). A waiter joins at the end and keeps its
place until it is served, leaves, runs out of time, or its run ends. When its turn has come it may be signalled: what it
waits for is set aside for it for a short time, and passes on to the next one if it does not take it.

Nobody is overtaken: places only rise, and whoever hands something out asks `call_up` for the one whose turn it is.
While nothing changes, nothing is written. A waiter whose time is up, or whose run has ended, no longer stands in the
line, whether or not the sweep came by. What a waiter is owed when its turn comes is the primitive's to know.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

import msgspec

from statemachine import dependents, idempotency, scopes
from statemachine.context import Context, View
from statemachine.entry import Idempotency
from statemachine.store import Due, Ordered, Table, Topic
from statemachine.types import Record

WAITING = "WAITING"
SIGNALED = "SIGNALED"
PASSED_MAX = 256  # waiters at the head that have ended already, which one look at a line goes past


class Waiter(Record, frozen=True):
    """One place in a line. A waiter that no longer stands in it has no record.

    kind, line: which line. place: rises with every waiter that joins. units: how much it asks for. lease_seconds: for
    how long it wants to hold what it waits for, 0 where nothing is held. since_ms: wall time. due_ms: lease time at
    which the state ends by itself: waiting at the end of its patience, signalled when what was set aside passes on.
    keyed: the idempotency key of the request that waits, and its fingerprint.
    """

    id: str
    space: str
    kind: str
    line: str
    scope_id: str
    holder: str
    session: str
    units: int
    lease_seconds: int
    place: int
    since_ms: int
    state: str
    due_ms: int
    keyed: Idempotency | None = None


@dataclass(frozen=True, slots=True)
class Kind:
    """What the lines of one primitive do by themselves.

    moved(context, line): the first one left without being served, so that the next one's turn may have come.
    """

    moved: Callable[[Context, str], None]


KINDS: dict[str, Kind] = {}


def declare(kind: str, moved: Callable[[Context, str], None]) -> None:
    """Declare the lines of a primitive, beside its tables."""
    assert kind not in KINDS, kind
    KINDS[kind] = Kind(moved)


# ---------------------------------------------------------------------- changing a line


def join(
    context: Context,
    kind: str,
    line: str,
    *,
    scope_id: str,
    holder: str,
    session: str,
    wait_ms: int,
    units: int = 1,
    lease_seconds: int = 0,
) -> Waiter:
    """Add a waiter at the end of the line. wait_ms: lease time that it waits."""
    number = context.number()
    return context.rows(WAITERS).put(
        Waiter(
            id=f"wtr_{number:020x}",
            space=context.space,
            kind=kind,
            line=line,
            scope_id=scope_id,
            holder=holder,
            session=session,
            units=units,
            lease_seconds=lease_seconds,
            place=number,
            since_ms=context.wall_now_ms,
            state=WAITING,
            due_ms=context.lease_now_ms + wait_ms,
            keyed=context.keyed,
        )
    )


def call_up(context: Context, kind: str, line: str) -> Waiter | None:
    """The one whose turn it is; those before it who no longer stand in the line are removed.

    None: nobody stands in the line, or so many have just gone that the sweep has to clear them first; one of them is
    the first then, so that the line's `moved` is called again.
    """
    rows = context.rows(WAITERS)
    for passed in range(PASSED_MAX + 1):
        first = rows.first(LINE, (kind, line))
        if first is None or standing(context, first):
            return first
        if passed < PASSED_MAX:
            give_up(context, first)
    return None


def signal(context: Context, waiter: Waiter, for_ms: int) -> Waiter:
    """Set aside what the waiter waits for: it has for_ms milliseconds of lease time to take it."""
    assert waiter.state == WAITING, waiter
    due_ms = context.lease_now_ms + for_ms
    return context.rows(WAITERS).put(msgspec.structs.replace(waiter, state=SIGNALED, due_ms=due_ms))


def serve(context: Context, waiter: Waiter) -> None:
    """The waiter has what it waited for, and stands in the line no more."""
    context.rows(WAITERS).delete(waiter.id)


def leave(context: Context, waiter: Waiter) -> None:
    """The waiter gives up its place, of its own will or because its time is up or its run ended.

    Calls the line's `moved` when it was the first.
    """
    first = _is_first(context, waiter)
    give_up(context, waiter)
    if first:
        KINDS[waiter.kind].moved(context, waiter.line)


def _is_first(context: Context, waiter: Waiter) -> bool:
    first = context.rows(WAITERS).first(LINE, (waiter.kind, waiter.line))
    return first is not None and first.id == waiter.id


def give_up(context: Context, waiter: Waiter) -> None:
    """Remove an unserved waiter, for a caller that then looks itself whose turn it is."""
    context.rows(WAITERS).delete(waiter.id)
    if waiter.keyed is not None:
        idempotency.drop(context, waiter.keyed[0])


# ---------------------------------------------------------------------- looking at a line


def find(view: View, waiter_id: str) -> Waiter | None:
    """The waiter of that id in the request's space, if it stands in its line."""
    waiter = view.rows(WAITERS).get(waiter_id)
    return None if waiter is None or waiter.space != view.space or not standing(view, waiter) else waiter


def standing(view: View, waiter: Waiter) -> bool:
    """Whether the waiter still stands in its line by now: it has time left, and its run takes new work."""
    if waiter.due_ms <= view.lease_now_ms:
        return False
    scope = view.rows(scopes.SCOPES).get(waiter.scope_id)
    return scope is not None and scopes.ended(view, scope) is None


def head(view: View, kind: str, line: str) -> Waiter | None:
    """The one whose turn is next. Behind PASSED_MAX who have just gone, the next one counts as standing."""
    for passed, waiter in enumerate(view.rows(WAITERS).ordered(LINE, (kind, line))):
        if passed == PASSED_MAX or standing(view, waiter):
            return waiter
    return None


def position(view: View, waiter: Waiter) -> int:
    """1 for the first in line."""
    rows, group = view.rows(WAITERS), (waiter.kind, waiter.line)
    return rows.count(LINE, group) - rows.count(LINE, group, after=waiter.place)


def length(view: View, kind: str, line: str) -> int:
    """How many have a place in the line."""
    return view.rows(WAITERS).count(LINE, (kind, line))


def topic(waiter_id: str) -> Topic:
    """What is touched when the waiter is signalled, served, or gone."""
    return (WAITERS.name, waiter_id)


# ---------------------------------------------------------------------- the table

LINE: Ordered[Waiter] = Ordered(group=lambda w: (w.kind, w.line), order=lambda w: w.place)
IN_SCOPE: Ordered[Waiter] = Ordered(group=lambda w: w.scope_id, order=lambda w: w.place)

WAITERS = Table(
    "waiters",
    Waiter,
    key=lambda w: w.id,
    space=lambda w: w.space,
    weight=lambda w: 512 + len(w.line),
    indexes=(LINE, IN_SCOPE),
    due=(Due("lines.leave", "lease", at=lambda w: w.due_ms, run=leave),),
)


def _cancel(context: Context, scope_id: str, budget: int) -> int:
    """Cancel those who wait in a run that has ended; then, once a line, the next one's turn may have come."""
    gone = list(islice(context.rows(WAITERS).ordered(IN_SCOPE, scope_id), budget))
    moved: dict[tuple[str, str], None] = {}
    for waiter in gone:
        if _is_first(context, waiter):
            moved[waiter.kind, waiter.line] = None
        give_up(context, waiter)
    for kind, name in moved:
        KINDS[kind].moved(context, name)
    return len(gone)


dependents.of_scope("lines", end=_cancel, remove=dependents.deleting(WAITERS, IN_SCOPE))
