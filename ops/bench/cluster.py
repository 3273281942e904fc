"""The cluster that is measured: `runstate up` as a user starts it, with durable data on a real disk."""

import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

from api.cli.environment_file import API_KEY, ENDPOINTS, SPACE_ID, read_environment_file
from api.cli.local_cluster import free_block

READY_SECONDS = 60.0
_LOOK_AGAIN_SECONDS = 0.02
_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Node:
    url: str
    host: str
    port: int


class BenchCluster:
    """A running `runstate up`: its nodes, their processes, a key and a space."""

    def __init__(self, process: "subprocess.Popen[bytes]", data: Path, port: int, nodes: int) -> None:
        self._process = process
        self._data = data
        urls = [f"http://127.0.0.1:{port + number}" for number in range(nodes)]
        self.nodes = [Node(url, str(urlsplit(url).hostname), int(urlsplit(url).port or 0)) for url in urls]
        self._wait(lambda: (data / "env").exists() and self.all_ready(), "the cluster is ready")
        environment = read_environment_file(data / "env")
        assert environment[ENDPOINTS].split(",") == urls
        self.api_key = environment[API_KEY]
        self.space_path = f"/v1/spaces/{environment[SPACE_ID]}"

    def pids(self) -> list[int]:
        """Process ids of the nodes."""
        return [child.pid for child in psutil.Process(self._process.pid).children()]

    def leader(self) -> Node:
        """Waits for one."""
        found: list[Node] = self._wait(lambda: [node for node in self.nodes if self._leads(node)], "a node leads")
        return found[0]

    def kill_leader(self) -> float:
        """SIGKILL to the leader's process. Returns when, by time.perf_counter."""
        pid = int(self._ready(self.leader())["leaderPid"])
        assert pid in self.pids()
        os.kill(pid, signal.SIGKILL)
        return time.perf_counter()

    def wait_all_ready(self) -> None:
        self._wait(self.all_ready, "all nodes are ready")

    def all_ready(self) -> bool:
        said = [self._ready(node) for node in self.nodes]
        return all(state.get("ready") for state in said) and len({state.get("leader") for state in said}) == 1

    def _leads(self, node: Node) -> bool:
        state = self._ready(node)
        return bool(state) and state.get("node") == state.get("leader")

    def _ready(self, node: Node) -> dict[str, Any]:
        connection = http.client.HTTPConnection(node.host, node.port, timeout=2)
        try:
            connection.request("GET", "/readyz")
            response = connection.getresponse()
            return {**json.loads(response.read()), "ready": response.status == 200}
        except (OSError, http.client.HTTPException):
            return {}
        finally:
            connection.close()

    def _wait(self, condition: Any, what: str) -> Any:
        deadline = time.monotonic() + READY_SECONDS
        while not (answer := condition()):
            if self._process.poll() is not None:
                raise RuntimeError(f"`runstate up` ended with {self._process.returncode}:\n{self._log()}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"not within {READY_SECONDS:g} s: {what}\n{self._log()}")
            time.sleep(_LOOK_AGAIN_SECONDS)
        return answer

    def _log(self) -> str:
        return (self._data.parent / "up.log").read_text()[-4000:]


@contextmanager
def local_cluster(nodes: int) -> Iterator[BenchCluster]:
    """Start a cluster in a new directory below `build/`, and remove both at the end."""
    build = _ROOT / "build"
    build.mkdir(exist_ok=True)
    port = free_block(7_100, nodes)
    assert port is not None
    with tempfile.TemporaryDirectory(prefix="bench-", dir=build) as folder:
        data = Path(folder) / "data"
        command = [sys.executable, "-P", "-m", "api.cli", "up", "--data", str(data), "--port", str(port)]
        with (Path(folder) / "up.log").open("wb") as log:
            process = subprocess.Popen([*command, "--nodes", str(nodes)], stdout=log, stderr=log, cwd=folder)
        try:
            yield BenchCluster(process, data, port, nodes)
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                # The nodes die with it.
                process.kill()
                process.wait()
