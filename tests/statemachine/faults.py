"""Defects put into everything that the machine runs: it does its work, and then fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from typing import Any

from statemachine.declare import OPERATIONS
from statemachine.entry import decode_entry
from statemachine.machine import Outcome
from statemachine.store import DUE_KINDS
from tests.statemachine.driver import Driver


class FaultyDriver(Driver):
    """Tries every entry with a defect in each operation and each due item first, and then once more without.

    Nothing of the first try may be left, so that the second one does as if there had been none.
    """

    def append(self, data: bytes) -> list[Outcome]:
        if self.log:
            index = len(self.log) + 1
            self.log.append((index, data))
            with failing(), self.expecting_defects():
                one, two = (machine.apply(index, decode_entry(data)) for machine in (self.first, self.second))
            assert one == two, (index, one, two)
            assert self.first.chain == self.second.chain, index
            assert not one.touched, one.touched
        return super().append(data)


@contextmanager
def failing() -> Iterator[None]:
    """Let everything fail after it has done its work."""
    operations, due_kinds = dict(OPERATIONS), dict(DUE_KINDS)
    try:
        OPERATIONS.update({name: replace(one, apply=_failing(one.apply)) for name, one in operations.items()})
        DUE_KINDS.update(
            {kind: (table, replace(due, run=_failing(due.run))) for kind, (table, due) in due_kinds.items()}
        )
        yield
    finally:
        OPERATIONS.update(operations)
        DUE_KINDS.update(due_kinds)


def _failing(run: Any) -> Any:
    @wraps(run)
    def fail(context: Any, thing: Any) -> Any:
        run(context, thing)
        raise KeyError("put in by a test")

    return fail
