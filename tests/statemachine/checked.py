"""A machine that checks itself around every operation."""

from __future__ import annotations

import msgspec

from statemachine.declare import OPERATIONS
from statemachine.entry import Command, decode_operation
from statemachine.errors import Refused
from statemachine.events import EVENTS
from statemachine.machine import Machine, Outcome
from tests.statemachine.conformance import conforms
from tests.statemachine.state import differences, snapshot


class CheckedMachine(Machine):
    """A machine that compares itself with what it was whenever it refuses, and each outcome with its declaration.

    met: the defects that it had.
    """

    def __init__(self, *, checked: bool) -> None:
        super().__init__()
        self.checked = checked
        self.met: list[Exception] = []
        self.on_defect = self.met.append

    def _run(self, index: int, position: int, data: bytes, entropy: bytes) -> Outcome:
        mark = len(self.store.changes)
        before = snapshot(self.store) if self.checked else None
        command = decode_operation(data)
        found = self._found(command)
        outcome = super()._run(index, position, data, entropy)
        if found is not None and not outcome.code and not outcome.replayed:
            assert (outcome.status, outcome.body) == (200, found), "a look-up and the operation say different things"
        if (outcome.code and not _leaves(command)) or outcome.replayed:
            assert len(self.store.changes) == mark, f"{outcome.code} left changes: {self.store.changes[mark:]}"
            if before is not None:
                assert not (left := differences(before, snapshot(self.store))), (outcome.body, left)
        events = [new.type for rows, _, _, new in self.store.changes[mark:] if rows.table is EVENTS and new is not None]
        conforms(OPERATIONS[command.name], outcome, events)
        return outcome

    def _found(self, command: Command) -> bytes | None:
        """What a node answers without proposing anything."""
        declared = OPERATIONS.get(command.name)
        if declared is None or declared.lookup is None:
            return None
        try:
            request = msgspec.json.decode(command.arguments, type=declared.request)
            found = self.look_up(command.name, request, command.space, command.actor)
        except (Refused, msgspec.ValidationError, msgspec.DecodeError):
            return None
        return None if found is None else msgspec.json.encode(found)

    def reloaded(self) -> CheckedMachine:
        """A machine of the same state that has only seen its dump."""
        other = CheckedMachine(checked=self.checked)
        other.store.load(self.store.dump())
        other.index, other.chain = self.index, self.chain
        other.lease_now_ms, other.wall_now_ms = self.lease_now_ms, self.wall_now_ms
        return other


def _leaves(command: Command) -> bool:
    """Whether the operation gives up a place in a line: the one case in which a refusal changes something."""
    takes = {declared.wait.take for declared in OPERATIONS.values() if declared.wait is not None}
    return command.name in takes and b'"leave":true' in command.arguments
