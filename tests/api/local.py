"""A replica in this process, for tests of the HTTP front: the real machine behind a log of one.

It keeps the promises of `api.replica.Replica` as the cluster does: what is proposed in one turn becomes one entry,
outcomes are found by their origins, and a caller learns its outcome a moment after it was applied. Its clocks stand
still unless a test moves them, and a test can take its leader away or lose the outcomes of what is on its way.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, field

from api.replica import OutcomeUnknown, Unavailable
from cluster.metrics import Metrics
from statemachine.entry import Origin, decode_entry, encode_entry, genesis_entry
from statemachine.machine import Applied, Machine, Outcome

WALL_START_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
SESSION = 1
NODE = "n1"


@dataclass(frozen=True)
class LocalMember:
    id: str
    match_index: int | None
    connected: bool
    http_url: str | None
    counts: bool | None = None
    certificate_ends_at: float | None = None


@dataclass(frozen=True)
class LocalStatus:
    node_id: str
    role: str
    leader_id: str | None
    leader_url: str | None
    leader_pid: int | None
    term: int
    commit_index: int
    applied_index: int
    last_index: int
    members: list[LocalMember]


@dataclass
class _Proposal:
    operation: bytes
    urgent: bool
    future: asyncio.Future[Outcome]


@dataclass
class LocalReplica:
    """led: there is a leader. losing: outcomes of what is applied from now on reach nobody."""

    node_id: str = NODE
    url: str = "http://127.0.0.1:7070"
    machine: Machine = field(default_factory=Machine)
    metrics: Metrics = field(default_factory=Metrics)
    draining: bool = False
    losing: bool = False
    lease_ms: int = 0
    wall_ms: int = WALL_START_MS
    entries: list[list[bytes]] = field(default_factory=list)
    reads: int = 0
    _led: asyncio.Event = field(default_factory=asyncio.Event)
    _waiting: list[_Proposal] = field(default_factory=list)
    _pending: dict[Origin, asyncio.Future[Outcome]] = field(default_factory=dict)
    _subscribers: list[Callable[[int, Applied], None]] = field(default_factory=list)
    _jumped: list[Callable[[int], None]] = field(default_factory=list)
    _sequence: int = 0
    _scheduled: bool = False

    def __post_init__(self) -> None:
        self.defects: list[Exception] = []
        self.machine.on_defect = self.defects.append
        self._led.set()
        self.metrics.is_leader = 1
        self._append(genesis_entry("cls_local", {NODE: 7, "n2": 8}, self.wall_ms, os.urandom(16)), [])

    # ------------------------------------------------------------------ what the front calls

    @property
    def ready(self) -> bool:
        return self.led

    async def propose(self, operation: bytes, *, urgent: bool, deadline: float) -> Outcome:
        await self._leader(deadline)
        proposal = _Proposal(operation, urgent, asyncio.get_running_loop().create_future())
        self._waiting.append(proposal)
        self._schedule()
        try:
            async with asyncio.timeout_at(deadline):
                return await proposal.future
        except TimeoutError:
            raise OutcomeUnknown("the deadline passed while the operation was on its way") from None

    async def read(self, deadline: float) -> int:
        await self._leader(deadline)
        self.reads += 1
        await asyncio.sleep(0)
        return self.machine.index

    def lease_now_ms(self) -> int:
        return self.lease_ms

    def incarnation_of(self, node_id: str) -> int | None:
        return {NODE: 7}.get(node_id)

    def subscribe(self, callback: Callable[[int, Applied], None]) -> None:
        self._subscribers.append(callback)

    def subscribe_jumps(self, callback: Callable[[int], None]) -> None:
        self._jumped.append(callback)

    def status(self) -> LocalStatus:
        index, leader = self.machine.index, NODE if self.led else None
        return LocalStatus(
            node_id=self.node_id,
            role="leader" if self.led else "candidate",
            leader_id=leader,
            leader_url=self.url if self.led else None,
            leader_pid=os.getpid() if self.led else None,
            term=1,
            commit_index=index,
            applied_index=index,
            last_index=index,
            members=[
                LocalMember(NODE, index, True, self.url, True, WALL_START_MS / 1000),
                LocalMember("n2", index - 1, False, None),
            ],
        )

    # ------------------------------------------------------------------ what a test does

    @property
    def led(self) -> bool:
        return self._led.is_set()

    @led.setter
    def led(self, led: bool) -> None:
        if led:
            self._led.set()
        else:
            self._led.clear()

    def advance(self, ms: int) -> None:
        """Move both clocks and propose empty entries, as a leader does, until nothing is due."""
        self.lease_ms += ms
        self.wall_ms += ms
        self.apply([])
        for _ in range(100):
            lease, wall = self.machine.due_lease_ms, self.machine.due_wall_ms
            if (lease is None or lease > self.lease_ms) and (wall is None or wall > self.wall_ms):
                return
            self.apply([])
        raise AssertionError("still due after 100 entries")

    def apply(self, operations: list[bytes]) -> list[Outcome]:
        """One entry of these operations, past every caller."""
        origins: list[Origin] = [("elsewhere", 0, number) for number, _ in enumerate(operations)]
        data = encode_entry(self.lease_ms, self.wall_ms, os.urandom(16), operations, origins)
        return self._append(data, origins).outcomes

    # ------------------------------------------------------------------ within

    async def _leader(self, deadline: float) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                await self._led.wait()
        except TimeoutError:
            raise Unavailable("no leader took the request before its deadline") from None

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._commit)

    def _commit(self) -> None:
        self._scheduled = False
        proposals = sorted(self._waiting, key=lambda proposal: not proposal.urgent)
        self._waiting.clear()
        if not proposals:
            return
        origins: list[Origin] = []
        for proposal in proposals:
            self._sequence += 1
            origins.append((NODE, SESSION, self._sequence))
            self._pending[origins[-1]] = proposal.future
        operations = [proposal.operation for proposal in proposals]
        self.entries.append(operations)
        data = encode_entry(self.lease_ms, self.wall_ms, os.urandom(16), operations, origins)
        self._append(data, origins)

    def _append(self, data: bytes, origins: list[Origin]) -> Applied:
        index = self.machine.index + 1
        applied = self.machine.apply(index, decode_entry(data))
        for origin, outcome in zip(origins, applied.outcomes, strict=False):
            future = self._pending.pop(origin, None)
            if future is not None and not future.done() and not self.losing:
                future.set_result(outcome)
        for subscriber in self._subscribers:
            subscriber(index, applied)
        return applied
