"""One real node whose peers are played by the test: frames in, frames out, turn by turn."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from pysyncobj.node import Node
from pysyncobj.transport import Transport

from cluster import frames
from cluster.config import NodeConfig
from cluster.core import Core
from cluster.fatal import Fatal
from cluster.frames import AnyFrame, Appended, AppendEntries, PreVote, PreVoteAnswer, RequestVote, Vote
from cluster.image_limits import ImageLimits
from cluster.journal_records import JournalIdentity
from cluster.node import Replica
from cluster.ports import Message
from cluster.restart import ImageGround
from statemachine.entry import OPERATOR, encode_entry, encode_operation, genesis_entry
from tests.simulation.cluster import ELECTION_TIMEOUT_MS, WALL_MS, SimulatedClocks
from tests.simulation.disk import Disk, SimulatedJournal
from tests.simulation.images import SimulatedImages, SimulatedThread
from tests.simulation.network import SimulatedPeerInfo
from tests.simulation.virtual_loop import NodeEnded, VirtualLoop

T = TypeVar("T")
F = TypeVar("F", bound=AnyFrame)

INCARNATIONS = {"n1": 1001, "n2": 1002, "n3": 1003}
NO_OP = b"\x01"


def command(name: str, lease_now_ms: int = 0, wall_now_ms: int = WALL_MS) -> bytes:
    """A log command that creates an organization of this name."""
    operation = encode_operation("organizations.create", "", OPERATOR, 0, None, b'{"name":"%s"}' % name.encode())
    return b"\x20" + encode_entry(lease_now_ms, wall_now_ms, bytes(16), [operation], [("", 0, 0)])


class ScriptedTransport(Transport):  # type: ignore[misc]
    """Connected to everybody who was not cut off; keeps what was sent."""

    def __init__(self, me: str) -> None:
        super().__init__(None, None, [])
        self.nodes = {peer: Node(peer) for peer in INCARNATIONS if peer != me}
        self.sent: list[tuple[str, Message]] = []
        self.cut: set[str] = set()
        self.on_turn: Callable[[], None] = lambda: None
        self.before_send: Callable[[Message], None] = lambda message: None

    async def start(self) -> None:
        for peer in self.nodes:
            self.connect(peer)

    async def close(self) -> None:
        pass

    def connect(self, peer: str) -> None:
        self.cut.discard(peer)
        self._onNodeConnected(self.nodes[peer])

    def disconnect(self, peer: str) -> None:
        self.cut.add(peer)
        self._onNodeDisconnected(self.nodes[peer])

    def peer_info(self, node_id: str) -> SimulatedPeerInfo | None:
        return None if node_id in self.cut else SimulatedPeerInfo(INCARNATIONS[node_id], f"http://{node_id}.test")

    def certificate_ends(self) -> dict[str, float]:
        return {}

    def send(self, node: Node, message: Message) -> bool:
        if node.id in self.cut:
            return False
        self.before_send(message)
        self.sent.append((node.id, message))
        return True


class LoneNode:
    """Node n1; n2 and n3 are played. The journal survives `restart`."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.clocks = SimulatedClocks(loop)
        self.disk = Disk.with_genesis(genesis_entry("lone", INCARNATIONS, WALL_MS, bytes(16)))
        self.ended: str | None = None
        self.starts = 0
        self.limits = ImageLimits()
        self.replica: Replica
        self.transport: ScriptedTransport

    @property
    def journal(self) -> SimulatedJournal:
        journal = self.core.engine.journal
        assert isinstance(journal, SimulatedJournal)
        return journal

    @property
    def core(self) -> Core:
        assert self.replica._core is not None
        return self.replica._core

    async def start(self) -> None:
        self.starts += 1
        self.ended = None
        self.thread: SimulatedThread
        self.transport = ScriptedTransport("n1")
        rng = random.Random(self.starts)
        config = NodeConfig(
            id="n1",
            listen="127.0.0.1:1",
            advertise="http://n1.test",
            peers={peer: f"127.0.0.1:{10 + place}" for place, peer in enumerate(INCARNATIONS)},
            data=Path("/nowhere"),
            election_timeout_ms=ELECTION_TIMEOUT_MS,
        )
        self.replica = Replica(
            config,
            ground=self._ground,
            clocks=self.clocks,
            rng=rng,
            entropy=lambda: rng.randbytes(16),
            end=self._end,
        )
        await self.replica.start()

    async def _ground(self, config: NodeConfig, end: Fatal) -> "_Ground":
        incarnation = INCARNATIONS["n1"]
        self.thread = SimulatedThread(end, random.Random(self.starts))
        owner = JournalIdentity("lone", "n1", incarnation)
        images = ImageGround(SimulatedImages(self.disk), self.thread, owner, self.limits)
        return _Ground(SimulatedJournal(self.disk), images, self.transport, incarnation)

    def _end(self, reason: str, error: BaseException | None = None) -> NoReturn:
        self.ended = self.ended or reason
        self.replica.crash()
        raise NodeEnded(reason) from error

    async def restart(self) -> None:
        """Killed and started again: what was not synced is gone."""
        self.replica.crash()
        self.thread.kill()
        await self.start()

    # ------------------------------------------------------------------ frames

    def give(self, sender: str, frame: AnyFrame | Message) -> None:
        """A frame arrives; the turn that it kicks comes with the next `turn`."""
        message = frame if isinstance(frame, dict) else frames.encode(frame)
        try:
            self.transport._onMessageReceived(self.transport.nodes[sender], message)
        except NodeEnded:
            assert self.ended

    async def turn(self) -> None:
        """Let the loop run what is due now, without time passing."""
        for _ in range(4):
            await asyncio.sleep(0)

    async def tell(self, sender: str, frame: AnyFrame | Message) -> list[tuple[str, AnyFrame]]:
        """A frame arrives and a turn is taken. Returns what was sent meanwhile."""
        self.transport.sent.clear()
        self.give(sender, frame)
        await self.turn()
        return self.take()

    def take(self) -> list[tuple[str, AnyFrame]]:
        """What was sent since the last time."""
        sent = [(to, frames.decode(message)) for to, message in self.transport.sent]
        self.transport.sent.clear()
        return sent

    async def answer(self, sender: str, frame: AnyFrame | Message, kind: type[F]) -> F:
        """As `tell`, for the one frame of this kind that goes back to the sender."""
        found = [sent for to, sent in await self.tell(sender, frame) if to == sender and isinstance(sent, kind)]
        assert len(found) == 1, found
        return found[0]

    def append(
        self, term: int, previous: tuple[int, int], entries: list[tuple[int, bytes]], commit: int = 1, round: int = 1
    ) -> AppendEntries:
        """As the leader of the term would send it. previous: (index, term)."""
        return AppendEntries(term, round, *previous, entries, commit, 0, WALL_MS, None, False)

    # ------------------------------------------------------------------ leading

    async def lead(self) -> int:
        """Win an election with the vote of n2; n2 then has the whole log. Returns the term."""
        engine = self.core.engine
        while not engine.is_leader:
            await asyncio.sleep(0.01)
            for to, frame in self.take():
                if to == "n2" and isinstance(frame, PreVote):
                    self.give("n2", PreVoteAnswer(frame.term - 1, frame.nonce, True, 1002))
                elif to == "n2" and isinstance(frame, RequestVote):
                    self.give("n2", Vote(frame.term, True, 1002, self.clocks.wall_ms()))
        await self.turn()
        self.acknowledge("n2")
        await self.turn()
        self.take()
        return engine.term

    def acknowledge(self, peer: str, index: int | None = None, round: int | None = None) -> None:
        """The peer acknowledges the log up to index (default: its end), for the latest round (default)."""
        engine = self.core.engine
        last = engine.last_index if index is None else index
        answered = self.core.replication.round if round is None else round
        self.give(
            peer, Appended(engine.term, answered, INCARNATIONS[peer], True, last, last + 1, last, self.clocks.wall_ms())
        )


@dataclass
class _Ground:
    journal: SimulatedJournal
    images: ImageGround
    transport: ScriptedTransport
    incarnation: int

    def sync(self) -> float:
        self.journal.sync()
        return 0.0

    async def close(self) -> None:
        pass


def alone(scenario: Callable[[LoneNode], Coroutine[Any, Any, T]], *, may_end: bool = False) -> T:
    """Run a scenario on a node that has just started. may_end: the test expects it to end by itself."""
    loop = VirtualLoop()

    async def run() -> T:
        node = LoneNode(loop)
        await node.start()
        try:
            result = await scenario(node)
        finally:
            node.replica.crash()
        assert may_end or node.ended is None, node.ended
        return result

    return loop.run(run())
