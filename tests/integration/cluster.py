"""A cluster of real node processes for a test: started, bootstrapped, hurt, asked, and ended by process id.

Everything is awaited by asking the nodes (`/readyz`, the operator API), never by sleeping. Nodes listen on a block of
ports of their own and keep their data in the test's directory; they die with the test run.
"""

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.request import urlopen

from tests.integration.blocks import HOST, PortBlock
from tests.integration.calls import NoAnswer, Reply, call
from tests.integration.processes import Program
from tests.integration.waiting import eventually

OPERATOR_KEY = "rsop_of-the-integration-tests"
READY_SECONDS = 30.0
_LOOK_SECONDS = 1.0


class Node:
    """One member: where it is, its process while it has one, and what it answers."""

    def __init__(self, name: str, url: str, config_path: Path) -> None:
        """config_path: in a folder of the node's own."""
        self.id = name
        self.url = url
        self.config_path = config_path
        self.data = config_path.parent / "data"
        self._program: Program | None = None

    @property
    def program(self) -> Program:
        assert self._program is not None, f"{self.id} was never started"
        return self._program

    @property
    def started(self) -> bool:
        return self._program is not None

    @property
    def alive(self) -> bool:
        return self._program is not None and self._program.alive

    def start(self) -> None:
        assert not self.alive, f"{self.id} runs already"
        command = [sys.executable, "-m", "api.cli", "node", "--config", str(self.config_path)]
        self._program = Program(
            self.id,
            [*command, "--supervisor", str(os.getpid())],
            self.config_path.parent / "log",
            environ=tree_environ(),
        )

    def call(self, method: str, path: str, body: object = None, **options: Any) -> Reply:
        return call(self.url, method, path, body, **options)

    def text(self, path: str) -> str:
        """A page that is no JSON."""
        with urlopen(self.url + path, timeout=_LOOK_SECONDS) as response:
            page: bytes = response.read()
        return page.decode()

    def operate(self, method: str, path: str, body: object = None) -> Reply:
        """A call of the operator API."""
        return self.call(method, f"/admin/v1{path}", body, key=OPERATOR_KEY)

    def readiness(self) -> dict[str, Any]:
        """What `/readyz` says, {} when nobody answers, with "ready" added."""
        try:
            reply = self.call("GET", "/readyz", within_seconds=_LOOK_SECONDS)
        except NoAnswer:
            return {}
        return {**reply.body, "ready": reply.status == 200}

    @property
    def ready(self) -> bool:
        return bool(self.readiness().get("ready"))


class Cluster:
    """N nodes in one directory. A context manager: leaving it ends every process."""

    def __init__(self, directory: Path, count: int = 3, options: Mapping[str, object] | None = None) -> None:
        """options: of every node, by the names in the configuration file."""
        self.directory = directory
        self.programs: list[Program] = []  # others that work with it, for the report of a failed test
        directory.mkdir(parents=True, exist_ok=True)
        self.archive = directory / "archive"  # every committed entry of every node, for `tests.integration.log`
        self._block = PortBlock()
        (directory / "operator.key").write_text(OPERATOR_KEY)
        ports, peer_ports = self._block.ports[:count], self._block.ports[count : 2 * count]
        self._peers = {f"n{i + 1}": f"{HOST}:{port}" for i, port in enumerate(peer_ports)}
        self._options = options or {}
        self.nodes = [
            Node(name, f"http://{HOST}:{port}", directory / name / "node.toml")
            for name, port in zip(self._peers, ports, strict=True)
        ]
        for node in self.nodes:
            node.config_path.parent.mkdir(exist_ok=True)
            self.configure(node)

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for node in self.nodes:
            if node.alive:
                node.program.kill()
        self._block.close()

    # ------------------------------------------------------------------ life

    def configure(self, node: Node, **options: object) -> None:
        """Write the node's file: the options of all, and these of its own. They count from its next start on."""
        values: dict[str, object] = {
            "id": node.id,
            "listen": node.url.removeprefix("http://"),
            "data": str(node.data),
            "operator_key_file": str(self.directory / "operator.key"),
            "election_timeout_ms": [300, 600],
            "local": True,
            "journal_archive": str(self.archive),
            **self._options,
            **options,
        }
        lines = [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in values.items()]
        lines += ["", "[peers]", *(f"{name} = {json.dumps(address)}" for name, address in self._peers.items())]
        node.config_path.write_text("\n".join(lines) + "\n")

    def start(self) -> "Cluster":
        """Start all nodes, make a cluster of them, and wait until all are ready."""
        for node in self.nodes:
            node.start()
        self.bootstrap()
        self.wait_ready()
        return self

    def bootstrap(self) -> None:
        command = [sys.executable, "-m", "api.cli", "bootstrap", "--config", str(self.nodes[0].config_path)]
        program = Program("bootstrap", command, self.directory / "bootstrap.log", environ=tree_environ())
        status = program.wait(READY_SECONDS)
        assert status == 0, program.last_words()

    def wait_ready(self, nodes: Iterable[Node] | None = None, within_seconds: float = READY_SECONDS) -> None:
        """Wait until these nodes (all that run) are ready. Raises AssertionError at once when one of them has died."""
        awaited = [node for node in self.nodes if node.alive] if nodes is None else list(nodes)
        said: dict[str, object] = {}

        def look() -> bool:
            for node in awaited:
                assert node.alive, f"{node.id} died:\n{node.program.last_words()}"
                said[node.id] = node.readiness()
            return all(isinstance(state, dict) and state.get("ready") for state in said.values())

        eventually(look, within_seconds=within_seconds, what=lambda: f"all ready: {said}")

    def restart(self, nodes: Iterable[Node]) -> None:
        """Start what has ended and wait until all that run are ready."""
        for node in nodes:
            node.start()
        self.wait_ready()

    def stop(self) -> None:
        """SIGTERM to all; each must end by itself and with success."""
        for node in self.nodes:
            if node.alive:
                node.program.resume()
        # One after the other, so that each but the last can hand over.
        for node in self.nodes:
            if node.alive:
                status = node.program.terminate()
                assert status == 0, node.program.last_words()

    # ------------------------------------------------------------------ looking

    @property
    def urls(self) -> list[str]:
        return [node.url for node in self.nodes]

    def node(self, name: str) -> Node:
        return next(node for node in self.nodes if node.id == name)

    def leader(self, among: Sequence[Node] | None = None, within_seconds: float = 15.0) -> Node:
        """The node that leads, in the eyes of all nodes asked (those that run), itself included."""
        asked = [node for node in self.nodes if node.alive] if among is None else among
        said: dict[str, dict[str, Any]] = {}

        def look() -> Node | None:
            said.update({node.id: node.readiness() for node in asked})
            names = {state.get("leader") for state in said.values()}
            terms = {state.get("term") for state in said.values()}
            name = names.pop() if len(names) == 1 and len(terms) == 1 else None
            return self.node(name) if name in said else None

        leader = eventually(look, within_seconds=within_seconds, what=lambda: f"one leader: {said}")
        assert leader is not None
        return leader

    def followers(self) -> list[Node]:
        leader = self.leader()
        return [node for node in self.nodes if node is not leader]

    def digests(self, within_seconds: float = 20.0) -> dict[str, str]:
        """Every node's chain digest, taken at one and the same applied index of all."""
        seen: dict[str, dict[int, str]] = {node.id: {} for node in self.nodes}

        def look() -> dict[str, str] | None:
            for node in self.nodes:
                state = _success(node.operate("GET", "/cluster"))
                seen[node.id][state["applied"]] = state["chain"]
            shared = set.intersection(*(set(chains) for chains in seen.values()))
            return {name: chains[max(shared)] for name, chains in seen.items()} if shared else None

        digests = eventually(look, within_seconds=within_seconds, what=lambda: f"one applied index of all: {seen}")
        assert digests is not None
        return digests

    def logs(self) -> list[tuple[str, str]]:
        """(process, end of its log), for the report of a failed test."""
        programs = [node.program for node in self.nodes if node.started] + self.programs
        return [(program.name, program.last_words()) for program in programs]

    # ------------------------------------------------------------------ spaces

    def space(
        self, name: str = "tests", permissions: Sequence[str] = ("work", "resource_config", "read", "admin")
    ) -> "Space":
        """A new space with a key."""
        made = _success(self.nodes[0].operate("POST", "/spaces", {"name": name}))
        key = _success(
            self.nodes[0].operate(
                "POST", f"/spaces/{made['id']}/keys", {"name": name, "permissions": list(permissions)}
            )
        )
        return Space(self, made["id"], key["key"])


class Space:
    """A space, its key, and calls in it through any node."""

    def __init__(self, cluster: Cluster, space_id: str, key: str) -> None:
        self.cluster = cluster
        self.id = space_id
        self.key = key

    def path(self, path: str) -> str:
        return f"/v1/spaces/{self.id}{path}"

    def call(self, node: Node, method: str, path: str, body: object = None, **options: Any) -> Reply:
        return node.call(method, self.path(path), body, key=self.key, **options)

    def do(self, node: Node, method: str, path: str, body: object = None, **options: Any) -> dict[str, Any]:
        """A call that must succeed; its body."""
        return _success(self.call(node, method, path, body, **options))

    def environ(self, node: Node | None = None) -> dict[str, str]:
        """How programs reach this space: all nodes, the given one first."""
        urls = self.cluster.urls
        if node is not None:
            urls = [node.url, *(url for url in urls if url != node.url)]
        return {
            "RUNSTATE_BASE_URL": urls[0],
            "RUNSTATE_ENDPOINTS": ",".join(urls),
            "RUNSTATE_API_KEY": self.key,
            "RUNSTATE_SPACE_ID": self.id,
        }

    def until_it_works(self, attempt: Callable[[], Reply], within_seconds: float = 30.0) -> Reply:
        """Repeat a keyed call or a read while nobody answers or nobody leads; its first other answer."""
        last: list[object] = []

        def once() -> Reply | None:
            try:
                last[:] = [reply := attempt()]
            except NoAnswer as error:
                last[:] = [error]
                return None
            return None if reply.status == 503 else reply

        reply = eventually(once, within_seconds=within_seconds, what=lambda: f"an answer; the last was {last}")
        assert reply is not None
        return reply


def _success(reply: Reply) -> dict[str, Any]:
    assert reply.status < 300, reply
    return reply.body


def tree_environ() -> dict[str, str]:
    """For our own processes: without settings of the developer's shell, and with this tree's packages."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("RUNSTATE_")}
    environ["PYTHONPATH"] = str(Path(__file__).parents[2])
    return environ
