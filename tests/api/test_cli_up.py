"""`runstate up` when it cannot do what was asked. What it does when it can is in tests/integration/test_up.py."""

import socket
import sys
from pathlib import Path

from tests.api.cli_cluster import run
from tests.integration.blocks import PortBlock
from tests.integration.cluster import tree_environ
from tests.integration.processes import Program
from tests.integration.waiting import eventually


def test_ports_in_use_are_named_with_others_that_are_free(tmp_path: Path) -> None:
    with PortBlock() as block, socket.create_server(("127.0.0.1", block.ports[1])):
        ran = run(tmp_path, "up", "--port", str(block.ports[0]))
    assert ran.status == 64
    assert ran.err.startswith(f"runstate: port {block.ports[1]} is in use; take others, for example --port ")
    # Nothing was started that would have to be resumed.
    assert not (tmp_path / ".runstate" / "n1").exists()


def test_a_directory_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ran = run(tmp_path, "up", "--data", "file")
    assert ran.status == 70
    assert ran.err.startswith("runstate: file cannot be used: ")


def test_a_second_one_and_one_of_another_size_are_refused(tmp_path: Path) -> None:
    with PortBlock() as block:
        port = str(block.ports[0])
        command = [sys.executable, "-m", "api.cli", "up", "--nodes", "1", "--port", port]
        first = Program("up", command, tmp_path / "up.log", environ=tree_environ(), directory=tmp_path)
        try:
            eventually(lambda: "Ctrl-C stops" in first.said(), within_seconds=40, what=first.last_words)
            second = run(tmp_path, "up", "--nodes", "1", "--port", str(block.ports[4]))
            assert second.status == 70
            assert f"`runstate up` runs on .runstate already (process {first.pid})" in second.err
            assert first.terminate() == 0
        finally:
            first.close()
        larger = run(tmp_path, "up", "--port", port)
        assert larger.status == 70
        assert larger.err.startswith("runstate: .runstate holds a cluster of 1: use --nodes 1, or start a new cluster")


def test_a_node_that_cannot_start_is_told_with_its_reason(tmp_path: Path) -> None:
    with PortBlock() as block:
        command = [sys.executable, "-m", "api.cli", "up", "--nodes", "1", "--port", str(block.ports[0])]
        (tmp_path / ".runstate" / "n1").mkdir(parents=True)
        (tmp_path / ".runstate" / "cluster.json").write_text('{"nodes": 1}')
        (tmp_path / ".runstate" / "n1" / "data").write_text("no directory")
        up = Program("up", command, tmp_path / "up.log", environ=tree_environ(), directory=tmp_path)
        try:
            died = "n1 died: exit status 64; its last words: data = "
            eventually(lambda: died in up.said(), within_seconds=20, what=up.last_words)
            assert "must be a directory; starting it again in" in up.said()
            assert up.terminate() == 0
        finally:
            up.close()


def test_lost_journals_of_most_nodes_are_told_and_nothing_is_started(tmp_path: Path) -> None:
    folder = tmp_path / ".runstate"
    for name in ("n1", "n2", "n3"):
        (folder / name / "data").mkdir(parents=True)
    (folder / "n3" / "data" / "journal").mkdir()
    (folder / "cluster.json").write_text('{"nodes": 3, "clusterId": "c"}')
    with PortBlock() as block:
        ran = run(tmp_path, "up", "--port", str(block.ports[0]))
    assert ran.status == 70
    assert ran.err == (
        "runstate: .runstate holds cluster c, but the journals of n1, n2 are gone: there is no majority that has its "
        "state. Put them back, or delete the directory to begin anew\n"
    )
