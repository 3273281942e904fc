"""Keys that are run once: the record, and how a key gets its one result. The calls of the API are in `once`.

A key is OPEN until somebody holds it, HELD while somebody runs it, and ends DONE (a result) or FAILED (an error):
exactly one of them, once, in `_finish`, which refuses a second. A failed try makes it OPEN again, or FAILED when the
one who failed allows no more. A lapsed hold makes it OPEN again and is no failed try; but so many lapses in a row as
the space allows make it FAILED, for a call that kills whoever runs it must not loop for ever.

Records live as long as their run. In a run that never ends, that is one without a deadline in or above it, a key that
nobody holds is forgotten when it was not used for the space's `resultDays`; its generation goes into the run's floor.
The room for a result is reserved while a key is held, so that handing it back never fails for lack of room.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

import msgspec

from statemachine import dependents, leases, scopes
from statemachine.context import Context, View
from statemachine.declare import event_types
from statemachine.leases import Lease
from statemachine.scopes import Scope
from statemachine.spaces import SPACES
from statemachine.store import Due, Ordered, Table
from statemachine.types import PAYLOAD_BYTES_MAX, Record

OPEN = "OPEN"
HELD = "HELD"
DONE = "DONE"
FAILED = "FAILED"
DAY_MS = 86_400_000

event_types(
    once_acquired="somebody began to run a key; previousHolder: whose hold of it lapsed before",
    once_lapsed="a hold of a key was not renewed in time",
    once_failed="a try to run a key failed",
    once_completed="a key got its result",
    once_exhausted="a key failed for good; reason: attempts or lapses",
)


class Once(Record, frozen=True):
    """One key of a run.

    attempts: failed tries. lapses: holds that lapsed since the last one that was handed back. lease: of the present or
    the last hold. handed_back: the last hold ended by a call with its token, which a repeat must equal: completed with
    `result`, else failed with `last_error` and `max_attempts`. result: JSON. used_ms, forget_at_ms: wall time; the
    latter is None in a run that has an end.
    """

    space: str
    scope_id: str
    key: str
    state: str
    lease: Lease
    attempts: int
    lapses: int
    handed_back: bool
    max_attempts: int
    result: bytes | None
    last_error: str | None
    used_ms: int
    forget_at_ms: int | None


# ---------------------------------------------------------------------- changes


def hold(context: Context, scope: Scope, key: str, once: Once | None, holder: str, session: str, seconds: int) -> Once:
    """Make the caller the one who runs a key that nobody runs and that has not ended; the only place where it does.

    once: the record of the key, if there is one.
    """
    generation = scopes.first_generation(scope) if once is None else once.lease.generation + 1
    lease = leases.grant(context, scope.id, generation, holder, session, seconds)
    facts: dict[str, Any] = {}
    if once is None:
        held = _fresh(context, scope, key, lease)
    else:
        assert once.state == OPEN, once
        if not once.handed_back:
            facts = {"previousHolder": once.lease.holder}
        held = msgspec.structs.replace(once, state=HELD, lease=lease, handed_back=False)
    context.rows(ONCE).put(held)
    _emit(context, "once.acquired", held, attempts=held.attempts, **facts)
    return held


def complete(context: Context, once: Once, result: bytes) -> Once:
    """End a held key with its result. result: JSON."""
    assert once.state == HELD, once
    done = _finish(context, once, DONE, lapses=0, handed_back=True, result=result)
    _emit(context, "once.completed", done, attempts=done.attempts)
    return done


def fail(context: Context, once: Once, error: str, max_attempts: int) -> Once:
    """Note a failed try of a held key; it is the last one when there are max_attempts."""
    assert once.state == HELD, once
    attempts = once.attempts + 1
    changes = {
        "attempts": attempts,
        "lapses": 0,
        "handed_back": True,
        "max_attempts": max_attempts,
        "last_error": error,
    }
    last = attempts >= max_attempts
    failed = _finish(context, once, FAILED, **changes) if last else _reopen(context, once, **changes)
    _emit(context, "once.failed", failed, attempts=attempts, maxAttempts=max_attempts, error=error)
    if last:
        _emit(context, "once.exhausted", failed, attempts=attempts, reason="attempts", error=error)
    return failed


def lapse(context: Context, once: Once) -> Once:
    """End a hold whose lease ran out: the key is open again, or has failed after too many in a row."""
    assert once.state == HELD, once
    lapses = once.lapses + 1
    if lapses < _lapses_max(context):
        lapsed = _reopen(context, once, lapses=lapses)
        _emit(context, "once.lapsed", lapsed, lapses=lapses)
        return lapsed
    reason = lapses_reason(lapses)
    failed = _finish(context, once, FAILED, lapses=lapses, last_error=reason)
    _emit(context, "once.lapsed", failed, lapses=lapses)
    _emit(context, "once.exhausted", failed, attempts=failed.attempts, reason="lapses", error=reason)
    return failed


def note_use(context: Context, once: Once) -> None:
    """Note that a result was asked for, at most once a day, so that it is kept for longer."""
    if once.forget_at_ms is not None and context.wall_now_ms - once.used_ms >= DAY_MS:
        context.rows(ONCE).put(_put_off(context, once))


def _fresh(context: Context, scope: Scope, key: str, lease: Lease) -> Once:
    endless = all(run.deadline_ms is None for run in scopes.lineage(context, scope))
    return Once(
        space=context.space,
        scope_id=scope.id,
        key=key,
        state=HELD,
        lease=lease,
        attempts=0,
        lapses=0,
        handed_back=False,
        max_attempts=0,
        result=None,
        last_error=None,
        used_ms=context.wall_now_ms,
        forget_at_ms=context.wall_now_ms + _kept_ms(context) if endless else None,
    )


def _finish(context: Context, once: Once, state: str, **changes: Any) -> Once:
    """Put a key into the state in which it stays; the only place where one ends."""
    assert once.state not in (DONE, FAILED), once
    return context.rows(ONCE).put(_put_off(context, msgspec.structs.replace(once, state=state, **changes)))


def _reopen(context: Context, once: Once, **changes: Any) -> Once:
    return context.rows(ONCE).put(_put_off(context, msgspec.structs.replace(once, state=OPEN, **changes)))


def _put_off(context: Context, once: Once) -> Once:
    forget_at_ms = None if once.forget_at_ms is None else context.wall_now_ms + _kept_ms(context)
    return msgspec.structs.replace(once, used_ms=context.wall_now_ms, forget_at_ms=forget_at_ms)


def _lapse(context: Context, once: Once) -> None:
    lapse(context, once)


def _forget(context: Context, once: Once) -> None:
    keep_until_ms = once.used_ms + _kept_ms(context)
    if keep_until_ms > context.wall_now_ms:  # the space keeps results for longer than it did
        context.rows(ONCE).put(msgspec.structs.replace(once, forget_at_ms=keep_until_ms))
        return
    scopes.forget_generation(context, once.scope_id, once.lease.generation)
    context.rows(ONCE).delete((once.scope_id, once.key))


def _kept_ms(view: View) -> int:
    return view.rows(SPACES)[view.space].settings.result_days * DAY_MS


def _lapses_max(view: View) -> int:
    return view.rows(SPACES)[view.space].settings.max_lapses


def _emit(context: Context, type_: str, once: Once, **facts: Any) -> None:
    lease = once.lease
    context.emit(
        type_,
        ("once", once.key),
        once.scope_id,
        key=once.key,
        holder=lease.holder,
        generation=lease.generation,
        state=once.state,
        **facts,
    )


# ---------------------------------------------------------------------- looking


def seen(view: View, once: Once) -> Once:
    """The key as it is by now: a hold that has run out is over, whether or not the sweep came by."""
    if once.state != HELD or leases.live(view, once.lease):
        return once
    lapses = once.lapses + 1
    if lapses < _lapses_max(view):
        return msgspec.structs.replace(once, state=OPEN, lapses=lapses)
    return msgspec.structs.replace(once, state=FAILED, lapses=lapses, last_error=lapses_reason(lapses))


def lapses_reason(lapses: int) -> str:
    """The error of a key that failed by lapses alone."""
    return f"held {lapses} times in a row by someone who did not renew and did not hand back a result"


# ---------------------------------------------------------------------- the table


def _weight(once: Once) -> int:
    size = 768 + len(once.key) + (0 if once.last_error is None else len(once.last_error))
    if once.state == HELD:
        return size + PAYLOAD_BYTES_MAX
    return size + (0 if once.result is None else len(once.result))


IN_SCOPE: Ordered[Once] = Ordered(group=lambda o: o.scope_id, order=lambda o: o.key)

ONCE = Table(
    "once",
    Once,
    key=lambda o: (o.scope_id, o.key),
    space=lambda o: o.space,
    weight=_weight,
    indexes=(IN_SCOPE,),
    due=(
        Due("once.lapse", "lease", at=lambda o: o.lease.deadline_ms if o.state == HELD else None, run=_lapse),
        Due("once.forget", "wall", at=lambda o: None if o.state == HELD else o.forget_at_ms, run=_forget),
    ),
)


def _remove(context: Context, scope_id: str, budget: int) -> int:
    rows = context.rows(ONCE)
    found = [once.key for once in islice(rows.ordered(IN_SCOPE, scope_id), budget)]
    for key in found:
        rows.delete((scope_id, key))
    return len(found)


dependents.of_scope("once", remove=_remove)
