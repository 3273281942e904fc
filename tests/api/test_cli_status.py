"""`runstate status`, of real nodes: whole, with one down, with none left to lead."""

import json
from pathlib import Path

import pytest

from tests.api.cli_cluster import reach, run
from tests.integration.cluster import Cluster
from tests.integration.waiting import eventually

pytestmark = pytest.mark.xdist_group("shared cluster")


def rows(out: str) -> dict[str, list[str]]:
    """The lines of the table by their address."""
    return {word: line.split() for line in out.splitlines() for word in line.split() if word.startswith("http://")}


def test_all_is_well(shared_cluster: Cluster, tmp_path: Path) -> None:
    shown = run(tmp_path, "status", *reach(shared_cluster))
    assert (shown.status, shown.err) == (0, "")
    assert shown.out.split("\n")[0].split() == ["NODE", "ROLE", "TERM", "COMMIT", "APPLIED", "LAG", "ADDRESS", "READY"]
    table = rows(shown.out)
    assert set(table) == set(shared_cluster.urls)
    assert sorted(row[1] for row in table.values()) == ["follower", "follower", "leader"]
    leader = shared_cluster.leader()
    assert table[leader.url][:2] == [leader.id, "leader"]
    assert all(row[5].isdigit() for row in table.values())
    assert all(row[7] == "yes" for row in table.values())


def test_other_members_are_found_through_one(shared_cluster: Cluster, tmp_path: Path) -> None:
    leader = shared_cluster.leader()
    key = str(shared_cluster.directory / "operator.key")
    shown = run(tmp_path, "status", "--endpoints", leader.url, "--operator-key-file", key)
    assert shown.status == 0
    assert set(rows(shown.out)) == set(shared_cluster.urls)


def test_without_the_operator_key_it_says_what_is_missing(shared_cluster: Cluster, tmp_path: Path) -> None:
    shown = run(tmp_path, "status", environ={"RUNSTATE_ENDPOINTS": ",".join(shared_cluster.urls)})
    assert shown.status == 0
    assert shown.out.endswith("how far each log is: the leader tells it to the operator key alone\n")


def test_one_down_then_two(tmp_path: Path) -> None:
    with Cluster(tmp_path / "cluster") as cluster:
        cluster.start()
        victim, other = cluster.followers()
        victim.program.kill()
        shown = run(tmp_path, "status", *reach(cluster))
        assert shown.status == 1
        row = rows(shown.out)[victim.url]
        assert (row[:5], row[7:]) == ([victim.id, "-", "-", "-", "-"], ["connection", "refused"])
        assert shown.out.endswith(f"degraded: {victim.id}\n")

        other.program.kill()
        left = next(node for node in cluster.nodes if node.alive)
        eventually(lambda: left.readiness().get("leader") is None, within_seconds=10, what="the last one leads no more")
        shown = run(tmp_path, "status", *reach(cluster))
        assert shown.status == 2
        assert rows(shown.out)[left.url][1] in ("follower", "candidate")
        assert shown.out.endswith("no leader: 0 of 3 nodes are ready; a majority is needed\n")
        said = json.loads(run(tmp_path, "status", "--json", *reach(cluster)).out)
        assert said["verdict"] == 2
        assert {row["address"] for row in said["nodes"]} == set(cluster.urls)
