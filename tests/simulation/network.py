"""A network that behaves like TCP between nodes in one process, in virtual time.

On one connection messages arrive in order or not at all. Connections break, are dialled again, and what an old one
still carries arrives after what a new one brought, or never; the receiver knows which connection a message came on, as
the real transport does, and drops those of a replaced one. A blocked direction holds everything back until it is
unblocked, as retransmission does; who hears nothing for a while closes and dials again.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pysyncobj.node import Node
from pysyncobj.transport import Transport

from cluster.ports import Message

SILENCE_S = 1.0
REDIAL_S = 0.05
IN_ORDER_S = 1e-6  # timers of exactly the same moment have no order


@dataclass(eq=False)
class Connection:
    """Between two nodes, by id. arrives_at: when the last message of a direction arrives. held: while it is blocked."""

    ends: frozenset[str]
    arrives_at: dict[str, float] = field(default_factory=dict)
    held: dict[str, list[Message]] = field(default_factory=dict)
    heard_at: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class SimulatedPeerInfo:
    incarnation: int
    http_url: str
    pid: int | None = None


class SimulatedTransport(Transport):  # type: ignore[misc]
    """One node's side, in the place of `cluster.transport.PeerTransport`."""

    def __init__(self, network: "Network", node_id: str, incarnation: int, peer_ids: list[str]) -> None:
        super().__init__(None, None, [])
        self.network = network
        self.node_id = node_id
        self.incarnation = incarnation
        self.nodes = {peer: Node(peer) for peer in peer_ids if peer != node_id}
        self.current: dict[str, Connection] = {}
        self.on_turn: Callable[[], None] = lambda: None
        self.before_send: Callable[[Message], None] = lambda message: None

    async def start(self) -> None:
        self.network.join(self)

    async def close(self) -> None:
        self.network.leave(self.node_id)

    def peer_info(self, node_id: str) -> SimulatedPeerInfo | None:
        peer = self.network.transports.get(node_id)
        if node_id not in self.current or peer is None:
            return None
        return SimulatedPeerInfo(peer.incarnation, f"http://{node_id}.test")

    def certificate_ends(self) -> dict[str, float]:
        return {}

    def send(self, node: Node, message: Message) -> bool:
        connection = self.current.get(node.id)
        if connection is None:
            return False
        self.before_send(message)
        self.network.carry(connection, self.node_id, node.id, message)
        return True

    def connected(self, peer_id: str, connection: Connection) -> None:
        self.current[peer_id] = connection
        self._onNodeConnected(self.nodes[peer_id])

    def disconnected(self, peer_id: str, connection: Connection) -> None:
        if self.current.get(peer_id) is connection:
            del self.current[peer_id]
            self._onNodeDisconnected(self.nodes[peer_id])

    def receive(self, peer_id: str, connection: Connection, message: Message) -> None:
        if self.current.get(peer_id) is connection:
            self._onMessageReceived(self.nodes[peer_id], message)
            self.on_turn()


class Network:
    """latency_s: bounds of the time that a message takes. paused: nodes whose process stands still."""

    def __init__(self, rng: random.Random, latency_s: tuple[float, float] = (0.0002, 0.002)) -> None:
        self.loop = asyncio.get_running_loop()
        self.rng = rng
        self.latency_s = latency_s
        self.transports: dict[str, SimulatedTransport] = {}
        self.blocked: set[tuple[str, str]] = set()  # (from, to)
        self.paused: dict[str, list[Callable[[], None]]] = {}
        self.watchers: list[Callable[[str, str, Message], None]] = []  # see every message that is sent
        self.filters: list[Callable[[str, str, Message], bool]] = []  # False: the message is lost
        self._ticker = self.loop.call_later(REDIAL_S, self._tick)

    def close(self) -> None:
        self._ticker.cancel()

    # ------------------------------------------------------------------ nodes

    def join(self, transport: SimulatedTransport) -> None:
        self.transports[transport.node_id] = transport

    def leave(self, node_id: str) -> None:
        """The process is gone: its peers hear of it unless the way is blocked, then by silence."""
        transport = self.transports.pop(node_id, None)
        if transport is None:
            return
        for peer_id, connection in list(transport.current.items()):
            self._reset(connection, node_id, peer_id)
        transport.current.clear()

    def pause(self, node_id: str) -> None:
        """The process stands still; what arrives waits for it."""
        self.paused.setdefault(node_id, [])

    def resume(self, node_id: str) -> None:
        for deliver in self.paused.pop(node_id, []):
            deliver()

    def _at(self, node_id: str, act: Callable[[], None]) -> None:
        """Now, or when the node runs again."""
        if node_id in self.paused:
            self.paused[node_id].append(act)
        else:
            act()

    # ------------------------------------------------------------------ links

    def block(self, sender: str, receiver: str) -> None:
        """One direction carries nothing until it is unblocked."""
        self.blocked.add((sender, receiver))

    def isolate(self, node_id: str) -> None:
        for other in [*self.transports, *self.paused]:
            if other != node_id:
                self.blocked |= {(node_id, other), (other, node_id)}

    def heal(self) -> None:
        """Unblock everything; what was held back arrives now."""
        self.blocked.clear()
        connections = {id(c): c for t in self.transports.values() for c in t.current.values()}
        for connection in connections.values():
            for sender, messages in list(connection.held.items()):
                connection.held[sender] = []
                receiver = next(iter(connection.ends - {sender}))
                for message in messages:
                    self._deliver_later(connection, sender, receiver, message)

    def break_link(self, a: str, b: str) -> None:
        """The connection is reset: what it carries is lost, each side hears of it in its own time."""
        transport = self.transports.get(a)
        connection = transport and transport.current.get(b)
        if connection:
            connection.held.clear()
            self._reset(connection, a, b)
            self._reset(connection, b, a)

    def _reset(self, connection: Connection, sender: str, receiver: str) -> None:
        if (sender, receiver) not in self.blocked:
            self.loop.call_later(self._latency(), self._at, receiver, lambda: self._drop(connection, receiver))

    def _drop(self, connection: Connection, node_id: str) -> None:
        transport = self.transports.get(node_id)
        if transport is not None:
            transport.disconnected(next(iter(connection.ends - {node_id})), connection)

    def _latency(self) -> float:
        return self.rng.uniform(*self.latency_s)

    # ------------------------------------------------------------------ messages

    def carry(self, connection: Connection, sender: str, receiver: str, message: Message) -> None:
        for watch in self.watchers:
            watch(sender, receiver, message)
        if not all(keep(sender, receiver, message) for keep in self.filters):
            return
        if (sender, receiver) in self.blocked:
            connection.held.setdefault(sender, []).append(message)
        else:
            self._deliver_later(connection, sender, receiver, message)

    def _deliver_later(self, connection: Connection, sender: str, receiver: str, message: Message) -> None:
        at = max(self.loop.time() + self._latency(), connection.arrives_at.get(sender, 0.0) + IN_ORDER_S)
        connection.arrives_at[sender] = at
        self.loop.call_at(at, self._arrive, connection, sender, receiver, message)

    def _arrive(self, connection: Connection, sender: str, receiver: str, message: Message) -> None:
        def hand_over() -> None:
            transport = self.transports.get(receiver)
            if transport is not None:
                connection.heard_at[receiver] = self.loop.time()
                transport.receive(sender, connection, message)

        self._at(receiver, hand_over)

    # ------------------------------------------------------------------ dialling and silence

    def _tick(self) -> None:
        self._ticker = self.loop.call_later(REDIAL_S, self._tick)
        now = self.loop.time()
        for node_id in sorted(self.transports):
            if node_id in self.paused:
                continue
            transport = self.transports[node_id]
            for peer_id in sorted(transport.nodes):
                connection = transport.current.get(peer_id)
                if connection is None:
                    if node_id > peer_id:
                        self._dial(node_id, peer_id)
                elif now - connection.heard_at.get(node_id, now) > SILENCE_S:
                    transport.disconnected(peer_id, connection)
                    self._reset(connection, node_id, peer_id)

    def _dial(self, node_id: str, peer_id: str) -> None:
        ways = {(node_id, peer_id), (peer_id, node_id)}
        if peer_id not in self.transports or peer_id in self.paused or ways & self.blocked:
            return
        now = self.loop.time()
        connection = Connection(frozenset((node_id, peer_id)), heard_at={node_id: now, peer_id: now})
        for here, there in ((node_id, peer_id), (peer_id, node_id)):
            connection.arrives_at[there] = now + self._latency()
            self.loop.call_at(connection.arrives_at[there], self._at, here, self._established(here, there, connection))

    def _established(self, here: str, there: str, connection: Connection) -> Callable[[], None]:
        def establish() -> None:
            transport: Any = self.transports.get(here)
            if transport is not None and there in self.transports:
                transport.connected(there, connection)

        return establish
