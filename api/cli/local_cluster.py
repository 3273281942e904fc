"""The directory of a local cluster and what stands in it.

    DIR/lock            held by the one `runstate up` that runs it
    DIR/cluster.json    number of nodes, cluster id and space, once they exist
    DIR/operator.key    the operator key of all nodes (0600)
    DIR/env             how to reach the cluster, with a key (0600); may be deleted, is made again
    DIR/n1/node.toml    options of a node, written anew at each start
    DIR/n1/data/        its journal
    DIR/n1/log          what it said

Invariants: one `up` a directory; a directory keeps its number of nodes for ever, since membership is in the log.
It must never delete anything of `data/`.
"""

import fcntl
import json
import os
import secrets
import socket
from pathlib import Path

import msgspec

from api.cli.environment_file import write_private
from api.cli.failure import CommandError

HOST = "127.0.0.1"
NODE_COUNTS = (1, 3, 5, 7)

# All nodes are on one machine: a heartbeat takes microseconds, so a dead leader may be noticed sooner.
_ELECTION_TIMEOUT_MS = (300, 600)


class Member(msgspec.Struct, frozen=True):
    """One node of a local cluster: its name, ports and folder."""

    id: str
    port: int
    peer_port: int
    folder: Path

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def peer_address(self) -> str:
        return f"{HOST}:{self.peer_port}"

    @property
    def config_path(self) -> Path:
        return self.folder / "node.toml"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def log_path(self) -> Path:
        return self.folder / "log"


class State(msgspec.Struct, rename="camel", omit_defaults=True):
    """`cluster.json`."""

    nodes: int
    cluster_id: str | None = None
    space_id: str | None = None


class LocalCluster:
    """An opened and locked directory. `close` or the end of the process gives it back."""

    def __init__(self, directory: Path, nodes: int, port: int) -> None:
        """Make or open the directory for this many nodes. Raises CommandError when it cannot be, saying what to do."""
        if nodes not in NODE_COUNTS:
            raise CommandError(f"--nodes {nodes}: a cluster has {_either(NODE_COUNTS)} nodes")
        if not 1 <= port <= 65536 - 2 * nodes:
            raise CommandError(
                f"--port {port}: must be from 1 to {65536 - 2 * nodes}, {nodes} nodes use {2 * nodes} ports"
            )
        self.directory = directory
        self.nodes = nodes
        self.members = [
            Member(f"n{i + 1}", port + i, port + nodes + i, directory.resolve() / f"n{i + 1}") for i in range(nodes)
        ]
        self._lock = self._open()
        try:
            self.state = self._read_state()
            self.operator_key = self._operator_key()
        except BaseException:
            self.close()
            raise

    @property
    def environment_path(self) -> Path:
        return self.directory / "env"

    def close(self) -> None:
        os.close(self._lock)

    def save(self) -> None:
        """Write `cluster.json`."""
        write_private(self.directory / "cluster.json", msgspec.json.encode(self.state).decode() + "\n")

    def write_node_files(self) -> None:
        """Make every node's folder and write its options."""
        for member in self.members:
            member.folder.mkdir(mode=0o700, exist_ok=True)
            write_private(member.config_path, self._node_toml(member))

    def lost_journals(self) -> list[str]:
        """The nodes of a bootstrapped cluster that have no journal any more."""
        from cluster.identity import JOURNAL_FOLDER

        if self.state.cluster_id is None:
            return []
        return [member.id for member in self.members if not (member.data / JOURNAL_FOLDER).exists()]

    def busy_ports(self) -> list[int]:
        """The ports of this cluster on which somebody else listens."""
        ports = [member.port for member in self.members] + [member.peer_port for member in self.members]
        return [port for port in ports if not _is_free(port)]

    def _open(self) -> int:
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            strangers = [
                entry.name for entry in self.directory.iterdir() if not entry.name.startswith(("lock", "cluster.json"))
            ]
            if strangers and not (self.directory / "cluster.json").exists():
                raise CommandError(
                    f"{self.directory} holds other things ({', '.join(sorted(strangers)[:3])}) and no cluster; "
                    "give --data a directory of its own"
                )
            descriptor = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise CommandError(
                f"{self.directory} cannot be used: {error.strerror}; give --data a directory that you can write"
            ) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.read(descriptor, 20).decode().strip() or "unknown"
            os.close(descriptor)
            raise CommandError(
                f"`runstate up` runs on {self.directory} already (process {owner}); "
                "stop it first, or give another --data"
            ) from None
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        return descriptor

    def _read_state(self) -> State:
        path = self.directory / "cluster.json"
        try:
            state = msgspec.json.decode(path.read_bytes(), type=State)
        except FileNotFoundError:
            self.state = State(nodes=self.nodes)
            self.save()
            return self.state
        except (OSError, msgspec.MsgspecError) as error:
            raise CommandError(f"{path} cannot be read: {error}") from None
        if state.nodes != self.nodes:
            raise CommandError(
                f"{self.directory} holds a cluster of {state.nodes}: use --nodes {state.nodes}, or start a new cluster "
                f"of {self.nodes} with another --data; the number of nodes of a cluster does not change"
            )
        return state

    def _operator_key(self) -> str:
        path = self.directory / "operator.key"
        if path.exists():
            return path.read_text(encoding="utf-8").strip()
        key = "rsop_" + secrets.token_urlsafe(32)
        write_private(path, key + "\n")
        return key

    def _node_toml(self, member: Member) -> str:
        low, high = _ELECTION_TIMEOUT_MS
        lines = [
            "# Written by `runstate up` at each start.",
            f"id = {_toml(member.id)}",
            f"listen = {_toml(f'{HOST}:{member.port}')}",
            f"data = {_toml(str(member.data))}",
            f"operator_key_file = {_toml(str(self.directory.resolve() / 'operator.key'))}",
            f"election_timeout_ms = [{low}, {high}]",
            "local = true",
            "",
            "[peers]",
            *(f"{other.id} = {_toml(other.peer_address)}" for other in self.members),
        ]
        return "\n".join(lines) + "\n"


def free_block(start: int, nodes: int) -> int | None:
    """The first port from which `2 * nodes` ports in a row are free, in steps of ten; None when there is none."""
    for port in range(start, 65536 - 2 * nodes, 10):
        if all(_is_free(port + i) for i in range(2 * nodes)):
            return port
    return None


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers bind: a port whose last connections linger is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _toml(text: str) -> str:
    # A JSON string is a TOML basic string, but for the escapes of characters outside the basic plane.
    return json.dumps(text, ensure_ascii=False)


def _either(numbers: tuple[int, ...]) -> str:
    return ", ".join(str(number) for number in numbers[:-1]) + f" or {numbers[-1]}"
