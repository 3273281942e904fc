"""Spaces: projects or environments of an organization. Everything but the cluster itself lives in one.

A space has a bound on the records and bytes that it keeps. At four fifths of either it says so, once, with an event; at
the bound it refuses new work, while reads, renewals and hand-backs go on.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from statemachine import events, organizations
from statemachine.context import Context, View
from statemachine.declare import Access, event_types, operation, query
from statemachine.errors import NOT_FOUND, RESOURCE_EXHAUSTED, Refused
from statemachine.paging import page
from statemachine.store import Ordered, Table, Usage
from statemachine.types import LIST_LIMIT_DEFAULT, Answer, Cursor, Id, Limit, Name, Record, Request, time_text

NEARLY_FULL_PERCENT = 80
ROOM_AGAIN_PERCENT = 70  # below it the next crossing is told again


class Settings(Record, frozen=True):
    """What an operator may set of a space. Days are wall time; the others are counts, bytes and seconds."""

    max_hold_seconds: int = 86_400
    max_lapses: int = 20
    max_records: int = 5_000_000
    max_bytes: int = 8 << 30
    result_days: int = 30
    event_days: int = 7
    event_count: int = 100_000


class Space(Record, frozen=True):
    """nearly_full: its last crossing of NEARLY_FULL_PERCENT has been told. deleted: only its remains are left."""

    id: str
    name: str
    organization_id: str
    settings: Settings
    suspended: bool
    created_at_ms: int
    nearly_full: bool = False
    deleted: bool = False


ALL: Ordered[Space] = Ordered(group=lambda s: None if s.deleted else 0, order=lambda s: s.id)

SPACES = Table("spaces", Space, key=lambda s: s.id, indexes=(ALL,))

event_types(space_nearly_full="the space keeps four fifths of the records or bytes that it may")


def find(view: View, space_id: str) -> Space:
    """Raises NOT_FOUND, also for a space that is being deleted."""
    space = view.rows(SPACES).get(space_id)
    if space is None or space.deleted:
        raise Refused(NOT_FOUND, f"there is no space {space_id!r}")
    return space


# ---------------------------------------------------------------------- the bound on what it keeps


def full(view: View) -> Refused | None:
    """The refusal of new work in the space of the request, None while it may keep more."""
    space = view.rows(SPACES).get(view.space)
    usage = view.store.usage.get(view.space)
    if space is None or usage is None:
        return None
    settings = space.settings
    if usage.records >= settings.max_records:
        return Refused(RESOURCE_EXHAUSTED, f"the space holds its maximum of {settings.max_records} records")
    if usage.bytes >= settings.max_bytes:
        return Refused(RESOURCE_EXHAUSTED, f"the space holds its maximum of {settings.max_bytes} bytes")
    return None


def kept(view: View) -> tuple[int, int]:
    """How many records and bytes the space of the request keeps."""
    usage = view.store.usage.get(view.space, _NOTHING)
    return usage.records, usage.bytes


def note_usage(context: Context) -> None:
    """Tell that the space of the request became nearly full, or note that it has room again."""
    space = context.rows(SPACES).get(context.space)
    if space is None:
        return
    usage = context.store.usage.get(context.space, _NOTHING)
    settings = space.settings
    if not space.nearly_full and _above(usage, settings, NEARLY_FULL_PERCENT):
        context.rows(SPACES).put(msgspec.structs.replace(space, nearly_full=True))
        context.emit(
            "space.nearly-full",
            ("space", space.id),
            records=usage.records,
            maxRecords=settings.max_records,
            bytes=usage.bytes,
            maxBytes=settings.max_bytes,
        )
    elif space.nearly_full and not _above(usage, settings, ROOM_AGAIN_PERCENT):
        context.rows(SPACES).put(msgspec.structs.replace(space, nearly_full=False))


_NOTHING = Usage()


def _above(usage: Usage, settings: Settings, percent: int) -> bool:
    return usage.records * 100 >= settings.max_records * percent or usage.bytes * 100 >= settings.max_bytes * percent


# ---------------------------------------------------------------------- the operator's calls

Days: TypeAlias = Annotated[int, Meta(ge=1, le=3650)]


class SettingsChange(Request, frozen=True):
    """What is absent stays as it is, in a new space at its default."""

    max_hold_seconds: Annotated[int, Meta(ge=1, le=31_536_000)] | None = None
    max_lapses: Annotated[int, Meta(ge=1, le=1000)] | None = None
    max_records: Annotated[int, Meta(ge=1, le=50_000_000)] | None = None
    max_bytes: Annotated[int, Meta(ge=1, le=1 << 40)] | None = None
    result_days: Days | None = None
    event_days: Days | None = None
    event_count: Annotated[int, Meta(ge=1, le=10_000_000)] | None = None


class CreateSpace(Request, frozen=True):
    name: Name
    organization_id: Id | None = None
    settings: SettingsChange | None = None


class ChangeSpace(Request, frozen=True):
    space_id: Id
    suspended: bool | None = None
    settings: SettingsChange | None = None


class ListSpaces(Request, frozen=True):
    limit: Limit = LIST_LIMIT_DEFAULT
    cursor: Cursor | None = None


class SettingsView(Answer, frozen=True):
    max_hold_seconds: int
    max_lapses: int
    max_records: int
    max_bytes: int
    result_days: int
    event_days: int
    event_count: int


class SpaceView(Answer, frozen=True):
    """records, bytes: what it keeps now; bytes is an estimate, the one that its bound is measured by."""

    id: str
    name: str
    organization_id: str
    settings: SettingsView
    suspended: bool
    created_at: str
    records: int
    bytes: int


class Spaces(Answer, frozen=True):
    spaces: list[SpaceView]
    next_cursor: str | None


def _view(view: View, space: Space) -> SpaceView:
    usage = view.store.usage.get(space.id, _NOTHING)
    return SpaceView(
        id=space.id,
        name=space.name,
        organization_id=space.organization_id,
        settings=SettingsView(*msgspec.structs.astuple(space.settings)),
        suspended=space.suspended,
        created_at=time_text(space.created_at_ms),
        records=usage.records,
        bytes=usage.bytes,
    )


def _changed(settings: Settings, change: SettingsChange | None) -> Settings:
    if change is None:
        return settings
    given = {name: value for name, value in msgspec.structs.asdict(change).items() if value is not None}
    return msgspec.structs.replace(settings, **given)


def _keep_events(context: Context, space: Space) -> None:
    settings = space.settings
    events.retain(context.store, space.id, settings.event_count, settings.event_days, context.wall_now_ms)


@operation("spaces.create", "POST /spaces", access=Access.OPERATOR, errors=(NOT_FOUND,))
def create(context: Context, request: CreateSpace) -> SpaceView:
    """Create a space, in the default organization unless one is named. Its name is a label."""
    organization = organizations.find(context, request.organization_id or organizations.DEFAULT)
    space = Space(
        id=context.new_id("spc"),
        name=request.name,
        organization_id=organization.id,
        settings=_changed(Settings(), request.settings),
        suspended=False,
        created_at_ms=context.wall_now_ms,
    )
    context.rows(SPACES).put(space)
    _keep_events(context, space)
    context.mark_created()
    return _view(context, space)


@operation("spaces.change", "PATCH /spaces/{spaceId}", access=Access.OPERATOR, errors=(NOT_FOUND,))
def change(context: Context, request: ChangeSpace) -> SpaceView:
    """Suspend or resume a space, or change its settings; what is absent stays."""
    old = find(context, request.space_id)
    new = msgspec.structs.replace(
        old,
        suspended=old.suspended if request.suspended is None else request.suspended,
        settings=_changed(old.settings, request.settings),
    )
    if new != old:
        context.rows(SPACES).put(new)
        _keep_events(context, new)
    return _view(context, new)


@query("spaces.list", "GET /spaces", access=Access.OPERATOR)
def list_all(view: View, request: ListSpaces) -> Spaces:
    """All spaces, oldest first; one that is being deleted is not among them."""
    rows, cursor = page(view.rows(SPACES), ALL, 0, request.limit, request.cursor)
    return Spaces(spaces=[_view(view, row) for row in rows], next_cursor=cursor)
