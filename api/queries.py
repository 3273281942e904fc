"""The way of a read: a declared query, answered from this node's own state behind a read index.

A long poll asks again whenever something its answer depends on was touched. It needs no second read index: the state
of this node only moves on, so whatever it answers is a state the cluster had after the request came, also when the
leader changed in between. A poll of any length costs the log nothing.
"""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import Any

import msgspec

from api.call import Call
from api.endpoint import NoAnswer
from api.gate import Gate
from api.presence import Presence
from api.replica import Replica
from api.requests import QueryDoor
from api.router import PREFIXES, fields_of
from api.waiting import Hub, Over
from statemachine.declare import Access, Query
from statemachine.errors import Refused
from statemachine.machine import Outcome

_encode = msgspec.json.Encoder().encode


class QueryEndpoint:
    """One declared query behind its path."""

    def __init__(self, declared: Query, replica: Replica, hub: Hub) -> None:
        self.declared = declared
        self.name = declared.name
        self.method = declared.method
        self.template = PREFIXES[declared.access] + declared.path
        self.access: Access | None = declared.access
        self.door = QueryDoor(declared, fields_of(declared.path))
        self._replica = replica
        self._hub = hub
        self._gate = Gate(replica)
        self._now = asyncio.get_running_loop().time

    async def answer(self, call: Call) -> Outcome:
        try:
            if call.invalid is not None:
                raise call.invalid
            request = self.door.read(call.values, call.query, call.body)
        except Refused:
            await self._gate.admit(call, self.declared)
            raise
        await self._replica.read(call.deadline)
        answer = self._ask(call, request)
        if self.declared.settled is not None and not self.declared.settled(answer):
            until = call.started + _wait_seconds(request)
            if until > self._now() and call.connection is not None:
                answer = await self._poll(call, request, answer, until)
        return Outcome(200, "", _encode(answer), call.read_index, 0)

    def _ask(self, call: Call, request: Any) -> Any:
        machine = self._replica.machine
        call.read_index = machine.index
        return machine.answer(self.name, request, call.space, call.actor)

    async def _poll(self, call: Call, request: Any, answer: Any, until: float) -> Any:
        declared, machine = self.declared, self._replica.machine
        assert declared.topics is not None
        assert declared.settled is not None
        assert call.connection is not None
        call.waited = True
        with closing(Presence()) as presence:
            presence.join(call.connection)
            with self._hub.poll(presence, until) as poll:
                while not declared.settled(answer) and poll.over is None:
                    if declared.again is not None:
                        request = declared.again(request, answer)
                    await poll.touched(declared.topics(machine.view(call.space, call.actor), request))
                    if poll.over is Over.GONE:
                        raise NoAnswer
                    answer = self._ask(call, request)
        return answer


def _wait_seconds(request: Any) -> float:
    seconds = getattr(request, "wait_seconds", None)
    return float(request.wait_ms) / 1000 if seconds is None else float(seconds)
