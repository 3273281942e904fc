"""`runstate up` as a user has it: from a shell, with Ctrl-C, and again the next day."""

import os
import signal
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.integration.blocks import HOST, PortBlock
from tests.integration.calls import NoAnswer, call
from tests.integration.cluster import tree_environ
from tests.integration.processes import Program
from tests.integration.waiting import eventually

READY_SECONDS = 40.0


class Up:
    """One `runstate up` in a process group of its own, as a shell would start it."""

    def __init__(self, folder: Path, port: int, *arguments: str) -> None:
        command = [sys.executable, "-m", "api.cli", "up", "--data", "here", "--port", str(port), *arguments]
        self.data = folder / "here"
        self.program = Program("up", command, folder / "up.log", environ=tree_environ(), directory=folder, group=True)

    def wait_ready(self) -> dict[str, str]:
        """Wait for the lines to paste, and return them as variables."""

        def look() -> bool:
            assert self.program.alive, self.program.last_words()
            return "Ctrl-C stops" in self.program.said()

        eventually(look, within_seconds=READY_SECONDS, what=self.program.last_words)
        lines = [line for line in self.program.said().splitlines() if line.startswith("export ")]
        return dict(line.removeprefix("export ").split("=", 1) for line in lines)

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.program.pid).children(recursive=True)

    def press_ctrl_c(self) -> None:
        os.killpg(self.program.pid, signal.SIGINT)


@contextmanager
def up(folder: Path, port: int, *arguments: str) -> Iterator[Up]:
    started = Up(folder, port, *arguments)
    try:
        yield started
    finally:
        started.program.close()


def _do(environment: dict[str, str], url: str, method: str, path: str, body: object = None) -> dict[str, Any]:
    reply = call(
        url, method, f"/v1/spaces/{environment['RUNSTATE_SPACE_ID']}{path}", body, key=environment["RUNSTATE_API_KEY"]
    )
    assert reply.status < 300, reply
    return reply.body


def _hold(environment: dict[str, str], url: str) -> dict[str, Any]:
    run = _do(environment, url, "PUT", "/runs/up", {})["id"]
    body = {"key": "lock", "scopeId": run, "holder": "h", "holderSession": "s", "leaseSeconds": 3600}
    return _do(environment, url, "POST", "/claims", body)


@pytest.mark.parametrize("nodes", [3, 1])
def test_ready_stopped_by_ctrl_c_and_resumed(tmp_path: Path, nodes: int) -> None:
    with PortBlock() as block:
        port = block.ports[0]
        urls = [f"http://{HOST}:{port + number}" for number in range(nodes)]
        with up(tmp_path, port, "--nodes", str(nodes)) as first:
            environment = first.wait_ready()
            assert environment["RUNSTATE_BASE_URL"] == urls[0]
            assert environment["RUNSTATE_ENDPOINTS"] == ",".join(urls)
            file = first.data / "env"
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
            written = dict(line.split("=", 1) for line in file.read_text().splitlines())
            assert written.items() > environment.items()
            assert "RUNSTATE_OPERATOR_KEY" in written
            held = _hold(environment, urls[-1])
            children = first.children()
            assert len(children) == nodes
            first.press_ctrl_c()
            assert first.program.wait(20) == 0, first.program.last_words()
            gone, alive = psutil.wait_procs(children, timeout=5)
            assert not alive
            assert len(gone) == nodes

        with up(tmp_path, port, "--nodes", str(nodes)) as second:
            assert second.wait_ready() == environment
            for url in urls:
                renewed = _do(environment, url, "POST", "/claims/lock/renew", {"token": held["token"]})
                assert renewed["generation"] == held["generation"]


def test_a_killed_node_is_started_again_and_a_killed_up_leaves_none(tmp_path: Path) -> None:
    with PortBlock() as block, up(tmp_path, block.ports[0]) as running:
        environment = running.wait_ready()
        urls = environment["RUNSTATE_ENDPOINTS"].split(",")
        held = _hold(environment, urls[0])
        before = {child.pid for child in running.children()}
        victim = max(before)
        os.kill(victim, signal.SIGKILL)

        def whole() -> bool:
            try:
                ready = [call(url, "GET", "/readyz", within_seconds=1).status == 200 for url in urls]
            except NoAnswer:
                return False
            now = {child.pid for child in running.children()}
            return all(ready) and victim not in now and len(now) == len(urls)

        eventually(whole, within_seconds=READY_SECONDS, what=running.program.last_words)
        assert "died: SIGKILL" in running.program.said()
        for url in urls:
            assert _do(environment, url, "POST", "/claims/lock/renew", {"token": held["token"]})["generation"] == 1

        children = running.children()
        running.program.kill()
        _, alive = psutil.wait_procs(children, timeout=5)
        assert not alive


def test_it_makes_a_new_key_when_the_file_is_gone(tmp_path: Path) -> None:
    with PortBlock() as block:
        with up(tmp_path, block.ports[0], "--nodes", "1") as first:
            before = first.wait_ready()
            run = _do(before, before["RUNSTATE_BASE_URL"], "PUT", "/runs/kept", {})
            first.press_ctrl_c()
            first.program.wait(20)
        (first.data / "env").unlink()
        with up(tmp_path, block.ports[0], "--nodes", "1") as second:
            after = second.wait_ready()
            assert after["RUNSTATE_API_KEY"] != before["RUNSTATE_API_KEY"]
            assert after["RUNSTATE_SPACE_ID"] == before["RUNSTATE_SPACE_ID"]
            assert _do(after, after["RUNSTATE_BASE_URL"], "PUT", "/runs/kept", {}) == run
