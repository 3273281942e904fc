"""`runstate bootstrap`, of real nodes."""

from pathlib import Path

from tests.api.cli_cluster import run
from tests.integration.cluster import Cluster


def test_nodes_become_a_cluster_and_a_repeat_changes_nothing(tmp_path: Path) -> None:
    with Cluster(tmp_path / "cluster") as cluster:
        for node in cluster.nodes:
            node.start()
        config = str(cluster.nodes[1].config_path)
        first = run(tmp_path, "bootstrap", "--config", config)
        assert (first.status, first.err) == (0, "")
        assert first.out.startswith("cluster ")
        assert first.out.endswith(" of n1, n2, n3\n")
        cluster.wait_ready()
        second = run(tmp_path, "bootstrap", "--config", config)
        assert (second.status, second.out) == (0, first.out)


def test_options_that_are_not_right_are_told(tmp_path: Path) -> None:
    refused = run(tmp_path, "bootstrap", "--id", "n1")
    assert refused.status == 64
    assert refused.err.startswith("runstate: the node's options are not right:\n  listen is not set: ")
