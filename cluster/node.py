"""One replica as the layers above see it: propose, read, subscribe, status, start and stop.

Everything here runs on one asyncio loop, in one thread. Deadlines are readings of `loop.time()`, in seconds. Outcomes
and the machine's state are always those of this node's own log.
"""

import asyncio
import os
import random
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from cluster.archive import Archive
from cluster.config import NodeConfig
from cluster.core import Core
from cluster.engine import Role
from cluster.fatal import Fatal, fatal
from cluster.ground import open_ground
from cluster.metrics import Metrics
from cluster.ports import Clocks, JournalPort, SystemClocks, TransportPort
from cluster.proposer import OutcomeUnknown, Unavailable
from cluster.restart import ImageGround, recover
from statemachine.machine import Applied, Machine, Outcome

__all__ = ["MemberStatus", "NodeStatus", "OutcomeUnknown", "Replica", "Unavailable"]

RoleName = Literal["leader", "follower", "candidate"]


class Ground(Protocol):
    """What a node stands on: its journal, its connections and who it is."""

    @property
    def journal(self) -> JournalPort: ...
    @property
    def images(self) -> ImageGround: ...
    @property
    def transport(self) -> TransportPort: ...
    @property
    def incarnation(self) -> int: ...
    def sync(self) -> float:
        """Make the journal durable. Returns the seconds that it took."""

    async def close(self) -> None: ...


@dataclass(frozen=True)
class MemberStatus:
    """match_index: how much of the leader's log the member has; None where this node does not lead. counts: whether its
    votes and acknowledgements do, with the disk that it has now; None when it is not connected. certificate_ends_at: in
    Unix seconds; None without TLS, or when it is not connected.
    """

    id: str
    match_index: int | None
    connected: bool
    http_url: str | None
    counts: bool | None
    certificate_ends_at: float | None


@dataclass(frozen=True)
class NodeStatus:
    node_id: str
    role: RoleName
    leader_id: str | None
    leader_url: str | None
    leader_pid: int | None
    term: int
    commit_index: int
    applied_index: int
    last_index: int
    members: list[MemberStatus]


_ROLES: dict[Role, RoleName] = {Role.LEADER: "leader", Role.FOLLOWER: "follower", Role.CANDIDATE: "candidate"}


class Replica:
    """One node of the cluster. `start` it once, `stop` it once; in between everything may be called at any time.

    ground: opens journal and connections, waiting until the cluster was bootstrapped. clocks, rng, end: replaced in
    simulations, see `cluster.ports` and `cluster.fatal`.
    """

    def __init__(
        self,
        config: NodeConfig,
        *,
        ground: Callable[[NodeConfig, Fatal], Awaitable[Ground]] = open_ground,
        clocks: Clocks | None = None,
        rng: random.Random | None = None,
        entropy: Callable[[], bytes] = lambda: secrets.token_bytes(16),
        end: Fatal = fatal,
    ) -> None:
        self.config = config
        self.node_id = config.id
        self.machine = Machine()
        self.metrics = Metrics()
        self.draining = False
        self._open_ground = ground
        self._clocks = clocks or SystemClocks(config.clock_skew_ms)
        self._rng = rng or random.SystemRandom()
        self._entropy = entropy
        self._end = end
        self._subscribers: list[Callable[[int, Applied], None]] = []
        self._jumped: list[Callable[[int], None]] = []
        self._ground: Ground | None = None
        self._core: Core | None = None
        self._archive: Archive | None = None
        self._begun = asyncio.Event()

    # ------------------------------------------------------------------ life

    async def start(self) -> None:
        """Open the data directory, restore the state from its image, join the others and begin to apply the log.

        Returns once this node takes part, which may be long before it is `ready`; before the cluster is bootstrapped it
        waits. Raises what opening the data directory raises, and ImageError.
        """
        self._ground = ground = await self._open_ground(self.config, self._end)
        image = await recover(ground.journal, ground.images, self.machine)
        if self.config.journal_archive is not None:
            self._archive = Archive(self.config.journal_archive, self.node_id)
        self._core = core = Core(
            self.config,
            ground.journal,
            ground.transport,
            self.machine,
            self.metrics,
            incarnation=ground.incarnation,
            session=self._rng.getrandbits(63),
            sync=ground.sync,
            clocks=self._clocks,
            rng=self._rng,
            entropy=self._entropy,
            end=self._end,
            subscribers=self._subscribers,
            images=ground.images,
            image=image,
            jumped=self._jumped,
            archive=self._archive,
        )
        core.start()
        await ground.transport.start()
        self._begun.set()

    async def stop(self, drain_seconds: float) -> None:
        """Hand leadership over, let what is under way end, then close. Takes little longer than drain_seconds."""
        self.draining = True
        core, ground = self._core, self._ground
        if core is not None:
            ends_at = self._clocks.monotonic() + drain_seconds
            while await self._hand_over(core, ends_at):
                pass
            under_way: list[asyncio.Future[Any]] = [*core.proposer.futures(), *core.reads.futures()]
            if under_way:
                await asyncio.wait(under_way, timeout=max(0.0, ends_at - self._clocks.monotonic()))
            core.close()
            core.imaging.finish()
        if ground is not None:
            await ground.close()
        if self._archive is not None:
            self._archive.close()

    async def _hand_over(self, core: Core, ends_at: float) -> bool:
        """One attempt. Returns whether another one makes sense."""
        now = self._clocks.monotonic()
        if not core.engine.is_leader or not core.engine.peer_ids or now >= ends_at:
            return False
        ended = asyncio.get_running_loop().create_future()
        if not core.handover.begin(now, ended.set_result):
            return False
        core.kick()
        await ended
        return True

    def crash(self) -> None:
        """For simulations: end as a killed process does, without a farewell to anybody."""
        if self._core is not None:
            self._core.close()

    # ------------------------------------------------------------------ work

    async def propose(self, operation: bytes, *, urgent: bool, deadline: float) -> Outcome:
        """Have one operation applied, and return the outcome that this node's own machine computed.

        operation: of `statemachine.entry.encode_operation`. urgent: it goes before others (renewals, hand-backs).
        deadline: `loop.time()` until which it is retried while it is known to be unapplied. When this returns, this
        node's state has the write. Raises Unavailable (definitely not applied), OutcomeUnknown (the deadline passed
        while it was on its way: it may yet be applied), ValueError (over 2 MiB).
        """
        core, deadline = await self._within(deadline)
        future = core.proposer.submit(operation, urgent, deadline)
        core.kick()
        return await future

    async def read(self, deadline: float) -> int:
        """Wait until this node's state is at least as new as the moment of the call; return its applied index.

        deadline: `loop.time()`. Raises Unavailable when no leader confirmed it in time.
        """
        core, deadline = await self._within(deadline)
        future = core.reads.submit(deadline)
        core.kick()
        return await future

    async def _within(self, deadline: float) -> tuple[Core, float]:
        """The core, once there is one, and the deadline by the core's clock."""
        seconds = deadline - asyncio.get_running_loop().time()
        if self._core is None:
            try:
                await asyncio.wait_for(self._begun.wait(), max(seconds, 0.0))
            except TimeoutError:
                raise Unavailable("the node has not started") from None
            seconds = deadline - asyncio.get_running_loop().time()
        assert self._core is not None
        return self._core, self._clocks.monotonic() + seconds

    def subscribe(self, callback: Callable[[int, Applied], None]) -> None:
        """Call back after every applied entry, with its index; on the loop, so it must be quick. It must not raise."""
        self._subscribers.append(callback)

    def subscribe_jumps(self, callback: Callable[[int], None]) -> None:
        """Call back with the index when an image from the leader took the place of this node's state.

        The entries up to there were not applied one by one: whatever a reader waits for may have happened.
        """
        self._jumped.append(callback)

    # ------------------------------------------------------------------ state

    def lease_now_ms(self) -> int:
        """Lease time as well as this node knows it, for the deadlines of operations."""
        if self._core is None:
            return 0
        return max(self.machine.lease_now_ms, self._core.lease_clock.now_ms(self._clocks.monotonic()))

    @property
    def ready(self) -> bool:
        """Whether this node can serve: there is a leader, and it has applied what was committed when it joined."""
        return self._core is not None and not self.draining and self._core.is_ready()

    def incarnation_of(self, node_id: str) -> int | None:
        """The incarnation of a member's disk as it is connected now, listed or not; None when it is not connected."""
        if self._ground is None:
            return None
        if node_id == self.node_id:
            return self._ground.incarnation
        info = self._ground.transport.peer_info(node_id)
        return None if info is None else info.incarnation

    def status(self) -> NodeStatus:
        if self._core is None:
            return NodeStatus(self.node_id, "follower", None, None, None, 0, 0, 0, 0, [])
        assert self._ground is not None
        core, engine, transport = self._core, self._core.engine, self._ground.transport
        leader_id = engine.leader_id
        leader_url, leader_pid = None, None
        if leader_id == self.node_id:
            leader_url, leader_pid = self.config.advertise, os.getpid() if self.config.local else None
        elif leader_id is not None and (info := transport.peer_info(leader_id)) is not None:
            leader_url, leader_pid = info.http_url, info.pid
        certificates = transport.certificate_ends()
        members = []
        for node_id in self.machine.member_ids():
            info, progress = transport.peer_info(node_id), core.replication.progress.get(node_id)
            match_index = None if progress is None else progress.match_index
            http_url = None if info is None else info.http_url
            if node_id == self.node_id:
                match_index, http_url = engine.last_index if engine.is_leader else None, self.config.advertise
            incarnation = self.incarnation_of(node_id)
            members.append(
                MemberStatus(
                    node_id,
                    match_index,
                    incarnation is not None,
                    http_url,
                    None if incarnation is None else core.quorum.lists(node_id, incarnation),
                    certificates.get(node_id),
                )
            )
        return NodeStatus(
            self.node_id,
            _ROLES[engine.role],
            leader_id,
            leader_url,
            leader_pid,
            engine.term,
            engine.commit_index,
            engine.applied_index,
            engine.last_index,
            members,
        )
