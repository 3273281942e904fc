"""Long polls that wait for an answer: whatever settles one must touch a topic that it waits on.

Else its client would wait until the time is up, with the answer there to be given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from statemachine.declare import QUERIES
from statemachine.errors import Refused
from statemachine.machine import Machine
from statemachine.store import Topic


class Polls:
    """Queries that were asked and are not settled yet."""

    def __init__(self) -> None:
        self._waiting: list[tuple[str, Any, str, bytes]] = []
        self._topics: list[set[Topic]] = []

    def asked(self, machine: Machine, name: str, raw: bytes, space: str, actor: bytes | None) -> None:
        """Wait with a query that was just answered, if it is one that waits and its answer says nothing yet."""
        declared = QUERIES[name]
        if declared.settled is None or actor is None:
            return
        request = msgspec.json.decode(raw, type=declared.request)
        answer = machine.answer(name, request, space, actor)
        if not declared.settled(answer):
            request = request if declared.again is None else declared.again(request, answer)
            self._waiting = [*self._waiting[-5:], (name, request, space, actor)]

    def before(self, machine: Machine) -> None:
        """Note on what each waits, as a node does when it goes to wait."""
        self._topics = []
        for name, request, space, actor in self._waiting:
            topics = QUERIES[name].topics
            assert topics is not None
            self._topics.append(set(topics(machine.view(space, actor), request)))

    def after(self, machine: Machine, touched: Sequence[Topic]) -> None:
        """Every one that is settled now was woken."""
        left = []
        for waiting, topics in zip(self._waiting, self._topics, strict=True):
            name, request, space, actor = waiting
            try:
                answer = machine.answer(name, request, space, actor)
            except Refused:
                continue
            settled = QUERIES[name].settled
            assert settled is not None
            if settled(answer):
                assert topics.intersection(touched), f"{name} {request} was not woken for {answer}"
            else:
                left.append(waiting)
        self._waiting = left

    def clear(self) -> None:
        """Give up waiting."""
        self._waiting = []
