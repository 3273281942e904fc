"""The committed log of stopped nodes, read from their journals, and what the machine makes of it.

The log is the truth that all replies are compared with: a request that was acknowledged is in it, at the place that the
reply named, with the outcome that the reply told; a request without an idempotency key is in it at most once.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from cluster.engine import ENTRY
from cluster.journal import Journal, LogEntry
from statemachine.declare import OPERATIONS
from statemachine.entry import decode_entry, decode_operation
from statemachine.machine import Machine
from tests.integration.cluster import Cluster, Node
from tests.integration.load.record import Request

_SLICE = 500


def entries(node: Node) -> Iterator[LogEntry]:
    """The log of a node that does not run, (command, index, term) each."""
    journal = Journal(str(node.data / "journal"))
    try:
        index = journal.first_index
        while some := journal.entries(index, _SLICE):
            yield from some
            index += len(some)
    finally:
        journal.close()


def logs_agree(cluster: Cluster) -> list[LogEntry]:
    """The longest log. Raises AssertionError when another node has something else at the same index."""
    logs = sorted((list(entries(node)) for node in cluster.nodes), key=len)
    for shorter in logs[:-1]:
        for mine, theirs in zip(shorter, logs[-1], strict=False):
            assert mine == theirs, (mine, theirs)
    return logs[-1]


class Decided(NamedTuple):
    """One operation of the log: what was asked, and what it came to."""

    name: str
    arguments: dict[str, Any]
    status: int
    body: dict[str, Any]
    replayed: bool


class Replay:
    """A log run through a fresh machine."""

    def __init__(self, log: Iterable[LogEntry]) -> None:
        self.machine = Machine()
        self.decided: dict[tuple[int, int], Decided] = {}  # by index and position
        self.keys: Counter[str] = Counter()  # successes by idempotency key, replays not counted
        for command, index, _ in log:
            if command[0] != ENTRY:
                continue
            entry = decode_entry(command[1:])
            applied = self.machine.apply(index, entry)
            for position, (data, outcome) in enumerate(zip(entry.operations, applied.outcomes, strict=True)):
                asked = decode_operation(data)
                body = json.loads(outcome.body) if outcome.body else {}
                self.decided[index, position] = Decided(
                    asked.name, json.loads(asked.arguments), outcome.status, body, outcome.replayed
                )
                # What is repeatable by nature keeps no record, nor does an acquire that got nothing.
                kept = not OPERATIONS[asked.name].repeatable and body.get("state", "ACQUIRED") == "ACQUIRED"
                if asked.idempotency is not None and kept and outcome.status < 300 and not outcome.replayed:
                    self.keys[asked.idempotency[0]] += 1

    def holds_every_reply(self, requests: Iterable[Request]) -> None:
        """Each answered write stands where its reply said, with that outcome."""
        for one in requests:
            if one.method != "POST" or not one.status or one.status == 503:
                continue
            decided = self.decided[one.index, one.position]
            assert decided.status == one.status, (one, decided)
            if one.succeeded:
                assert decided.body == one.reply, (one, decided)
            else:
                assert decided.body["error"]["code"] == one.code, (one, decided)

    def holds_nothing_twice(self, requests: Iterable[Request]) -> None:
        """A keyed request succeeded once; a scope without a key was made at most once, and not after a 503."""
        twice = {key: count for key, count in self.keys.items() if count > 1}
        assert not twice, twice
        made = Counter(
            decided.arguments["name"]
            for decided in self.decided.values()
            if decided.name == "scopes.create" and decided.status < 300 and not decided.replayed
        )
        for one in requests:
            if one.kind != "scope.create":
                continue
            assert one.body is not None
            count = made[one.body["name"]]
            least = 1 if one.succeeded else 0
            most = 0 if one.status == 503 else 1
            assert least <= count <= most, (one, count)

    def has_an_event_for_every_owner(self, events: Iterable[dict[str, Any]]) -> None:
        """Each claim that was acquired has one event, in the order of the log."""
        acquired = [
            (decided.body["key"], decided.body["generation"])
            for decided in self.decided.values()
            if decided.name == "claims.acquire" and decided.status == 201 and not decided.replayed
        ]
        told = [
            (event["payload"]["key"], event["payload"]["generation"])
            for event in events
            if event["type"] == "claim.acquired"
        ]
        assert told == acquired
