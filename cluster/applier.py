"""Committed commands, in log order, to the machine, and its outcomes to whoever waits for them.

A slice at a time, so that a long log does not keep the loop from answering. An exception of the machine or of a
subscriber ends the node before anything else leaves it; the command is applied again, once, after the restart.
"""

from collections.abc import Callable, Sequence

from cluster.archive import Archive
from cluster.digests import Digests
from cluster.duties import Duties
from cluster.engine import ENTRY, NO_OP, Engine
from cluster.fatal import InvariantBroken
from cluster.metrics import Metrics
from cluster.ports import Clocks
from cluster.proposer import Proposer
from statemachine.entry import decode_entry
from statemachine.machine import Applied, Machine

SLICE_S = 0.02


class Applier:
    """subscribers: called after each entry with its index and what it did. archive: gets every command, if given."""

    def __init__(
        self,
        engine: Engine,
        machine: Machine,
        proposer: Proposer,
        duties: Duties,
        digests: Digests,
        clocks: Clocks,
        metrics: Metrics,
        subscribers: Sequence[Callable[[int, Applied], None]],
        archive: Archive | None,
    ) -> None:
        self._engine = engine
        self._machine = machine
        self._proposer = proposer
        self._duties = duties
        self._digests = digests
        self._clocks = clocks
        self._metrics = metrics
        self._subscribers = subscribers
        self._archive = archive
        self._closed = False

    def apply_first(self) -> None:
        """Genesis, which every log begins with."""
        self._engine.apply_committed(self._apply, lambda: False)

    def apply_slice(self) -> bool:
        """Apply for a while. Returns whether there is more."""
        if self._engine.applied_index == self._engine.commit_index:
            return False
        ends_at = self._clocks.monotonic() + SLICE_S
        self._engine.apply_committed(self._apply, lambda: not self._closed and self._clocks.monotonic() < ends_at)
        return self._engine.applied_index < self._engine.commit_index

    def close(self) -> None:
        """Apply nothing more."""
        self._closed = True

    def _apply(self, index: int, term: int, command: bytes) -> None:
        if self._archive is not None:
            self._archive.add(index, term, command)
        kind = command[0]
        if kind == ENTRY:
            self._apply_entry(index, term, command)
        elif kind == NO_OP:
            self._proposer.on_applied(term, (), ())
        else:
            raise InvariantBroken(f"entry {index} holds a command of type {kind}, which this build does not know")

    def _apply_entry(self, index: int, term: int, command: bytes) -> None:
        entry = decode_entry(memoryview(command)[1:])
        applied = self._machine.apply(index, entry)
        self._metrics.operations_applied += len(applied.outcomes)
        self._digests.on_applied(index, self._machine.chain)
        self._proposer.on_applied(term, entry.origins, applied.outcomes)
        self._duties.on_applied(applied, self._clocks.monotonic())
        for subscriber in self._subscribers:
            subscriber(index, applied)
