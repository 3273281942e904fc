"""Several real nodes in one process, over a simulated network, disks and clocks, with the invariants watched.

Everything follows from the seed. A node is a whole `Replica`; only what `cluster.ports` names is simulated.
"""

import asyncio
import contextlib
import json
import random
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from cluster.config import NodeConfig
from cluster.core import Core
from cluster.engine import ENTRY
from cluster.fatal import Fatal
from cluster.image_limits import ImageLimits
from cluster.journal_records import JournalIdentity
from cluster.node import OutcomeUnknown, Replica, Unavailable
from cluster.ports import LogRecord, Message
from cluster.pulse import Pulse
from cluster.restart import ImageGround
from statemachine.entry import OPERATOR, decode_entry, decode_operation, encode_operation, genesis_entry
from statemachine.image_state import content_of
from statemachine.machine import Outcome
from tests.simulation.disk import Disk, SimulatedJournal
from tests.simulation.images import SimulatedImages, SimulatedThread
from tests.simulation.network import Network, SimulatedTransport
from tests.simulation.virtual_loop import NodeEnded, VirtualLoop

T = TypeVar("T")

WALL_MS = 1_700_000_000_000
ELECTION_TIMEOUT_MS = (300, 600)
WRITE = "organizations.create"  # the operation by which clients write
JOB_TAKES_S = (0.0005, 0.02)  # a job of the image thread


@dataclass
class SimulatedClocks:
    """skew_ms: of the wall clock; a test may change it at any time."""

    loop: VirtualLoop
    skew_ms: int = 0

    def monotonic(self) -> float:
        return self.loop.now

    def wall_ms(self) -> int:
        return WALL_MS + int(self.loop.now * 1000) + self.skew_ms


@dataclass
class SimulatedGround:
    journal: SimulatedJournal
    images: ImageGround
    transport: SimulatedTransport
    incarnation: int

    def sync(self) -> float:
        self.journal.sync()
        return 0.0

    async def close(self) -> None:
        await self.transport.close()
        self.images.worker.close()


class _Asleep:
    """In the place of the loop of a process that stands still: what it would run waits."""

    def __init__(self) -> None:
        self.held: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

    def call_soon(self, callback: Callable[..., None], *args: Any) -> None:
        self.held.append((callback, args))


class SimulatedNode:
    """A machine with a disk and a clock, on which a node runs, or not."""

    def __init__(self, cluster: "SimulatedCluster", node_id: str, incarnation: int, disk: Disk) -> None:
        self.cluster = cluster
        self.id = node_id
        self.incarnation = incarnation
        self.disk = disk
        self.clocks = SimulatedClocks(cluster.loop)
        self.replica: Replica | None = None
        self.thread: SimulatedThread | None = None
        self.ended: str | None = None  # why the node ended by itself
        self.starts = 0

    @property
    def running(self) -> Replica:
        assert self.replica is not None, f"{self.id} does not run: {self.ended}"
        return self.replica

    @property
    def core(self) -> Core:
        core = self.running._core
        assert core is not None
        return core

    @property
    def thread_idle(self) -> bool:
        return self.thread is not None and self.thread.idle

    async def start(self) -> None:
        assert self.replica is None
        self.starts += 1
        self.ended = None
        rng = random.Random(f"{self.cluster.seed} {self.id} {self.starts}")
        self.replica = Replica(
            self.cluster.config(self.id),
            ground=self._ground,
            clocks=self.clocks,
            rng=rng,
            entropy=lambda: rng.randbytes(16),
            end=self._end,
        )
        self.cluster.watch(self)
        try:
            await self.replica.start()
        except OSError as error:  # its disk fails: it does not start
            with contextlib.suppress(NodeEnded):
                self._end(f"this node cannot start: {error}")

    async def _ground(self, config: NodeConfig, end: Fatal) -> SimulatedGround:
        cluster = self.cluster
        transport = SimulatedTransport(cluster.network, self.id, self.incarnation, cluster.ids)
        rng = random.Random(f"{cluster.seed} {self.id} {self.starts} thread")
        self.thread = SimulatedThread(end, rng, JOB_TAKES_S, lambda: self.id in cluster.network.paused)
        owner = JournalIdentity("simulated", self.id, self.incarnation)
        images = ImageGround(SimulatedImages(self.disk), self.thread, owner, cluster.limits)
        return SimulatedGround(SimulatedJournal(self.disk), images, transport, self.incarnation)

    def _end(self, reason: str, error: BaseException | None = None) -> NoReturn:
        if self.ended is None:
            self.ended = reason
            self.cluster.ends.append((self.id, reason))
            self.crash()
        raise NodeEnded(reason) from error

    def crash(self) -> None:
        """The process is killed, or the power is lost: what was not synced is gone."""
        replica, self.replica = self.replica, None
        if self.thread is not None:
            self.thread.kill()
        if replica is not None:
            self.cluster.network.resume(self.id)
            self.cluster.network.leave(self.id)
            replica.crash()

    def sleep(self, seconds: float) -> None:
        """The process stands still: neither its timers nor its sockets are looked at. Then the timers come first."""
        pulse = self.core._pulse
        if self.id in self.cluster.network.paused:
            return
        self.cluster.network.pause(self.id)
        if pulse._timer is not None:
            pulse._timer.cancel()
        pulse._timer, pulse._loop = None, _Asleep()  # type: ignore[assignment]
        self.cluster.loop.call_later(seconds, self._wake, pulse)

    def _wake(self, pulse: Pulse) -> None:
        if pulse._closed:
            return
        held, pulse._loop = pulse._loop, self.cluster.loop
        assert isinstance(held, _Asleep)
        pulse._ring()
        for callback, args in held.held:
            self.cluster.loop.call_soon(callback, *args)
        self.cluster.loop.call_soon(self.cluster.network.resume, self.id)

    async def stop(self) -> None:
        replica = self.running
        await replica.stop(2.0)
        self.replica = None


class SimulatedCluster:
    """Nodes with ids n1, n2, … that share one genesis. Also the judge of what must hold at every moment."""

    def __init__(self, loop: VirtualLoop, seed: int, size: int = 3, limits: ImageLimits | None = None) -> None:
        self.loop = loop
        self.limits = limits or ImageLimits()
        self.seed = seed
        self.rng = random.Random(seed)
        self.network = Network(random.Random(f"{seed} network"))
        self.ids = [f"n{number}" for number in range(1, size + 1)]
        incarnations = {node_id: 1000 + number for number, node_id in enumerate(self.ids)}
        genesis = genesis_entry("simulated", incarnations, WALL_MS, bytes(16))
        self.nodes = {
            node_id: SimulatedNode(self, node_id, incarnations[node_id], Disk.with_genesis(genesis))
            for node_id in self.ids
        }
        self.leaders: dict[int, str] = {}  # term to leader, for all time
        self.applied: dict[int, bytes] = {}  # index to chain digest, for all time
        self.history: dict[int, LogRecord] = {}  # every entry that was applied anywhere
        self.installs = 0
        self.acknowledged: list[bytes] = []
        self.acknowledged_index = 0
        self.refused: list[bytes] = []  # definitely not applied, as the callers were told
        self.may_end: set[str] = set()  # nodes that a test expects to end by themselves
        self.ends: list[tuple[str, str]] = []  # (node, reason)
        self.network.watchers.append(self._watch_message)

    def __getitem__(self, node_id: str) -> SimulatedNode:
        return self.nodes[node_id]

    def config(self, node_id: str) -> NodeConfig:
        return NodeConfig(
            id=node_id,
            listen="127.0.0.1:1",
            advertise=f"http://{node_id}.test",
            peers={peer: f"127.0.0.1:{10 + place}" for place, peer in enumerate(self.ids)},
            data=Path("/nowhere"),
            election_timeout_ms=ELECTION_TIMEOUT_MS,
        )

    # ------------------------------------------------------------------ what must hold at every moment

    def watch(self, node: SimulatedNode) -> None:
        def applied(index: int, _: object) -> None:
            compare(index)
            record = node.core.engine.records(index, 1, 1)[0]
            assert self.history.setdefault(index, record) == record, f"{node.id} has another entry {index}"

        def jumped(index: int) -> None:
            self.installs += 1
            compare(node.running.machine.index)

        def compare(index: int) -> None:
            chain = node.running.machine.chain
            assert self.applied.setdefault(index, chain) == chain, f"{node.id} differs after entry {index}"

        node.running.subscribe(applied)
        node.running.subscribe_jumps(jumped)

    def _watch_message(self, sender: str, receiver: str, message: Message) -> None:
        disk = self.nodes[sender].disk
        match message["type"]:
            case "append_entries":
                leader = self.leaders.setdefault(message["term"], sender)
                assert leader == sender, f"term {message['term']} has the leaders {leader} and {sender}"
            case "appended":
                assert disk.term == message["term"]
                assert not message["success"] or disk.records[-1][1] >= message["match_index"]
            case "vote":
                assert disk.term == message["term"]
                assert not message["granted"] or disk.vote == receiver
            case "request_vote":
                assert (disk.term, disk.vote) == (message["term"], sender)

    # ------------------------------------------------------------------ acting and waiting

    async def start(self) -> None:
        for node in self.nodes.values():
            await node.start()

    async def until(self, condition: Callable[[], bool], seconds: float = 10.0, what: str = "") -> None:
        """Let virtual time pass until the condition holds."""
        ends_at = self.loop.now + seconds
        while not condition():
            assert self.loop.now < ends_at, f"not within {seconds} s: {what or condition}"
            await asyncio.sleep(0.001)

    @property
    def alive(self) -> list[SimulatedNode]:
        return [node for node in self.nodes.values() if node.replica is not None and node.id not in self.network.paused]

    def leader(self) -> SimulatedNode | None:
        """The one that leads the highest term and has applied its no-op."""
        leaders = [n for n in self.alive if n.running._core is not None and n.core.leads()]
        return max(leaders, key=lambda node: node.core.engine.term, default=None)

    async def elected(self, among: Sequence[str] = (), seconds: float = 10.0) -> SimulatedNode:
        """Wait for a leader, of these nodes."""

        def found() -> bool:
            leader = self.leader()
            return leader is not None and (not among or leader.id in among)

        await self.until(found, seconds, "a leader")
        leader = self.leader()
        assert leader is not None
        return leader

    def settled(self) -> bool:
        """Whether all nodes run and have applied the same log to its end."""
        if len(self.alive) < len(self.nodes) or any(node.running._core is None for node in self.alive):
            return False
        states = {
            (n.core.engine.applied_index, n.core.engine.last_index, n.core.engine.term, n.running.machine.chain)
            for n in self.alive
        }
        return len(states) == 1 and all(n.core.engine.applied_index == n.core.engine.last_index for n in self.alive)

    # ------------------------------------------------------------------ work

    async def write(self, node_id: str, name: bytes, seconds: float = 8.0) -> Outcome:
        """Propose an operation that names itself, through this node; remembered once it is acknowledged."""
        deadline = self.loop.now + seconds
        try:
            outcome = await self[node_id].running.propose(self.operation(name), urgent=False, deadline=deadline)
        except Unavailable:
            self.refused.append(name)
            raise
        assert outcome.status == 201
        self.acknowledged.append(name)
        self.acknowledged_index = max(self.acknowledged_index, outcome.index)
        return outcome

    async def read(self, node_id: str, seconds: float = 8.0) -> int:
        """Wait until this node's state is as new as now; checked against what was acknowledged before."""
        before = self.acknowledged_index
        index = await self[node_id].running.read(self.loop.now + seconds)
        assert index >= before, f"a read at {node_id} saw {index}, but {before} was acknowledged before it began"
        return index

    @staticmethod
    def operation(name: bytes) -> bytes:
        """One that changes the machine's state, and stands in the log under its name."""
        return encode_operation(WRITE, "", OPERATOR, 0, None, b'{"name":"%s"}' % name)

    def log(self, node_id: str) -> list[tuple[int, bytes]]:
        """(term, command) of what is on this node's disk."""
        return [(term, command) for command, _, term in self[node_id].disk.records]

    def written(self, node_id: str) -> list[bytes]:
        """The names of the operations in the log on this node's disk, in order."""
        return _names_in(self[node_id].disk.records)

    def check_log(self) -> None:
        """All nodes have settled: what was acknowledged is in the log, once; nothing is in it twice."""
        for node in self.nodes.values():
            entries = [record for record in node.disk.records if record[0][0] == ENTRY]
            assert all(self.history[record[1]] == record for record in entries), f"the log of {node.id} differs"
            assert node.disk.records[-1][1] == node.core.engine.last_index
            digest = content_of(node.running.machine.store).digest
            assert digest == content_of(self[self.ids[0]].running.machine.store).digest, f"{node.id} has other records"
        names = _names_in(record for _, record in sorted(self.history.items()))
        assert len(names) == len(set(names)), "something was written twice"
        lost = set(self.acknowledged) - set(names)
        assert not lost, f"acknowledged and lost: {sorted(lost)[:5]}"
        assert len(self.acknowledged) == len(set(self.acknowledged))
        wrong = set(self.refused) & set(names)
        assert not wrong, f"refused and yet applied: {sorted(wrong)[:5]}"

    def close(self) -> None:
        for node in self.nodes.values():
            node.crash()
        self.network.close()


def simulate(
    scenario: Callable[[SimulatedCluster], Coroutine[Any, Any, T]],
    seed: int = 1,
    size: int = 3,
    start: bool = True,
    limits: ImageLimits | None = None,
) -> T:
    """Run a scenario on a fresh cluster in virtual time; its nodes are started unless told otherwise."""
    loop = VirtualLoop()

    async def run() -> T:
        cluster = SimulatedCluster(loop, seed, size, limits)
        try:
            if start:
                await cluster.start()
            result = await scenario(cluster)
        finally:
            cluster.close()
            unexpected = [(node_id, reason) for node_id, reason in cluster.ends if node_id not in cluster.may_end]
            assert not unexpected, f"seed {seed}: a node ended by itself: {unexpected}"
        return result

    return loop.run(run())


def _names_in(records: Iterable[LogRecord]) -> list[bytes]:
    names = []
    for command, _, _ in records:
        if command[0] == ENTRY:
            operations = [decode_operation(operation) for operation in decode_entry(command[1:]).operations]
            names += [json.loads(op.arguments)["name"].encode() for op in operations if op.name == WRITE]
    return names


async def attempt(write: Coroutine[Any, Any, Outcome]) -> Outcome | None:
    """The outcome, or None when there is none."""
    try:
        return await write
    except (Unavailable, OutcomeUnknown):
        return None
