"""The audit record: which operator or key changed what, and with which log entry.

Every operation that is declared `audited` and changed something leaves one row, written by the machine itself, so that
no operation can forget it. Rows are kept apart from the events of spaces: nobody but the operator reads them, they
outlive the space, and they have their own bounds on age and number. They never hold a secret: fields that the node
fills in are left out.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw

from statemachine.context import Context, View
from statemachine.declare import Access, Operation, query
from statemachine.entry import OPERATOR
from statemachine.paging import page
from statemachine.store import Due, Ordered, Table
from statemachine.types import LIST_LIMIT_DEFAULT, Answer, Cursor, Id, Limit, Record, Request, time_text

KEPT_MS = 90 * 86_400_000  # wall time
ROWS_MAX = 100_000


class Audited(Record, frozen=True):
    """One change. request and answer are JSON, as the operation decoded and made them."""

    number: int
    at_ms: int
    key_id: str | None  # None: the operator
    space: str | None
    operation: str
    request: bytes
    answer: bytes
    index: int
    position: int


def _forget(context: Context, row: Audited) -> None:
    context.rows(AUDIT).delete((row.number,))


NEWEST: Ordered[Audited] = Ordered(group=lambda _: 0, order=lambda a: -a.number)
NEWEST_OF_SPACE: Ordered[Audited] = Ordered(group=lambda a: a.space, order=lambda a: -a.number)
OLDEST: Ordered[Audited] = Ordered(group=lambda _: 0, order=lambda a: a.number)

AUDIT = Table(
    "audit",
    Audited,
    key=lambda a: (a.number,),
    indexes=(NEWEST, NEWEST_OF_SPACE, OLDEST),
    due=(Due("audit.forget", "wall", at=lambda a: a.at_ms + KEPT_MS, run=_forget),),
)


def record(context: Context, declared: Operation, key_id: str | None, request: Request, answer: bytes) -> None:
    """Add the row of an operation that just succeeded and changed something, and drop the oldest one over the bound.

    key_id: of the API key behind the request, None for the operator. answer: JSON, empty for none.
    """
    rows = context.rows(AUDIT)
    sent = msgspec.to_builtins(request)
    for field in declared.front_fields:
        sent.pop(request.__struct_encode_fields__[request.__struct_fields__.index(field)], None)
    rows.put(
        Audited(
            number=context.number(),
            at_ms=context.wall_now_ms,
            key_id=key_id,
            space=context.space or getattr(request, "space_id", None),
            operation=declared.name,
            request=msgspec.json.encode(sent),
            answer=answer or b"null",
            index=context.index,
            position=context.position,
        )
    )
    if len(rows) > ROWS_MAX:
        oldest = rows.first(OLDEST, 0)
        assert oldest is not None
        rows.delete((oldest.number,))


class ListAudit(Request, frozen=True):
    space_id: Id | None = None
    limit: Limit = LIST_LIMIT_DEFAULT
    cursor: Cursor | None = None


class AuditRow(Answer, frozen=True):
    """actor: `operator`, or `key` with the id of the key. logIndex, position: the entry, and the place in it."""

    id: str
    at: str
    actor: str
    key_id: str | None
    space_id: str | None
    operation: str
    request: Raw
    answer: Raw
    log_index: int
    position: int


class AuditPage(Answer, frozen=True):
    audit: list[AuditRow]
    next_cursor: str | None


@query("audit.list", "GET /audit", access=Access.OPERATOR)
def list_all(view: View, request: ListAudit) -> AuditPage:
    """Changes of operators and configuration, newest first, of one space or of all."""
    rows = view.rows(AUDIT)
    if request.space_id is None:
        found, cursor = page(rows, NEWEST, 0, request.limit, request.cursor)
    else:
        found, cursor = page(rows, NEWEST_OF_SPACE, request.space_id, request.limit, request.cursor)
    return AuditPage(audit=[_view(row) for row in found], next_cursor=cursor)


def _view(row: Audited) -> AuditRow:
    return AuditRow(
        id=f"aud_{row.number:020x}",
        at=time_text(row.at_ms),
        actor=OPERATOR.decode() if row.key_id is None else "key",
        key_id=row.key_id,
        space_id=row.space,
        operation=row.operation,
        request=Raw(row.request),
        answer=Raw(row.answer),
        log_index=row.index,
        position=row.position,
    )
