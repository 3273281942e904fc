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
from statemachine.membership import IMAGE_HERE

SLICE_S = 0.02
_IMAGE_HERE = [IMAGE_HERE]


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
        # Called after each command with its index, term and size, and whether it says "image here".
        self.on_applied: Callable[[int, int, int, bool], None] = lambda index, term, size, marked: None

    def apply_first(self) -> None:
        """Genesis, which every cluster's log begins with, when the state comes from no image."""
        if self._engine.applied_index:
            return
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
        kind, marked = command[0], False
        if kind == ENTRY:
            marked = self._apply_entry(index, term, command)
        elif kind == NO_OP:
            self._proposer.on_applied(term, (), ())
        else:
            raise InvariantBroken(f"entry {index} holds a command of type {kind}, which this build does not know")
        self.on_applied(index, term, len(command), marked)

    def _apply_entry(self, index: int, term: int, command: bytes) -> bool:
        """Returns whether the entry says "image here"."""
        entry = decode_entry(memoryview(command)[1:])
        applied = self._machine.apply(index, entry)
        self._metrics.operations_applied += len(applied.outcomes)
        self._digests.on_applied(index, self._machine.chain)
        self._proposer.on_applied(term, entry.origins, applied.outcomes)
        self._duties.on_applied(applied, self._clocks.monotonic())
        for subscriber in self._subscribers:
            subscriber(index, applied)
        return entry.operations == _IMAGE_HERE
