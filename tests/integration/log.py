"""The committed log of stopped nodes and what the machine makes of it.

Nodes forget the head of their log once it is in an image, and one that got an image never had what is in it. So the log
is put together from what every node archived as it applied it; where two have the same index, they must agree, also
with what is in the journals.

The log is the truth that all replies are compared with: a request that was acknowledged is in it, at the place that the
reply named, with the outcome that the reply told; a request without an idempotency key is in it at most once.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from cluster.archive import read_archive
from cluster.engine import ENTRY
from cluster.journal import Journal, LogEntry
from statemachine.declare import OPERATIONS
from statemachine.entry import decode_entry, decode_operation
from statemachine.machine import Machine
from tests.integration.cluster import Cluster, Node
from tests.integration.load.record import Request

_SLICE = 500


def committed_log(cluster: Cluster) -> list[LogEntry]:
    """All entries from the first on, (command, index, term) each. The nodes must have stopped.

    Raises AssertionError when two nodes have something else at the same index, or nobody has one of them.
    """
    log: dict[int, LogEntry] = {}
    for node in cluster.nodes:
        for entry in read_archive(cluster.archive / f"{node.id}.log"):
            known = log.setdefault(entry[1], entry)
            assert known == entry, (node.id, known, entry)
    for node in cluster.nodes:
        for entry in _journal(node):
            # What lies behind the last committed one was promised to nobody.
            assert log.get(entry[1], entry) == entry, (node.id, log[entry[1]], entry)
    assert sorted(log) == list(range(1, len(log) + 1)), "the archives have gaps"
    return [log[index] for index in sorted(log)]


def images_installed(cluster: Cluster) -> int:
    """How often a node got an image from the leader instead of the log: so often its archive leaves something out."""
    gaps = 0
    for node in cluster.nodes:
        indexes = [index for _, index, _ in read_archive(cluster.archive / f"{node.id}.log")]
        gaps += sum(later != earlier + 1 for earlier, later in pairwise(indexes))
    return gaps


def _journal(node: Node) -> Iterator[LogEntry]:
    journal = Journal(str(node.data / "journal"))
    try:
        index = journal.first_index
        while some := journal.entries(index, _SLICE):
            yield from some
            index += len(some)
    finally:
        journal.close()


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
