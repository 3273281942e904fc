"""Runs, which the API calls scopes: a tree, each with a state, and when a subtree has ended.

A run ends by itself (cancelled, completed, its deadline) or because one above it ended; from that same entry on its
whole subtree refuses new work. Nothing below is rewritten for that: whoever takes work in a run asks `require_active`,
which walks up at most DEPTH_MAX records and judges deadlines by now, whether or not the sweep came by. What waits in
the subtree is cancelled in bounded steps afterwards, and a week after its end the run and all in it is forgotten.

A stored state leaves ACTIVE once, in `end`. A run is forgotten only after all below it, so a parent is always there.
The calls of the API are in `runs`.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from statemachine import dependents
from statemachine.context import Context, View
from statemachine.declare import event_types
from statemachine.errors import DEADLINE_EXCEEDED, NOT_FOUND, SCOPE_CANCELLED, ErrorCode, Refused
from statemachine.store import Due, Ordered, Rows, Table, Topic, Unique
from statemachine.types import Record

DEPTH_MAX = 64  # of a run in its tree; a root has depth 1
NEVER_MS = 1 << 62  # orders what has no deadline behind everything that has one
KEPT_MS = 7 * 86_400_000  # wall time for which a run that ended is kept
STEP_RECORDS = 256  # records that one step of bookkeeping changes

ACTIVE = "ACTIVE"
CANCELLED = "CANCELLED"
COMPLETED = "COMPLETED"
EXPIRED = "EXPIRED"
ENDINGS = {CANCELLED: "scope.cancelled", COMPLETED: "scope.completed", EXPIRED: "scope.expired"}  # state to event


class Scope(Record, frozen=True):
    """One run. Times are wall time.

    named: made by PUT, so that its name finds it while it is active; else the name is a label. generation_floor: the
    highest generation of any key of the run that was forgotten; the next owner of such a key gets a higher one.
    forget_at_ms: when what is left of it goes; None while it is active.
    """

    id: str
    space: str
    name: str | None
    named: bool
    parent_id: str | None
    depth: int
    state: str
    deadline_ms: int | None
    child_limit: int | None
    created_at_ms: int
    forget_at_ms: int | None = None
    generation_floor: int = 0


class Teardown(Record, frozen=True):
    """What is left of the bookkeeping for a run that ended: a walk over its subtree, one bounded step at a time.

    path: where the walk is, from the run that ended down to the one whose dependents are next. at_ms: lease time.
    """

    scope_id: str
    space: str
    path: tuple[str, ...]
    at_ms: int


event_types(
    scope_created="a run was created",
    scope_cancelled="a run was cancelled",
    scope_completed="a run was completed",
    scope_expired="a run's deadline passed",
)


# ---------------------------------------------------------------------- how a run ends and what follows


def end(context: Context, scope: Scope, state: str) -> Scope:
    """Move an active run into one of the ended states; the only place where a run ends."""
    assert scope.state == ACTIVE, scope
    ended_scope = msgspec.structs.replace(scope, state=state, forget_at_ms=context.wall_now_ms + KEPT_MS)
    context.rows(SCOPES).put(ended_scope)
    context.rows(TEARDOWNS).put(
        Teardown(scope_id=scope.id, space=scope.space, path=(scope.id,), at_ms=context.lease_now_ms)
    )
    context.emit(ENDINGS[state], ("scope", scope.id), scope.id, name=scope.name, parentId=scope.parent_id)
    return ended_scope


def _expire(context: Context, scope: Scope) -> None:
    end(context, scope, EXPIRED)


def _tear_down(context: Context, teardown: Teardown) -> None:
    """Cancel what waits in the subtree, run by run, a bounded number of records; go on from there the next time."""
    rows, path, left = context.rows(SCOPES), list(teardown.path), STEP_RECORDS
    while path and left > 0:
        scope = rows.get(path[-1])
        # One that ended by itself has its own walk over all that is below it.
        ours = scope is not None and (len(path) == 1 or scope.state == ACTIVE)
        if ours:
            left -= dependents.end_in_scope(context, path[-1], left)
            if left <= 0:
                break
        left -= 1
        _walk_on(rows, path, descend=ours)
    if path:
        at_ms = context.lease_now_ms + 1
        context.rows(TEARDOWNS).put(msgspec.structs.replace(teardown, path=tuple(path), at_ms=at_ms))
    else:
        context.rows(TEARDOWNS).delete(teardown.scope_id)


def _walk_on(rows: Rows[Scope], path: list[str], descend: bool) -> None:
    """Move the path to the next run of the subtree that it starts with; empty it after the last."""
    child = rows.first(CHILDREN, path[-1]) if descend else None
    while child is None and len(path) > 1:
        last = path.pop()
        child = next(rows.ordered(CHILDREN, path[-1], after=last), None)
    if child is None:
        path.clear()
    else:
        path.append(child.id)


def _forget(context: Context, scope: Scope) -> None:
    remove_subtree(context, scope.id, STEP_RECORDS)
    left = context.rows(SCOPES).get(scope.id)
    if left is not None:
        context.rows(SCOPES).put(msgspec.structs.replace(left, forget_at_ms=context.wall_now_ms + 1))


def remove_subtree(context: Context, scope_id: str, budget: int) -> int:
    """Delete a run with everything in and below it, the deepest first, in bounded steps.

    budget: records to delete at most. Returns how many were; the run itself goes last.
    """
    rows, left = context.rows(SCOPES), budget
    while left > 0 and scope_id in rows:
        scope = rows[scope_id]
        while (child := rows.first(CHILDREN, scope.id)) is not None:
            scope = child
        left -= dependents.remove_of_scope(context, scope.id, left)
        if left <= 0:
            break
        if scope.id in context.rows(TEARDOWNS):
            context.rows(TEARDOWNS).delete(scope.id)
        rows.delete(scope.id)
        left -= 1
    return budget - left


# ---------------------------------------------------------------------- tables

BY_NAME: Unique[Scope] = Unique(by=lambda s: (s.space, s.name) if s.named and s.state == ACTIVE else None)
IN_SPACE: Ordered[Scope] = Ordered(group=lambda s: s.space, order=lambda s: s.id)
IN_STATE: Ordered[Scope] = Ordered(group=lambda s: (s.space, s.state), order=lambda s: s.id)
CHILDREN: Ordered[Scope] = Ordered(group=lambda s: s.parent_id, order=lambda s: s.id)
ACTIVE_CHILDREN: Ordered[Scope] = Ordered(
    group=lambda s: s.parent_id if s.state == ACTIVE else None,
    order=lambda s: (NEVER_MS if s.deadline_ms is None else s.deadline_ms, s.id),
)

SCOPES = Table(
    "scopes",
    Scope,
    key=lambda s: s.id,
    space=lambda s: s.space,
    weight=lambda s: 512 + len(s.name or ""),
    indexes=(BY_NAME, IN_SPACE, IN_STATE, CHILDREN, ACTIVE_CHILDREN),
    due=(
        Due("scopes.expire", "wall", at=lambda s: s.deadline_ms if s.state == ACTIVE else None, run=_expire),
        Due("scopes.forget", "wall", at=lambda s: s.forget_at_ms, run=_forget),
    ),
)

TEARDOWNS = Table(
    "teardowns",
    Teardown,
    key=lambda t: t.scope_id,
    space=lambda t: t.space,
    weight=lambda t: 256 + 32 * len(t.path),
    due=(Due("scopes.tear-down", "lease", at=lambda t: t.at_ms, run=_tear_down),),
)


# ---------------------------------------------------------------------- what other primitives ask


def find(view: View, scope_id: str) -> Scope:
    """The run of that id in the request's space. Raises NOT_FOUND."""
    scope = view.rows(SCOPES).get(scope_id)
    if scope is None or scope.space != view.space:
        raise Refused(NOT_FOUND, f"there is no scope {scope_id!r} in this space")
    return scope


def require_active(view: View, scope_id: str) -> Scope:
    """The run, if it takes new work.

    Raises NOT_FOUND, SCOPE_CANCELLED (it or an ancestor was cancelled or completed) or DEADLINE_EXCEEDED.
    """
    scope = find(view, scope_id)
    error = ended(view, scope)
    if error is not None:
        raise Refused(error, f"scope {scope_id} is {effective(view, scope)} and takes no new work")
    return scope


def ended(view: View, scope: Scope) -> ErrorCode | None:
    """With which code the run refuses new work now; None while it is active."""
    state = effective(view, scope)
    if state == ACTIVE:
        return None
    return DEADLINE_EXCEEDED if state == EXPIRED else SCOPE_CANCELLED


def effective(view: View, scope: Scope) -> str:
    """ACTIVE, or the state of the nearest run that ended, from this one upward."""
    for run in lineage(view, scope):
        state = own_state(view, run)
        if state != ACTIVE:
            return state
    return ACTIVE


def own_state(view: View, scope: Scope) -> str:
    """The run's own state judged by now, whatever became of those above it."""
    if scope.state == ACTIVE and scope.deadline_ms is not None and scope.deadline_ms <= view.wall_now_ms:
        return EXPIRED
    return scope.state


def lineage(view: View, scope: Scope) -> Iterator[Scope]:
    """The run, its parent, and so on up to the root."""
    rows = view.rows(SCOPES)
    while True:
        yield scope
        if scope.parent_id is None:
            return
        scope = rows[scope.parent_id]


def in_subtree(view: View, scope_id: str, root_id: str) -> bool:
    """Whether the first run is the second or below it; one that was forgotten is only itself."""
    if scope_id == root_id:
        return True
    scope = view.rows(SCOPES).get(scope_id)
    return scope is not None and any(run.id == root_id for run in lineage(view, scope))


def lineage_topics(view: View, scope_id: str) -> list[Topic]:
    """What changes when the run or one above it ends: the topics of a long poll that ends with the run."""
    scope = view.rows(SCOPES).get(scope_id)
    if scope is None:
        return [(SCOPES.name, scope_id)]
    return [(SCOPES.name, run.id) for run in lineage(view, scope)]


# ---------------------------------------------------------------------- generations of forgotten keys


def first_generation(scope: Scope) -> int:
    """The generation for the first owner of a key that the run does not know, or does not know any more."""
    return scope.generation_floor + 1


def forget_generation(context: Context, scope_id: str, generation: int) -> None:
    """Note the last generation of a key whose record is about to be dropped while its run lives."""
    rows = context.rows(SCOPES)
    scope = rows.get(scope_id)
    if scope is not None and generation > scope.generation_floor:
        rows.put(msgspec.structs.replace(scope, generation_floor=generation))
