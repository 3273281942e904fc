"""What primitives keep in runs and spaces, for the bookkeeping when a run ends or either is removed.

A primitive registers, beside its table, what becomes of its records. `scopes` and `space_deletion` call it in bounded
steps, each given a budget of records it may change, until it says by changing fewer that nothing is left.

    dependents.of_scope("barriers", end=_cancel_open, remove=dependents.deleting(BARRIERS, IN_SCOPE))

end: the run ended, or one above it. Cancel what waits there for it (pending tasks, waiters, timers); whatever is held
can still be handed back and is left alone. What readers see must be right without it: they ask `scopes.ended`.
remove: the run is forgotten. Delete every record of it.

Steps run in the order of the names, may run again for what they have done already, and must cope with records of
others being gone. A step finds its records through an index by run or space, never by a scan.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias, TypeVar

from statemachine.context import Context
from statemachine.store import Ordered, Table
from statemachine.types import Record

R = TypeVar("R", bound=Record)
Step: TypeAlias = Callable[[Context, str, int], int]  # (context, id of the run or space, budget) -> records changed


@dataclass(frozen=True, slots=True)
class Dependents:
    end: Step | None
    remove: Step


IN_SCOPES: dict[str, Dependents] = {}
IN_SPACES: dict[str, Step] = {}


def of_scope(name: str, *, remove: Step, end: Step | None = None) -> None:
    """Register what a primitive keeps in runs. name: unique, says the order among the others."""
    assert name not in IN_SCOPES, name
    IN_SCOPES[name] = Dependents(end, remove)


def of_space(name: str, remove: Step) -> None:
    """Register what a primitive keeps in a space beside its runs."""
    assert name not in IN_SPACES, name
    IN_SPACES[name] = remove


def deleting(table: Table[R], index: Ordered[R]) -> Step:
    """A step that deletes the records of a group, in order."""

    def step(context: Context, group: str, budget: int) -> int:
        rows = context.rows(table)
        found = [table.key(record) for record in islice(rows.ordered(index, group), budget)]
        for key in found:
            rows.delete(key)
        return len(found)

    return step


def end_in_scope(context: Context, scope_id: str, budget: int) -> int:
    """Take one bounded step of the bookkeeping for a run that ended. Returns records changed; below budget: done."""
    return _all(context, [one.end for _, one in sorted(IN_SCOPES.items()) if one.end is not None], scope_id, budget)


def remove_of_scope(context: Context, scope_id: str, budget: int) -> int:
    """Delete some of what a run holds. Returns records changed; below budget: nothing is left."""
    return _all(context, [one.remove for _, one in sorted(IN_SCOPES.items())], scope_id, budget)


def remove_of_space(context: Context, space_id: str, budget: int) -> int:
    """Delete some of what a space holds beside its runs. Returns records changed; below budget: nothing is left."""
    return _all(context, [step for _, step in sorted(IN_SPACES.items())], space_id, budget)


def _all(context: Context, steps: list[Step], owner: str, budget: int) -> int:
    left = budget
    for step in steps:
        if left <= 0:
            break
        left -= step(context, owner, left)
    return budget - left
