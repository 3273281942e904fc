"""`runstate node admit`: a real node loses its disk, comes back, follows, and counts again."""

import shutil
from pathlib import Path

from tests.api.cli_cluster import reach, run
from tests.integration.cluster import Cluster
from tests.integration.waiting import eventually


def test_a_node_that_lost_its_disk_follows_and_counts_again_when_admitted(tmp_path: Path) -> None:
    with Cluster(tmp_path / "cluster") as cluster:
        cluster.start()
        space = cluster.space()
        replaced, other = cluster.followers()
        replaced.program.kill()
        shutil.rmtree(replaced.data)
        replaced.start()
        cluster.wait_ready()
        assert space.do(replaced, "PUT", "/runs/seen-by-the-new-disk", {})
        shown = run(tmp_path, "status", *reach(cluster))
        assert shown.status == 1
        assert "does not count\n" in shown.out
        assert f"{replaced.id} has a new disk: once it has no lag, `runstate node admit {replaced.id}`" in shown.out

        for admitted in (run(tmp_path, "node", "admit", replaced.id, *reach(cluster)) for _ in range(2)):
            assert (admitted.status, admitted.err) == (0, "")
            assert admitted.out.startswith(f"{replaced.id} counts, with incarnation ")
        eventually(
            lambda: run(tmp_path, "status", *reach(cluster)).status == 0, within_seconds=20, what="all is well again"
        )

        # With the third one gone, the two are a majority only because the new incarnation counts.
        other.program.kill()
        assert space.do(replaced, "PUT", "/runs/after", {})


def test_a_node_that_is_not_there_cannot_be_admitted(tmp_path: Path) -> None:
    """Nor can one that does not follow yet be counted; it is as soon as it does."""
    with Cluster(tmp_path / "cluster") as cluster:
        cluster.start()
        replaced, _ = cluster.followers()
        replaced.program.kill()
        shutil.rmtree(replaced.data)
        refused = run(tmp_path, "node", "admit", replaced.id, *reach(cluster))
        assert refused.status == 70
        assert f"{replaced.id} is not connected to this node; start it, or ask another node" in refused.err

        replaced.start()
        cluster.wait_ready()
        replaced.program.pause()
        others = ",".join(node.url for node in cluster.nodes if node is not replaced)
        key = str(cluster.directory / "operator.key")
        asked = run(
            tmp_path,
            *("node", "admit", replaced.id, "--wait", "0", "--endpoints", others, "--operator-key-file", key),
        )
        assert asked.status == 70
        assert f"{replaced.id} is admitted and does not have what the others have yet" in asked.err
        replaced.program.resume()
        eventually(
            lambda: run(tmp_path, "status", *reach(cluster)).status == 0, within_seconds=20, what="it counts by itself"
        )


def test_who_is_no_member_is_told(shared_cluster: Cluster, tmp_path: Path) -> None:
    refused = run(tmp_path, "node", "admit", "n9", *reach(shared_cluster))
    assert refused.status == 70
    assert "NOT_FOUND" in refused.err
