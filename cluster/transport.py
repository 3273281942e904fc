"""Connections to the other members: one a pair, each with a known node at its other end.

The node with the greater id dials, and dials again when a connection ends. It has PySyncObj's transport interface:
messages are dicts with a "type", delivered in the order in which they were sent on one connection, or not at all.

Invariants: a message is delivered only from the newest connection of a node whose hello was accepted; a frame of a
replaced connection reaches nobody. A connection that is malformed, silent, too slow or not trusted is closed with a
logged reason, and nothing worse happens. What a node sends is bounded in memory.
It must never decide who may vote: `peer_info` tells the incarnation at the other end, the engine decides what counts.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, NoReturn

from pysyncobj.node import Node
from pysyncobj.transport import Transport

from cluster.complaints import Complaints
from cluster.connection import OTHER_SIDE_CLOSED, Connection
from cluster.fatal import Fatal, fatal, guarded
from cluster.framing import MAX_FRAME_BYTES, STILL_HERE, encode_frame
from cluster.hello import (
    HELLO,
    HelloError,
    PeerInfo,
    hello_frame,
    judge_hello,
    refusal_frame,
    refusal_reason,
)
from cluster.peer_addresses import TransportError, peer_address
from cluster.peer_certificates import PeerCertificates
from cluster.peer_listener import PeerListener, listen_for_peers, renew_certificates
from cluster.ports import Message

__all__ = ["PeerInfo", "PeerTransport", "TransportError"]

log = logging.getLogger(__name__)

BUFFER_MAX_BYTES = 32 << 20
STRANGER_FRAME_BYTES = 64 << 10  # before a hello was accepted
STRANGERS_MAX = 64
STRANGER_SECONDS = 10.0
REDIAL_SECONDS = (0.05, 1.0)
DIAL_SECONDS = 1.0
# What was said to a node before it slept so long is of no use to it: deadlines passed, leaders changed.
STOOD_STILL_SECONDS = 10.0

Answer = Callable[[object], list[object] | None]


def silence_seconds(heartbeat_ms: int) -> float:
    """For how long a connection may be silent: four heartbeats, and never less than a second."""
    return max(1.0, 4 * heartbeat_ms / 1000)


class PeerTransport(Transport):  # type: ignore[misc]
    """The engine sets `on_turn` (called once after each batch of received messages) and `before_send` (called with
    each message before it leaves; what it raises keeps the message here)."""

    def __init__(
        self,
        me: PeerInfo,
        addresses: Mapping[str, str],
        *,
        listen: str,
        heartbeat_ms: int = 50,
        certificates: PeerCertificates | None = None,
        allow_plaintext: bool = False,
        answer_stranger: Answer | None = None,
        end: Fatal = fatal,
    ) -> None:
        """me: what this node tells of itself. addresses: node id to "host:port" of all members, this one included.

        listen: "host:port" to be dialled at. certificates: for mutual TLS, None without.
        allow_plaintext: without TLS also on addresses that are not loopback. answer_stranger: gives the answer to a
        first frame that is no hello, or None when there is none. end: called when a callback of the engine raises.
        """
        self.peers: dict[str, Node] = {name: Node(name) for name in addresses if name != me.node_id}
        super().__init__(None, Node(me.node_id), list(self.peers.values()))
        self.on_turn: Callable[[], None] = lambda: None
        self.before_send: Callable[[Message], None] = lambda message: None
        self.me = me
        self._addresses = dict(addresses)
        self._listen = listen
        self._silence_seconds = silence_seconds(heartbeat_ms)
        self._certificates = certificates
        self._allow_plaintext = allow_plaintext
        self._answer_stranger = answer_stranger
        self._end = end
        self.on_open = guarded(end, "greeting a peer", self._opened)
        self.on_frames = guarded(end, "receiving from a peer", self._received)
        self.on_lost = guarded(end, "losing a peer", self._lost)
        self._connections: dict[str, Connection] = {}
        self._strangers: set[Connection] = set()
        self._complaints = Complaints(log)
        self._tasks: list[asyncio.Task[None]] = []
        self._listener: PeerListener | None = None
        self._passed_at = 0.0

    # ------------------------------------------------------------------ start and stop

    async def start(self) -> None:
        """Listen, dial, watch. Raises TransportError when that is impossible or would be unsafe."""
        for name in self.peers:
            self._address(name)
        self._loop = asyncio.get_running_loop()
        self._passed_at = self._loop.time()
        self._listener = await listen_for_peers(self._accepted, self._listen, self._certificates, self._allow_plaintext)
        if self._certificates is not None:
            self._begin(partial(renew_certificates, self._certificates, self._listener))
        for name in self.peers:
            if self.me.node_id > name:
                self._begin(partial(self._dial, name))
        self._begin(self._watch)

    def _address(self, name: str) -> tuple[str, int]:
        return peer_address(
            self._addresses[name],
            f"the address of {name}",
            encrypted=self._certificates is not None,
            allow_plaintext=self._allow_plaintext,
        )

    def _begin(self, work: Callable[[], Coroutine[Any, Any, NoReturn]]) -> None:
        async def run() -> None:
            try:
                await work()
            except asyncio.CancelledError:
                raise
            except BaseException as error:
                self._end(f"a task of the peer transport failed: {error!r}", error)

        self._tasks.append(asyncio.create_task(run()))

    def destroy(self) -> None:
        """End everything at once. The engine hears no more of it."""
        self.setOnMessageReceivedCallback(None)
        self.setOnNodeConnectedCallback(None)
        self.setOnNodeDisconnectedCallback(None)
        for task in self._tasks:
            task.cancel()
        if self._listener is not None:
            self._listener.close()
        for connection in [*self._connections.values(), *self._strangers]:
            connection.close("this node stops")

    async def close(self) -> None:
        """As `destroy`, and wait until tasks and sockets are gone."""
        self.destroy()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._listener is not None:
            await self._listener.wait_closed()
        await _full_pass()

    # ------------------------------------------------------------------ the engine's side

    def send(self, node: Node, message: Message) -> bool:
        """Send to a member; never blocks. Returns False when there is no connection to it."""
        connection = self._connections.get(node.id)
        if connection is None:
            return False
        self.before_send(message)
        connection.send(encode_frame(message))
        if connection.buffered_bytes > BUFFER_MAX_BYTES:
            connection.close(f"it is too slow: more than {BUFFER_MAX_BYTES >> 20} MiB wait for it")
            return False
        return True

    def peer_info(self, node_id: str) -> PeerInfo | None:
        """What a member said of itself on its present connection, None while there is none."""
        connection = self._connections.get(node_id)
        return None if connection is None else connection.info

    def certificate_ends(self) -> dict[str, float]:
        """Node id to the end of its certificate in Unix seconds: this node's, and those of the connected members."""
        if self._certificates is None:
            return {}
        ends = {name: c.certified.ends_at for name, c in self._connections.items() if c.certified is not None}
        return {self.me.node_id: self._certificates.ends_at, **ends}

    def buffered_bytes(self, node: Node) -> int:
        """Bytes sent to a member that the network has not taken yet."""
        connection = self._connections.get(node.id)
        return 0 if connection is None else connection.buffered_bytes

    # ------------------------------------------------------------------ connections begin

    def _accepted(self) -> Connection:
        return Connection(self, None, STRANGER_FRAME_BYTES)

    async def _dial(self, name: str) -> NoReturn:
        shortest, longest = REDIAL_SECONDS
        pause = shortest
        host, port = self._address(name)
        while True:
            connection = Connection(self, name, MAX_FRAME_BYTES)
            try:
                async with asyncio.timeout(DIAL_SECONDS):
                    await self._loop.create_connection(
                        lambda made=connection: made,
                        host,
                        port,
                        ssl=None if self._certificates is None else self._certificates.client,
                        server_hostname=None if self._certificates is None else name,
                    )
            except (OSError, TimeoutError) as error:
                self._complaints.tell(
                    name, f"cannot be reached at {self._addresses[name]}: {str(error) or 'no answer'}"
                )
            else:
                await connection.closed.wait()
                if connection.info is not None:
                    pause = shortest
            await asyncio.sleep(pause)
            pause = min(2 * pause, longest)

    def _opened(self, connection: Connection) -> None:
        if connection.dialled is None and len(self._strangers) >= STRANGERS_MAX:
            connection.close(f"{STRANGERS_MAX} others have not said who they are")
            return
        self._strangers.add(connection)
        if connection.dialled is not None:
            connection.send(encode_frame(hello_frame(self.me)))

    def _greet(self, connection: Connection, frame: object) -> None:
        """Judge the first frame of a connection: it is accepted, answered as a stranger's, or closed."""
        try:
            if connection.dialled is None and self._answered(connection, frame):
                return
            # The greater id dials, so that a pair has one connection and not two that replace each other.
            expected = {connection.dialled} if connection.dialled else {n for n in self.peers if n > self.me.node_id}
            names = None if connection.certified is None else connection.certified.names
            info = judge_hello(frame, self.me, expected, names)
        except HelloError as error:
            connection.close(f"refused: {error}", encode_frame(refusal_frame(str(error))))
            return
        self._accept(connection, info)

    def _answered(self, connection: Connection, frame: object) -> bool:
        if self._answer_stranger is None or (isinstance(frame, list) and frame[:1] == [HELLO]):
            return False
        if connection.certified is not None and not connection.certified.names & self._addresses.keys():
            return False
        answer = self._answer_stranger(frame)
        if answer is None:
            return False
        connection.send(encode_frame(answer))
        return True

    def _accept(self, connection: Connection, info: PeerInfo) -> None:
        if connection.dialled is None:
            connection.send(encode_frame(hello_frame(self.me)))
        old = self._connections.get(info.node_id)
        if old is not None:
            old.close("a newer connection replaced it")
        connection.info = info
        connection.reader.limit_bytes = MAX_FRAME_BYTES
        self._strangers.discard(connection)
        self._connections[info.node_id] = connection
        self._complaints.over(info.node_id)
        log.info("%s is connected, incarnation %d, at %s", info.node_id, info.incarnation, connection.remote)
        self._onNodeConnected(self.peers[info.node_id])

    # ------------------------------------------------------------------ what arrives

    def _received(self, connection: Connection, frames: list[object]) -> None:
        if self._stood_still():
            return
        delivered = False
        for frame in frames:
            if connection.closed.is_set():
                break
            refusal = refusal_reason(frame)
            if refusal is not None:
                connection.close(f"it refused this node: {refusal}")
            elif connection.info is None:
                self._greet(connection, frame)
            elif isinstance(frame, dict) and isinstance(frame.get("type"), str):
                delivered = True
                self._onMessageReceived(self.peers[connection.info.node_id], frame)
            elif frame is not None:  # None is "still here"
                connection.close(f"it sent something that is no message: {frame!r:.80}")
        if delivered:
            self.on_turn()

    # ------------------------------------------------------------------ connections end

    def _lost(self, connection: Connection, reason: str) -> None:
        self._strangers.discard(connection)
        info = connection.info
        if info is None:
            if connection.dialled is not None or reason != OTHER_SIDE_CLOSED:
                self._complaints.tell(connection.dialled or connection.host, reason)
        elif self._connections.get(info.node_id) is connection:
            del self._connections[info.node_id]
            log.warning("the connection to %s ended: %s", info.node_id, reason)
            self._onNodeDisconnected(self.peers[info.node_id])

    async def _watch(self) -> NoReturn:
        """Close what is silent, and let idle connections hear that this node is still here."""
        interval = self._silence_seconds / 4
        while True:
            await asyncio.sleep(interval)
            self._stood_still()
            self._passed_at = self._loop.time()
            # A loop that was late must first read what has arrived meanwhile; then silence is silence.
            await _full_pass()
            now = self._loop.time()
            for connection in [*self._connections.values(), *self._strangers]:
                if now - connection.heard_at > self._silence_seconds:
                    connection.close(f"silent for {now - connection.heard_at:.1f} s")
                elif connection.info is not None:
                    if now - connection.sent_at >= interval:
                        connection.send(STILL_HERE)
                elif now - connection.opened_at > STRANGER_SECONDS:
                    connection.close(f"it did not say who it is within {STRANGER_SECONDS:.0f} s")

    def _stood_still(self) -> bool:
        """Whether the loop did not run for so long that everything unread is outdated; then all connections end."""
        still_seconds = self._loop.time() - self._passed_at
        if still_seconds <= STOOD_STILL_SECONDS:
            return False
        self._passed_at = self._loop.time()
        for connection in [*self._connections.values(), *self._strangers]:
            connection.close(f"this node stood still for {still_seconds:.1f} s: what it was sent is outdated")
        return True


async def _full_pass() -> None:
    """Return when every socket that was readable has been read once, whatever order the loop works in."""
    for _ in range(3):
        await asyncio.sleep(0)
