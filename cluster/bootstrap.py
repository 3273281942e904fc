"""The beginning of a cluster: one genesis entry, made once and explicitly, written as entry 1 of every member.

`bootstrap` is the operator's side, `await_genesis` that of a node whose journal is empty. Genesis lists the members
with the incarnations of their journals; whoever is not listed counts for nothing.

It goes to the members one after the other, in the order of their ids. So of two bootstraps at once one is refused by
the first member, before it reached any other. One that broke off is taken up by the next, with the same genesis.
It must never replace a journal.
"""

import asyncio
import logging
import secrets
import ssl
import time
from collections.abc import Mapping

from cluster.bootstrap_frames import (
    FRAME_MAX_BYTES,
    WRITTEN,
    Answers,
    RequestError,
    RequestRefused,
    Standing,
    ask_standing,
    deliver_genesis,
)
from cluster.complaints import Complaints
from cluster.config import NodeConfig
from cluster.connection import OTHER_SIDE_CLOSED, Connection
from cluster.framing import encode_frame
from cluster.hello import HELLO, refusal_frame
from cluster.identity import DataDirectory, DataDirectoryError, read_genesis
from cluster.peer_certificates import PeerCertificates
from cluster.peer_listener import listen_for_peers, renew_certificates
from statemachine.entry import genesis_entry

log = logging.getLogger(__name__)

BOOTSTRAP_SECONDS = 30.0
_REQUEST_SECONDS = 2.0
_RETRY_SECONDS = 0.1
_LOOK_AROUND_SECONDS = 1.0
_CONNECTIONS_MAX = 64
_CONNECTION_SECONDS = 10.0


class BootstrapError(Exception):
    """No cluster was made, or not all of its members have their genesis. The message says which, and what to do."""


async def bootstrap(
    peers: Mapping[str, str], *, context: ssl.SSLContext | None = None, timeout_seconds: float = BOOTSTRAP_SECONDS
) -> str:
    """Make a cluster of these nodes, which must all be running, and return its id.

    peers: node id to "host:port" of all members. context: for dialling, None without TLS.
    timeout_seconds: for the nodes to be reached, all steps together.
    Returns the id also when these nodes are one cluster already: there is nothing left to do.
    Raises BootstrapError when a node cannot be reached, belongs to another cluster, or lost its disk since.
    """
    deadline = asyncio.get_running_loop().time() + timeout_seconds
    asked = await asyncio.gather(*(_ask(name, peers[name], context, deadline) for name in sorted(peers)))
    standings = {standing.node_id: standing for standing in asked}
    genesis = _genesis_of(standings)
    for name, standing in standings.items():
        if standing.genesis is None:
            await _deliver(name, peers[name], context, genesis, deadline)
    return read_genesis(genesis).cluster_id


def _genesis_of(standings: Mapping[str, Standing]) -> bytes:
    """The genesis that some of them have already, or a new one. Raises BootstrapError when they are not one cluster."""
    begun = {name: standing.genesis for name, standing in standings.items() if standing.genesis is not None}
    listed = {name: standing.incarnation for name, standing in standings.items()}
    if not begun:
        return genesis_entry(secrets.token_hex(16), listed, time.time_ns() // 1_000_000, secrets.token_bytes(16))
    if len(set(begun.values())) > 1:
        clusters = ", ".join(f"{name} to {standings[name].cluster_id}" for name in begun)
        raise BootstrapError(f"these nodes belong to different clusters ({clusters}): check `peers` and `data` of each")
    genesis = next(iter(begun.values()))
    cluster_id, members = standings[next(iter(begun))].cluster_id, read_genesis(genesis).members
    if members.keys() != standings.keys():
        raise BootstrapError(
            f"{', '.join(begun)} belong to cluster {cluster_id} of {', '.join(members)}, not of {', '.join(standings)}"
        )
    for name in standings.keys() - begun.keys():
        if members[name] != listed[name]:
            raise BootstrapError(
                f"{name} is a member of cluster {cluster_id}, but its journal was lost or replaced: start it, "
                f"and when it follows, admit its new incarnation (runstate node admit {name})"
            )
    return genesis


async def _ask(name: str, address: str, context: ssl.SSLContext | None, deadline: float) -> Standing:
    while True:
        try:
            return await ask_standing(name, address, context, _REQUEST_SECONDS)
        except RequestError as error:
            await _pause_or_raise(error, f"{name} at {address}: {error}. Start all nodes first.", deadline)


async def _deliver(name: str, address: str, context: ssl.SSLContext | None, genesis: bytes, deadline: float) -> None:
    while True:
        try:
            await deliver_genesis(name, address, context, genesis, _REQUEST_SECONDS)
            return
        except RequestError as error:
            message = f"{name} at {address} did not take its genesis: {error}. Mend that and bootstrap again."
            await _pause_or_raise(error, message, deadline)


async def _pause_or_raise(error: RequestError, message: str, deadline: float) -> None:
    if isinstance(error, RequestRefused) or asyncio.get_running_loop().time() >= deadline:
        raise BootstrapError(message) from None
    await asyncio.sleep(_RETRY_SECONDS)


# ---------------------------------------------------------------------- the node's side


async def await_genesis(
    config: NodeConfig,
    directory: DataDirectory,
    *,
    certificates: PeerCertificates | None = None,
) -> None:
    """Wait until the directory has a journal, as long as it takes: from a bootstrap, or from a member that has it.

    A node whose disk was lost finds its cluster by itself, and follows it. Raises TransportError when it cannot
    listen, JournalError when the journal cannot be written.
    """
    waiting = _Waiting(config, directory)
    listener = await listen_for_peers(
        waiting.accepted, config.peer_listen or config.peers[config.id], certificates, config.allow_plaintext_peers
    )
    log.info(
        "%s has no journal yet (incarnation %d): it waits for `runstate bootstrap`", config.id, directory.incarnation
    )
    tasks = [
        asyncio.create_task(_look_around(config, directory, waiting, certificates)),
        asyncio.create_task(waiting.written.wait(), name="genesis"),
    ]
    if certificates is not None:
        tasks.append(asyncio.create_task(renew_certificates(certificates, listener)))
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        listener.close()
        waiting.close()
    log.info("%s is a member of cluster %s", config.id, directory.cluster_id)


class _Waiting:
    """The connections of a node without a journal; owner of each, see `cluster.connection`."""

    def __init__(self, config: NodeConfig, directory: DataDirectory) -> None:
        self._members = config.peers.keys()
        self._directory = directory
        self._answers = Answers(directory, self._members)
        self._connections: set[Connection] = set()
        self._complaints = Complaints(log)
        self.written = asyncio.Event()

    def accepted(self) -> Connection:
        return Connection(self, None, FRAME_MAX_BYTES)

    def on_open(self, connection: Connection) -> None:
        self._connections.add(connection)
        if len(self._connections) > _CONNECTIONS_MAX:
            connection.close("too many others are connected")

    def on_frames(self, connection: Connection, frames: list[object]) -> None:
        for frame in frames:
            if connection.closed.is_set() or self.written.is_set():
                return
            if isinstance(frame, list) and frame[:1] == [HELLO]:
                reason = f"{self._directory.node_id} has no journal yet: it waits to be bootstrapped"
                connection.close("it said hello before the bootstrap", encode_frame(refusal_frame(reason)))
            elif connection.certified is not None and not connection.certified.names & self._members:
                connection.close("its certificate speaks for no member")
            elif (answer := self._answers(frame)) is None:
                connection.close("it sent something that is no bootstrap frame")
            else:
                connection.send(encode_frame(answer))
                if answer == WRITTEN:
                    self.written.set()

    def on_lost(self, connection: Connection, reason: str) -> None:
        if connection in self._connections and reason != OTHER_SIDE_CLOSED:
            self._complaints.tell(connection.host, reason)
        self._connections.discard(connection)

    def close_old(self, now: float) -> None:
        for connection in list(self._connections):
            if now - connection.opened_at > _CONNECTION_SECONDS:
                connection.close("it asked nothing for too long")

    def close(self) -> None:
        """End all connections; what was answered still leaves."""
        for connection in list(self._connections):
            self._connections.discard(connection)
            connection.close("no reason to complain", b"")


async def _look_around(
    config: NodeConfig, directory: DataDirectory, waiting: _Waiting, certificates: PeerCertificates | None
) -> None:
    """Ask the other members until one has a genesis that lists this node, and begin with it."""
    complaints = Complaints(log)
    while True:
        await asyncio.sleep(_LOOK_AROUND_SECONDS)
        waiting.close_old(asyncio.get_running_loop().time())
        for name in sorted(config.peers.keys() - {config.id}):
            try:
                context = None if certificates is None else certificates.client
                standing = await ask_standing(name, config.peers[name], context, _REQUEST_SECONDS)
            except RequestError:
                continue
            if standing.genesis is None or directory.has_journal:
                continue
            try:
                _begin(config, directory, standing.genesis)
            except (ValueError, DataDirectoryError) as error:
                complaints.tell(name, f"its genesis does not fit this node: {error}")
            else:
                waiting.written.set()
                return


def _begin(config: NodeConfig, directory: DataDirectory, entry: bytes) -> None:
    genesis = read_genesis(entry)
    if genesis.members.keys() != config.peers.keys():
        raise ValueError(f"it lists {', '.join(genesis.members)}, the configuration {', '.join(config.peers)}")
    if genesis.members[config.id] == directory.incarnation:
        directory.write_genesis(entry)
        return
    directory.join(entry)
    log.warning(
        "%s had a journal that is gone: it follows cluster %s now and counts for nothing until it is admitted "
        "(runstate node admit %s)",
        config.id,
        genesis.cluster_id,
        config.id,
    )


__all__ = ["Answers", "BootstrapError", "await_genesis", "bootstrap"]
