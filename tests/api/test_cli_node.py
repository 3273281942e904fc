"""`runstate node`, as a process: its signals, its exit statuses, what it says when it cannot start."""

import os
import signal
import socket
import sys
from pathlib import Path

import pytest

from tests.api.cli_cluster import run
from tests.integration.blocks import PortBlock
from tests.integration.cluster import Cluster, tree_environ
from tests.integration.processes import Program
from tests.integration.waiting import eventually


@pytest.fixture
def single(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path / "cluster", count=1)


def test_it_waits_for_its_bootstrap_and_stops_when_told(single: Cluster) -> None:
    with single:
        (node,) = single.nodes
        node.start()
        waiting = "the node waits for the bootstrap of its cluster, or has not read its log yet"
        eventually(lambda: node.readiness().get("reason") == waiting, within_seconds=20, what=node.program.last_words)
        assert node.program.terminate() == 0


def test_it_serves_and_stops_gracefully(single: Cluster) -> None:
    with single:
        (node,) = single.start().nodes
        assert node.program.terminate() == 0
        words = node.program.said()
        assert "INFO runstate.node: SIGTERM: stopping" in words
        assert words.rstrip().endswith("INFO runstate.node: node n1 stopped")


def test_a_line_of_the_log_has_time_level_and_logger(single: Cluster) -> None:
    with single:
        (node,) = single.start().nodes
        lines = node.program.said().splitlines()
        assert lines
        for line in lines:
            time, level, logger = line.split(" ")[:3]
            assert (len(time), time[-1]) == (len("2030-01-01T00:00:00.000Z"), "Z")
            assert level in ("INFO", "WARNING")
            assert logger.endswith(":")


def test_secrets_are_not_logged(tmp_path: Path) -> None:
    with Cluster(tmp_path / "cluster", count=1, options={"log_level": "debug"}) as cluster:
        (node,) = cluster.start().nodes
        space = cluster.space()
        run_id = space.do(node, "PUT", "/runs/r", {})["id"]
        body = {"key": "k", "scopeId": run_id, "holder": "h", "holderSession": "s"}
        token = space.do(node, "POST", "/claims", body)["token"]
        operator_key = (cluster.directory / "operator.key").read_text()
        node.program.terminate()
        for secret in (space.key, token, operator_key):
            assert secret not in node.program.said()


def test_ctrl_c_is_left_to_the_supervisor(single: Cluster) -> None:
    with single:
        (node,) = single.start().nodes
        node.program.send(signal.SIGINT)
        node.program.send(signal.SIGHUP)
        assert node.ready
        assert node.program.terminate() == 0
        assert "SIGINT" not in node.program.said()


def test_ctrl_c_stops_a_node_without_a_supervisor(single: Cluster, tmp_path: Path) -> None:
    with single:
        (node,) = single.nodes
        command = [sys.executable, "-m", "api.cli", "node", "--config", str(node.config_path)]
        program = Program("alone", command, tmp_path / "alone.log", environ=tree_environ())
        try:
            eventually(lambda: "node" in node.readiness(), within_seconds=20, what=program.last_words)
            program.send(signal.SIGINT)
            assert program.wait(15) == 0, program.last_words()
        finally:
            program.close()


def test_it_does_not_start_without_its_supervisor(single: Cluster, tmp_path: Path) -> None:
    with single:
        (node,) = single.nodes
        ran = run(tmp_path, "node", "--config", str(node.config_path), "--supervisor", str(os.getpid() + 100_000))
        assert (ran.status, ran.out, ran.err) == (70, "", "")


def test_options_that_are_not_right_are_all_told(tmp_path: Path) -> None:
    (tmp_path / "node.toml").write_text('id = "n 1"\nlisten = "here"\ndata = "d"\n[peers]\nn1 = "127.0.0.1:1"\n')
    ran = run(tmp_path, "node", "--config", "node.toml", "--heartbeat-ms", "0")
    assert ran.status == 64
    told = [line.split(" ")[2] for line in ran.err.splitlines()[1:]]
    assert {"id", "listen", "peers", "heartbeat_ms"} <= set(told)


def test_a_taken_port_is_told(single: Cluster, tmp_path: Path) -> None:
    with single, PortBlock() as other, socket.create_server(("127.0.0.1", other.ports[0])):
        taken = f"127.0.0.1:{other.ports[0]}"
        ran = run(tmp_path, "node", "--config", str(single.nodes[0].config_path), "--listen", taken)
        assert ran.status == 70
        assert f"CRITICAL runstate.node: clients cannot be served on {taken}" in ran.err


def test_a_directory_in_use_is_told(single: Cluster, tmp_path: Path) -> None:
    with single, PortBlock() as other:
        (node,) = single.start().nodes
        listen = f"127.0.0.1:{other.ports[0]}"
        ran = run(tmp_path, "node", "--config", str(node.config_path), "--listen", listen)
        assert ran.status == 70
        last = ran.err.splitlines()[-1]
        assert (
            f"CRITICAL runstate.node: this node cannot start: {node.data} is in use by process {node.program.pid}"
            in last
        )
