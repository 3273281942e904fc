"""The calls of the API on runs: create, join by name, look up, list, cancel, complete.

A named run is a root that PUT made. Its name finds it while it is active; once it has ended in any way, the name goes
to a fresh one. The name of every other run is a label.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from statemachine.context import Context, View
from statemachine.declare import operation, query
from statemachine.errors import CONFLICT, DEADLINE_EXCEEDED, NOT_FOUND, SCOPE_CANCELLED, VALIDATION_FAILED, Refused
from statemachine.paging import page
from statemachine.scopes import (
    ACTIVE,
    ACTIVE_CHILDREN,
    BY_NAME,
    CANCELLED,
    CHILDREN,
    COMPLETED,
    DEPTH_MAX,
    EXPIRED,
    IN_SPACE,
    IN_STATE,
    SCOPES,
    Scope,
    effective,
    end,
    find,
    own_state,
    require_active,
)
from statemachine.types import (
    COUNT_MAX,
    LIST_LIMIT_DEFAULT,
    Answer,
    Cursor,
    Id,
    Limit,
    Name,
    Request,
    Time,
    time_ms,
    time_text,
)

State: TypeAlias = Literal["ACTIVE", "CANCELLED", "COMPLETED", "EXPIRED"]


class CreateScope(Request, frozen=True):
    """child_limit: how many direct children may be active at once."""

    name: Name | None = None
    parent_id: Id | None = None
    deadline: Time | None = None
    child_limit: Annotated[int, Meta(ge=0, le=COUNT_MAX)] | None = None


class JoinRun(Request, frozen=True):
    name: Name
    deadline: Time | None = None


class OneScope(Request, frozen=True):
    scope_id: Id


class ListScopes(Request, frozen=True):
    parent_id: Id | None = None
    state: State | None = None
    limit: Limit = LIST_LIMIT_DEFAULT
    cursor: Cursor | None = None


class ScopeView(Answer, frozen=True):
    """stored_state: its own. effective: ACTIVE, or the state of the nearest ended run from this one upward."""

    id: str
    name: str | None
    parent_id: str | None
    stored_state: State
    effective: State
    deadline: str | None
    created_at: str


class Scopes(Answer, frozen=True):
    scopes: list[ScopeView]
    next_cursor: str | None


def _view(view: View, scope: Scope) -> ScopeView:
    return ScopeView(
        id=scope.id,
        name=scope.name,
        parent_id=scope.parent_id,
        stored_state=scope.state,  # type: ignore[arg-type]
        effective=effective(view, scope),  # type: ignore[arg-type]
        deadline=None if scope.deadline_ms is None else time_text(scope.deadline_ms),
        created_at=time_text(scope.created_at_ms),
    )


def _add(
    context: Context,
    name: str | None,
    deadline: Time | None,
    *,
    named: bool = False,
    parent: Scope | None = None,
    child_limit: int | None = None,
) -> ScopeView:
    scope = Scope(
        id=context.new_id("scp"),
        space=context.space,
        name=name,
        named=named,
        parent_id=None if parent is None else parent.id,
        depth=1 if parent is None else parent.depth + 1,
        state=ACTIVE,
        deadline_ms=None if deadline is None else time_ms(deadline),
        child_limit=child_limit,
        created_at_ms=context.wall_now_ms,
    )
    context.rows(SCOPES).put(scope)
    made = _view(context, scope)
    context.emit(
        "scope.created", ("scope", scope.id), scope.id, name=name, parentId=scope.parent_id, deadline=made.deadline
    )
    context.mark_created()
    return made


@operation(
    "scopes.create",
    "POST /scopes",
    errors=(NOT_FOUND, CONFLICT, SCOPE_CANCELLED, DEADLINE_EXCEEDED),
    events=("scope.created",),
)
def create(context: Context, request: CreateScope) -> ScopeView:
    """Create a run, as a child of another one if `parentId` is given.

    A deadline that has passed already ends it at once. CONFLICT: the parent has as many active children as it may.
    """
    parent = None if request.parent_id is None else require_active(context, request.parent_id)
    if parent is not None:
        _require_place(context, parent)
    return _add(context, request.name, request.deadline, parent=parent, child_limit=request.child_limit)


def _require_place(context: Context, parent: Scope) -> None:
    if parent.depth >= DEPTH_MAX:
        raise Refused(
            VALIDATION_FAILED, f"parentId: runs are nested at most {DEPTH_MAX} deep, and this parent is there"
        )
    if parent.child_limit is None:
        return
    active = context.rows(SCOPES).count(ACTIVE_CHILDREN, parent.id, after=(context.wall_now_ms + 1,))
    if active >= parent.child_limit:
        raise Refused(
            CONFLICT,
            f"scope {parent.id} has {active} active children, its childLimit is {parent.child_limit}",
            childLimit=parent.child_limit,
            activeChildren=active,
        )


def _joined(view: View, request: JoinRun) -> ScopeView | None:
    scope = view.rows(SCOPES).find(BY_NAME, (view.space, request.name))
    return None if scope is None or own_state(view, scope) != ACTIVE else _view(view, scope)


@operation("runs.join", "PUT /runs/{name}", repeatable=True, lookup=_joined, events=("scope.created", "scope.expired"))
def join(context: Context, request: JoinRun) -> ScopeView:
    """Join the active root run of that name, or create it. The deadline of the one that creates it stands."""
    past = context.rows(SCOPES).find(BY_NAME, (context.space, request.name))
    if past is not None:  # its deadline has passed, and the sweep has not come by yet
        end(context, past, EXPIRED)
    return _add(context, request.name, request.deadline, named=True)


def _end(context: Context, scope_id: str, state: str) -> ScopeView:
    scope = find(context, scope_id)
    if effective(context, scope) == ACTIVE:
        scope = end(context, scope, state)
    return _view(context, scope)


@operation(
    "scopes.cancel",
    "POST /scopes/{scopeId}/cancel",
    repeatable=True,
    urgent=True,
    errors=(NOT_FOUND,),
    events=("scope.cancelled",),
)
def cancel(context: Context, request: OneScope) -> ScopeView:
    """Cancel a run: from here on its whole subtree refuses new work. One that has ended stays as it is."""
    return _end(context, request.scope_id, CANCELLED)


@operation(
    "scopes.complete",
    "POST /scopes/{scopeId}/complete",
    repeatable=True,
    urgent=True,
    errors=(NOT_FOUND,),
    events=("scope.completed",),
)
def complete(context: Context, request: OneScope) -> ScopeView:
    """Complete a run: from here on its whole subtree refuses new work. One that has ended stays as it is."""
    return _end(context, request.scope_id, COMPLETED)


@query("scopes.get", "GET /scopes/{scopeId}", errors=(NOT_FOUND,))
def get(view: View, request: OneScope) -> ScopeView:
    """One run and whether it takes new work."""
    return _view(view, find(view, request.scope_id))


@query("scopes.list", "GET /scopes", errors=(NOT_FOUND,))
def list_some(view: View, request: ListScopes) -> Scopes:
    """Runs, oldest first: of the space, or the direct children of one; `state` is their own, stored one."""
    rows = view.rows(SCOPES)
    if request.parent_id is not None:
        parent = find(view, request.parent_id)
        found, cursor = page(
            rows,
            CHILDREN,
            parent.id,
            request.limit,
            request.cursor,
            matches=lambda scope: request.state in (None, scope.state),
        )
    elif request.state is not None:
        found, cursor = page(rows, IN_STATE, (view.space, request.state), request.limit, request.cursor)
    else:
        found, cursor = page(rows, IN_SPACE, view.space, request.limit, request.cursor)
    return Scopes(scopes=[_view(view, scope) for scope in found], next_cursor=cursor)
