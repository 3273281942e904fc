"""The way of a write: a declared operation from its arguments to its outcome.

It is checked, encoded and proposed once; where it is applied decides who may and what happens. Around that: a repeat
waits for the first, a PUT of what exists answers without an entry, an operation that has to wait in a line keeps its
request open until its turn comes, and an outcome that nobody knows never becomes an answer that a caller could take
for "not applied".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing

import msgspec

from api.call import Call
from api.endpoint import NoAnswer
from api.fronting import Fronting
from api.gate import Gate
from api.in_flight import InFlight, Running
from api.limits import GRACE_SECONDS, HOLD_SECONDS, OPERATION_MS
from api.measures import Measures
from api.presence import Presence
from api.replica import OutcomeUnknown, Replica
from api.requests import OperationDoor
from api.router import PREFIXES, fields_of
from api.waiting import Hub
from statemachine.declare import OPERATIONS, Access, Operation, Wait
from statemachine.entry import encode_operation
from statemachine.errors import UNAVAILABLE, VALIDATION_FAILED, Refused
from statemachine.machine import Outcome, refusal
from statemachine.types import PAYLOAD_BYTES_MAX

WAITING = 202


class Writes:
    """What all operation endpoints of a node share."""

    def __init__(self, replica: Replica, hub: Hub, measures: Measures) -> None:
        self.replica = replica
        self.hub = hub
        self.measures = measures
        self.gate = Gate(replica)
        self.in_flight = InFlight()
        self.now = asyncio.get_running_loop().time

    async def propose(
        self,
        declared: Operation,
        call: Call,
        idempotency: tuple[str, bytes] | None,
        arguments: bytes,
        *,
        safe: bool = False,
    ) -> Outcome:
        """The outcome of one operation, or UNAVAILABLE when nobody knows it and a repeat is safe.

        safe: a repeat is safe for another reason than the operation's key or nature.
        Raises Unavailable (nothing was changed) or NoAnswer (nobody knows, and a repeat is not safe).
        """
        begun = self.now()
        while True:
            outcome, expired = await self._propose_once(declared, call, idempotency, arguments, safe)
            if not expired or self.now() >= call.deadline:
                break
        self.measures.commit_seconds.observe(self.now() - begun)
        return outcome

    async def _propose_once(
        self, declared: Operation, call: Call, idempotency: tuple[str, bytes] | None, arguments: bytes, safe: bool
    ) -> tuple[Outcome, bool]:
        """The outcome, and whether the operation had expired in the log before it was applied.

        A node that has just started, or was cut off, does not know how far lease time has come, and so gives less time
        than it means to. It knows once it has applied the refusal, and then a request that has time left is made anew.
        """
        replica = self.replica
        if not replica.metrics.is_leader:
            self.measures.forwarded += 1
        expires_ms = max(replica.lease_now_ms(), replica.machine.lease_now_ms) + OPERATION_MS
        data = encode_operation(declared.name, call.space, call.actor, expires_ms, idempotency, arguments)
        try:
            outcome = await replica.propose(data, urgent=declared.urgent, deadline=call.deadline)
        except OutcomeUnknown:
            if idempotency is None and not declared.repeatable and not safe:
                raise NoAnswer from None
            how = "as it is" if idempotency is None and not safe else "with the same idempotency key"
            text = f"the outcome is not known yet; repeat the request {how} to settle it"
            return refusal(Refused(UNAVAILABLE, text), 0, 0), False
        return outcome, outcome.code == UNAVAILABLE.code and replica.machine.lease_now_ms > expires_ms


class OperationEndpoint:
    """One declared operation behind its path."""

    def __init__(self, declared: Operation, writes: Writes, payload_bytes_max: Callable[[str], int]) -> None:
        self.declared = declared
        self.name = declared.name
        self.method = declared.method
        self.template = PREFIXES[declared.access] + declared.path
        self.access: Access | None = declared.access
        self.door = OperationDoor(declared, fields_of(declared.path))
        self._writes = writes
        self._payload_bytes_max = payload_bytes_max
        self._fronting = Fronting(declared, writes.replica) if declared.front_fields else None
        self._request_decoder = msgspec.json.Decoder(declared.request)

    async def answer(self, call: Call) -> Outcome:
        writes, declared = self._writes, self.declared
        try:
            idempotency, arguments, wait_ms = self._read(call)
        except Refused:
            kept = await writes.gate.admit(call, declared)
            if kept is not None:
                return kept
            idempotency, arguments, wait_ms = self._read(call)  # again: a plan's bound is now known for certain
        if not writes.gate.is_known(call, declared):
            await writes.gate.require(call, declared)
        if declared.lookup is not None and (found := await self._look_up(call, arguments)) is not None:
            return found
        if idempotency is None or declared.repeatable:
            return await self._run(call, idempotency, arguments, wait_ms, None)
        while (first := writes.in_flight.get(call.space, idempotency[0])) is not None:
            await first.wait_ended(call.connection)
            if call.connection is not None and call.connection.lost:
                raise NoAnswer
            call.deadline = writes.now() + HOLD_SECONDS
        with writes.in_flight.begin(call.space, idempotency[0]) as running:
            return await self._run(call, idempotency, arguments, wait_ms, running)

    def _read(self, call: Call) -> tuple[tuple[str, bytes] | None, bytes, int]:
        if call.invalid is not None:
            raise call.invalid
        idempotency = call.idempotency()
        bytes_max = self._payload_bytes_max(call.space) if self.door.has_payload else PAYLOAD_BYTES_MAX
        arguments, wait_ms = self.door.read(call.values, call.query, call.body, bytes_max)
        if wait_ms and call.connection is None:
            raise Refused(VALIDATION_FAILED, "waitMs: must be 0 in a batch, which waits for nothing")
        return idempotency, arguments, wait_ms

    async def _run(
        self,
        call: Call,
        idempotency: tuple[str, bytes] | None,
        arguments: bytes,
        wait_ms: int,
        running: Running | None,
    ) -> Outcome:
        if self._fronting is not None:
            return await self._fronting.run(call, idempotency, arguments, self._writes.propose)
        outcome = await self._writes.propose(self.declared, call, idempotency, arguments)
        if outcome.status == WAITING and self.declared.wait is not None:
            return await self._stand_in_line(self.declared.wait, call, idempotency, outcome, wait_ms, running)
        return outcome

    async def _look_up(self, call: Call, arguments: bytes) -> Outcome | None:
        replica = self._writes.replica
        await replica.read(call.deadline)
        call.read_index = replica.machine.index
        found = replica.machine.look_up(self.name, self._request_decoder.decode(arguments), call.space, call.actor)
        return None if found is None else Outcome(200, "", msgspec.json.encode(found), replica.machine.index, 0)

    async def _stand_in_line(
        self,
        wait: Wait,
        call: Call,
        idempotency: tuple[str, bytes] | None,
        outcome: Outcome,
        wait_ms: int,
        running: Running | None,
    ) -> Outcome:
        """Wait for the turn of a caller that stands in a line now; when it comes no more, give the place up."""
        writes, take = self._writes, OPERATIONS[wait.take]
        until = call.started + wait_ms / 1000
        call.waited = True
        grace_seconds = 0.0 if running is None else GRACE_SECONDS
        with closing(Presence(grace_seconds)) as presence:
            if running is not None:
                running.presence = presence
            for connection in (call.connection, *(running.joined if running is not None else ())):
                if connection is not None:
                    presence.join(connection)
            with writes.hub.poll(presence, until) as poll:
                while True:
                    place = msgspec.json.decode(outcome.body)
                    touched = await poll.touched((wait.topic(place),), since=outcome.index)
                    leave = not touched or not presence.here
                    call.deadline = writes.now() + HOLD_SECONDS
                    arguments = msgspec.json.encode(wait.resume(place, leave))
                    outcome = await writes.propose(take, call, None, arguments, safe=idempotency is not None)
                    if outcome.status != WAITING or leave:
                        return outcome
