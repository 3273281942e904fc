"""Reading events: a page of them, or the next ones as they happen.

A cursor is a position in the space's sequence of events, spelled like the id of an event: reading goes on behind it. It
moves past events that did not match, so that a reader with a narrow filter is never left behind by retention while it
keeps asking. A cursor whose next events are gone already is CURSOR_EXPIRED, never a silent gap.
"""

from __future__ import annotations

import re
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from statemachine.context import View, last_number, numbers_lost
from statemachine.declare import READ, query
from statemachine.errors import CURSOR_EXPIRED, NOT_FOUND, VALIDATION_FAILED, Refused
from statemachine.events import EVENTS, IN_SPACE, Event, floor
from statemachine.paging import EXAMINED_MAX
from statemachine.scopes import find, in_subtree
from statemachine.store import Topic
from statemachine.types import LIST_LIMIT_DEFAULT, Answer, Cursor, Id, Limit, Request, Text, time_text

WAIT_SECONDS_DEFAULT = 5  # released clients give up after 10

_CURSOR = re.compile(r"evt_([0-9a-f]{20})\Z")


class ListEvents(Request, frozen=True):
    cursor: Cursor | None = None
    limit: Limit = LIST_LIMIT_DEFAULT


class WatchEvents(Request, frozen=True):
    """types: comma-separated. aggregate: `type:id`. scope_id: of a run; events of all below it count as well."""

    cursor: Cursor | None = None
    types: Text | None = None
    aggregate: Text | None = None
    scope_id: Id | None = None
    limit: Limit = LIST_LIMIT_DEFAULT
    wait_seconds: Annotated[int, Meta(ge=0)] = WAIT_SECONDS_DEFAULT


class Aggregate(Answer, frozen=True):
    type: str
    id: str


class EventView(Answer, frozen=True):
    event_id: str
    type: str
    aggregate: Aggregate
    scope_id: str | None
    created_at: str
    payload: Raw


class EventPage(Answer, frozen=True):
    """next_cursor: read up to here, whether or not anything matched. more: there is more to read at once."""

    events: list[EventView]
    next_cursor: str
    more: bool | UnsetType = UNSET


class _Filter:
    """Which events a watcher asked for."""

    def __init__(self, view: View, request: WatchEvents) -> None:
        self._view = view
        self._types = frozenset(filter(None, (request.types or "").split(",")))
        self._aggregate = _aggregate(request.aggregate)
        self._root = None if request.scope_id is None else find(view, request.scope_id).id
        self._below: dict[str, bool] = {}

    def matches(self, event: Event) -> bool:
        if self._types and event.type not in self._types:
            return False
        if self._aggregate is not None and (event.aggregate_type, event.aggregate_id) != self._aggregate:
            return False
        return self._root is None or (event.scope_id is not None and self._in_subtree(event.scope_id, self._root))

    def _in_subtree(self, scope_id: str, root_id: str) -> bool:
        below = self._below.get(scope_id)
        if below is None:
            below = self._below[scope_id] = in_subtree(self._view, scope_id, root_id)
        return below


def _aggregate(text: str | None) -> tuple[str, str] | None:
    if text is None:
        return None
    kind, colon, id_ = text.partition(":")
    if not (kind and colon and id_):
        raise Refused(VALIDATION_FAILED, "aggregate: must be a type and an id, such as claim:KEY")
    return kind, id_


def _cursor_of(position: int) -> str:
    return f"evt_{position:020x}"


def _position_of(view: View, cursor: str) -> int:
    found = _CURSOR.match(cursor)
    if found is None:
        raise Refused(VALIDATION_FAILED, "cursor: not one that events or watch answered")
    position = int(found[1], 16)
    lost = position > last_number(view) or numbers_lost(view, position)
    if lost or position < floor(view.store, view.space):
        raise Refused(CURSOR_EXPIRED, "the cursor is older than the retained events, or of another cluster")
    return position


def _read(view: View, after: int, limit: int, wanted: _Filter | None) -> EventPage:
    found: list[EventView] = []
    for examined, event in enumerate(view.rows(EVENTS).ordered(IN_SPACE, view.space, after=after)):
        if len(found) == limit or examined == EXAMINED_MAX:
            return EventPage(events=found, next_cursor=_cursor_of(after), more=True)
        after = event.position
        if wanted is None or wanted.matches(event):
            found.append(_view(event))
    return EventPage(events=found, next_cursor=_cursor_of(max(after, last_number(view))))


def _view(event: Event) -> EventView:
    return EventView(
        event_id=_cursor_of(event.position),
        type=event.type,
        aggregate=Aggregate(type=event.aggregate_type, id=event.aggregate_id),
        scope_id=event.scope_id,
        created_at=time_text(event.created_at_ms),
        payload=Raw(event.payload),
    )


@query("events.list", "GET /events", permissions=READ, errors=(CURSOR_EXPIRED,))
def list_retained(view: View, request: ListEvents) -> EventPage:
    """Events behind the cursor, without one from the oldest retained; `nextCursor` goes on from there."""
    oldest = floor(view.store, view.space)
    return _read(view, oldest if request.cursor is None else _position_of(view, request.cursor), request.limit, None)


def _changes(view: View, _: WatchEvents) -> list[Topic]:
    return [(EVENTS.name, view.space)]


def _settled(page: EventPage) -> bool:
    return bool(page.events) or page.more is True


def _again(request: WatchEvents, page: EventPage) -> WatchEvents:
    return msgspec.structs.replace(request, cursor=page.next_cursor)


@query(
    "events.watch",
    "GET /watch",
    permissions=READ,
    errors=(CURSOR_EXPIRED, NOT_FOUND),
    topics=_changes,
    settled=_settled,
    again=_again,
)
def watch(view: View, request: WatchEvents) -> EventPage:
    """The next events behind the cursor that match, waiting for them; without a cursor from now on."""
    wanted = _Filter(view, request)
    after = last_number(view) if request.cursor is None else _position_of(view, request.cursor)
    return _read(view, after, request.limit, wanted)
