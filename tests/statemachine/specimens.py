"""A primitive made for tests: one table with every kind of index and due item, and operations that go wrong on demand.

It is declared while a test runs and withdrawn afterwards (`specimens` in conftest.py), so that no other test sees it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from statemachine.context import Context, View
from statemachine.declare import EVENT_TYPES, OPERATIONS, QUERIES, event_types, operation, query
from statemachine.errors import CONFLICT, Refused
from statemachine.store import DUE_KINDS, TABLES, Due, Ordered, Table, Tally, Unique
from statemachine.types import UNSET, Answer, Record, Request, UnsetType


class Specimen(Record, frozen=True):
    id: str
    space: str = "spc_1"
    alias: str | None = None
    group: str | None = None
    rank: int | str = 0  # a str among ints cannot be put in order: a defect on demand
    amount: int = 0
    lease_at_ms: int | None = None
    wall_at_ms: int | None = None
    runs: int = 0
    fault: str = ""  # what goes wrong when it becomes due


class Put(Request, frozen=True):
    id: str
    alias: str | None = None
    group: str | None = None
    rank: int | str = 0
    amount: int = 0
    lease_at_ms: int | None = None
    wall_at_ms: int | None = None
    fault: str = ""  # the operation's own: raised after it has changed something
    due_fault: str = ""


class Keep(Request, frozen=True):
    pass


class Remove(Request, frozen=True):
    id: str


class Done(Answer, frozen=True):
    id: str
    token: str
    note: str | UnsetType = UNSET


class Look(Request, frozen=True):
    id: str


FAULTS: dict[str, Exception] = {
    "assertion": AssertionError("on demand"),
    "key": KeyError("on demand"),
    "type": TypeError("on demand"),
    "value": ValueError("on demand"),
    "memory": MemoryError("on demand"),  # type: ignore[dict-item]
    "recursion": RecursionError("on demand"),
    "os": OSError("on demand"),
}


@contextmanager
def declared() -> Iterator[SimpleNamespace]:
    """Declare the primitive; gives its table and indexes. Everything is withdrawn at the end."""
    registers: tuple[dict[str, Any], ...] = (TABLES, DUE_KINDS, OPERATIONS, QUERIES, EVENT_TYPES)
    kept = [dict(register) for register in registers]
    try:
        yield _declare()
    finally:
        for register, content in zip(registers, kept, strict=True):
            register.clear()
            register.update(content)


def _declare() -> SimpleNamespace:
    alias: Unique[Specimen] = Unique(by=lambda s: s.alias)
    ranked: Ordered[Specimen] = Ordered(group=lambda s: s.group, order=lambda s: (s.rank, s.id))
    total: Tally[Specimen] = Tally(group=lambda s: s.group, amount=lambda s: s.amount)
    table = Table(
        "specimens",
        Specimen,
        key=lambda s: s.id,
        space=lambda s: s.space,
        weight=lambda s: 10 + len(s.id),
        indexes=(total, alias, ranked),
        due=(
            Due("specimen.lease", "lease", at=lambda s: s.lease_at_ms, run=_ring("lease_at_ms")),
            Due("specimen.wall", "wall", at=lambda s: s.wall_at_ms, run=_ring("wall_at_ms")),
        ),
    )
    event_types(specimen_rung="a specimen's time came", specimen_put="a specimen was put")

    @operation("specimens.put", "POST /specimens", errors=(CONFLICT,), events=("specimen.put",))
    def put(context: Context, request: Put) -> Done:
        """Put a specimen, then fail as asked."""
        rows = context.rows(table)
        if rows.get(request.id) is None:
            context.mark_created()
        record = Specimen(
            id=request.id,
            space=context.space,
            alias=request.alias,
            group=request.group,
            rank=request.rank,
            amount=request.amount,
            lease_at_ms=request.lease_at_ms,
            wall_at_ms=request.wall_at_ms,
            fault=request.due_fault,
        )
        rows.put(record)
        context.emit("specimen.put", ("specimen", request.id))
        if request.fault == "refused":
            raise Refused(CONFLICT, "refused on demand, after a change", id=request.id)
        if request.fault:
            raise FAULTS[request.fault]
        return Done(id=request.id, token=context.token(request.id, 1))

    @operation("specimens.remove", "POST /specimens/{id}/remove", repeatable=True, urgent=True)
    def remove(context: Context, request: Remove) -> Done | None:
        """Remove a specimen; 204 also when there is none."""
        if request.id in context.rows(table):
            context.rows(table).delete(request.id)

    @operation("specimens.keep", "POST /specimens/keep")
    def keep(context: Context, request: Keep) -> Done:
        """Change nothing."""
        return Done(id="", token="")

    @query("specimens.look", "GET /specimens/{id}")
    def look(view: View, request: Look) -> Done:
        """Look at one."""
        return Done(id=view.rows(table)[request.id].id, token="", note="seen")

    return SimpleNamespace(table=table, alias=alias, ranked=ranked, total=total)


def _ring(field: str) -> Any:
    def run(context: Context, specimen: Specimen) -> None:
        rows = context.rows(TABLES["specimens"])
        changed = {name: getattr(specimen, name) for name in Specimen.__struct_fields__}
        changed |= {field: None, "runs": specimen.runs + 1}
        if specimen.fault == "stays":
            return
        rows.put(Specimen(**changed))
        context.emit("specimen.rung", ("specimen", specimen.id), clock=field.removesuffix("_at_ms"))
        if specimen.fault.startswith("remove:"):
            other = specimen.fault.removeprefix("remove:")
            if other in rows:
                rows.delete(other)
        elif specimen.fault:
            raise FAULTS[specimen.fault]

    return run
