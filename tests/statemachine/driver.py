"""Drives real machines through entries, and checks after every one what must hold whatever the entry was.

Two replicas run the same log. The second one is thrown away after every few entries and loaded again from the dump of
its own state, so that whatever an outcome owes to something outside the records shows up as a difference. Around every
operation the first replica is compared with itself: a refused one must have changed nothing at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from hashlib import blake2b, sha256
from typing import Any

import msgspec

from statemachine.declare import OPERATIONS, QUERIES, Access
from statemachine.entry import (
    OPERATOR,
    SYSTEM,
    Entry,
    decode_entry,
    encode_entry,
    encode_operation,
    genesis_entry,
)
from statemachine.errors import VALIDATION_FAILED, Refused
from statemachine.machine import Applied, Machine, Outcome, refusal
from tests.statemachine.checked import CheckedMachine
from tests.statemachine.conformance import conforms
from tests.statemachine.result import Result, decoded
from tests.statemachine.state import derived, differences, snapshot

WALL_START_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
PERMISSIONS = ("read", "resource_config", "work")


class Driver:
    """Two replicas behind one log, the leader's two clocks, that only the test moves, and a space with one key in it.

    reload_every: entries after which the second replica is loaded from its dump. checked: compare the whole state
    around every refusal and after every entry; off for tests of many records. begun: with genesis, space and key;
    else the log is empty.
    """

    def __init__(self, *, reload_every: int = 1, checked: bool = True, begun: bool = True) -> None:
        self.first = CheckedMachine(checked=checked)
        self.second = CheckedMachine(checked=False)
        self.reload_every = reload_every
        self.checked = checked
        self.log: list[tuple[int, bytes]] = []
        self.applied = Applied([], [])
        self.lease_ms = 0
        self.wall_ms = WALL_START_MS
        self.space = ""
        self.actor = b""
        self._sequence = 0
        if begun:
            self._begin()

    # ------------------------------------------------------------------ the log

    def append(self, data: bytes) -> list[Outcome]:
        """Put one encoded entry into the log: both replicas apply it, and everything that must hold is checked."""
        index = len(self.log) + 1
        self.log.append((index, data))
        entry: Entry = decode_entry(data)
        self.applied = self.first.apply(index, entry)
        other = self.second.apply(index, decode_entry(data))
        assert other.outcomes == self.applied.outcomes, (index, self.applied.outcomes, other.outcomes)
        assert other.touched == self.applied.touched, (index, self.applied.touched, other.touched)
        assert self.second.chain == self.first.chain, index
        self._check(entry)
        if len(self.log) % self.reload_every == 0:
            if self.checked:
                self._check_replicas()
            self.second = self.second.reloaded()
        return self.applied.outcomes

    def apply(
        self,
        operations: Sequence[bytes] = (),
        *,
        lease_ms: int | None = None,
        wall_ms: int | None = None,
        advance_ms: int = 0,
    ) -> list[Result]:
        """One entry of the given operations (made by `operation`), at the driver's clocks.

        advance_ms: moves both clocks first. lease_ms, wall_ms: stamps of this entry alone, wherever the clocks are;
        they may go back.
        """
        self.advance(advance_ms)
        stamp_lease_ms = self.lease_ms if lease_ms is None else lease_ms
        stamp_wall_ms = self.wall_ms if wall_ms is None else wall_ms
        origins = [("n1", 1, self._next_sequence()) for _ in operations]
        names = [msgspec.msgpack.decode(data)[0] for data in operations]
        outcomes = self.append(encode_entry(stamp_lease_ms, stamp_wall_ms, self._entropy(), operations, origins))
        self.lease_ms = max(self.lease_ms, stamp_lease_ms)
        self.wall_ms = max(self.wall_ms, stamp_wall_ms)
        return [decoded(name, outcome) for name, outcome in zip(names, outcomes, strict=True)]

    def advance(self, ms: int) -> None:
        """Move both clocks; the machines see it with the next entry."""
        self.lease_ms += ms
        self.wall_ms += ms

    def settle_due(self, limit: int = 100) -> None:
        """Propose empty entries, as a leader does, until nothing is due at the driver's clocks."""
        for _ in range(limit):
            due_lease_ms, due_wall_ms = self.first.due_lease_ms, self.first.due_wall_ms
            lease = due_lease_ms is not None and due_lease_ms <= self.lease_ms
            wall = due_wall_ms is not None and due_wall_ms <= self.wall_ms
            if not lease and not wall:
                return
            self.apply()
        raise AssertionError(f"still due after {limit} entries: {due_lease_ms} {due_wall_ms}")

    # ------------------------------------------------------------------ operations and queries

    def operation(
        self,
        name: str,
        /,
        *,
        space: str | None = None,
        actor: bytes | None = None,
        deadline_ms: int = 0,
        idempotency: tuple[str, bytes] | None = None,
        raw: bytes | None = None,
        **arguments: Any,
    ) -> bytes:
        """The bytes of one operation, for `apply`.

        Arguments may be spelled scope_id or scopeId. space and actor: the driver's own when not given. raw: the
        arguments as bytes, instead of keyword arguments.
        """
        declared = OPERATIONS[name]
        space = _space_of(declared, self.space) if space is None else space
        actor = self._actor_of(declared) if actor is None else actor
        data = _encode_arguments(arguments) if raw is None else raw
        return encode_operation(name, space, actor, deadline_ms, idempotency, data)

    def do(self, name: str, /, **arguments: Any) -> Result:
        """An entry of one operation; takes what `operation` takes, and `advance_ms`."""
        advance_ms = arguments.pop("advance_ms", 0)
        (result,) = self.apply([self.operation(name, **arguments)], advance_ms=advance_ms)
        return result

    def ask(
        self,
        name: str,
        /,
        *,
        space: str | None = None,
        actor: bytes | None = None,
        raw: bytes | None = None,
        **arguments: Any,
    ) -> Result:
        """Answer a query at both replicas and compare."""
        data = _encode_arguments(arguments) if raw is None else raw
        space = _space_of(QUERIES[name], self.space) if space is None else space
        actor = self._actor_of(QUERIES[name]) if actor is None else actor
        outcomes = [_answer(machine, name, space, actor, data) for machine in (self.first, self.second)]
        assert outcomes[0] == outcomes[1], outcomes
        return decoded(name, outcomes[0])

    def resume(self, waiting: Result, *, leave: bool = False, **envelope: Any) -> Result:
        """Propose again what an operation that answered 202 waits with, as a node does; `leave`: its client went."""
        assert waiting.status == 202, waiting
        wait = OPERATIONS[waiting.name].wait
        assert wait is not None, waiting.name
        request = wait.resume(waiting.body, leave)
        result = self.do(wait.take, raw=msgspec.json.encode(request), **envelope)
        return replace(result, name=waiting.name)

    # ------------------------------------------------------------------ credentials

    def new_space(self, name: str, **settings: int) -> str:
        """Create a space and return its id."""
        result = self.do("spaces.create", name=name, **({"settings": _camel_names(settings)} if settings else {}))
        return str(result["id"])

    def key(self, secret: str, *permissions: str, space: str | None = None, expires_at: str | None = None) -> bytes:
        """Make an API key and return the actor that it makes of a request."""
        actor = sha256(secret.encode()).digest()
        made = self.do(
            "spaces.create-key",
            space_id=self.space if space is None else space,
            name=secret,
            hash=actor,
            permissions=permissions,
            **({} if expires_at is None else {"expires_at": expires_at}),
        )
        assert made.status == 201, made
        return actor

    def write(self, table: Any, record: Any) -> None:
        """Put a record into both replicas past every operation."""
        for machine in (self.first, self.second):
            machine.store.rows(table).put(record)
            machine.store.settle()

    @contextmanager
    def expecting_defects(self) -> Iterator[list[Exception]]:
        """Let operations and due items have defects meanwhile; gives those that the first replica met."""
        expected: list[Exception] = []
        self.first.on_defect = expected.append
        yield expected
        self.first.on_defect = self.first.met.append

    # ------------------------------------------------------------------ within

    def _begin(self) -> None:
        members = {"n1": 101, "n2": 102, "n3": 103}
        self.append(genesis_entry("cls_test", members, WALL_START_MS, self._entropy()))
        self.space = self.new_space("default")
        self.actor = self.key("default", *PERMISSIONS)

    def _check(self, entry: Entry) -> None:
        first = self.first
        assert first.lease_now_ms >= entry.lease_now_ms, first.index
        assert first.wall_now_ms >= entry.wall_now_ms, first.index
        assert not first.store.changes
        if first.met:
            raise AssertionError(f"a defect at entry {first.index}") from first.met[0]
        if self.checked:
            assert not (found := differences(_records(first), _records(self.second))), (first.index, found)

    def _check_replicas(self) -> None:
        assert self.first.store.dump() == self.second.store.dump()
        assert not (found := differences(derived(self.first.store), derived(self.second.store))), found

    def _actor_of(self, declared: Any) -> bytes:
        match declared.access:
            case Access.OPERATOR:
                return OPERATOR
            case Access.SYSTEM if declared.name.startswith("cluster."):
                return SYSTEM
            case _:
                return self.actor

    def _next_sequence(self) -> int:
        self._sequence += 1
        return self._sequence

    def _entropy(self) -> bytes:
        return blake2b(b"%d" % len(self.log), digest_size=16).digest()


def _space_of(declared: Any, space: str) -> str:
    return "" if declared.access is Access.OPERATOR else space


def _records(machine: Machine) -> dict[str, Any]:
    return {name: rows for name, rows in snapshot(machine.store).items() if name.startswith("records ")}


def _answer(machine: Machine, name: str, space: str, actor: bytes, data: bytes) -> Outcome:
    declared = QUERIES[name]
    try:
        try:
            request = msgspec.json.decode(data, type=declared.request)
        except (msgspec.ValidationError, msgspec.DecodeError) as error:
            raise Refused(VALIDATION_FAILED, str(error)) from error
        answer = machine.answer(name, request, space, actor)
        outcome = Outcome(200, "", msgspec.json.encode(answer), machine.index, 0)
    except Refused as refused:
        outcome = refusal(refused, machine.index, 0)
    assert not machine.store.changes, f"{name} changed something"
    conforms(declared, outcome)
    return outcome


def _encode_arguments(arguments: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(_camel_names(arguments))


def _camel_names(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {_camel(name): value for name, value in arguments.items()}


def _camel(name: str) -> str:
    head, *rest = name.rstrip("_").split("_")
    return head + "".join(word.capitalize() for word in rest)
