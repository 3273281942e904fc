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
        eventually(
            lambda: run(tmp_path, "status", *reach(cluster)).status == 0, within_seconds=20, what="all is well again"
        )

        admitted = run(tmp_path, "node", "admit", replaced.id, *reach(cluster))
        assert (admitted.status, admitted.err) == (0, "")
        assert admitted.out.startswith(f"{replaced.id} counts again, with incarnation ")

        # With the third one gone, the two are a majority only because the new incarnation counts.
        other.program.kill()
        assert space.do(replaced, "PUT", "/runs/after", {})


def test_who_is_no_member_is_told(shared_cluster: Cluster, tmp_path: Path) -> None:
    refused = run(tmp_path, "node", "admit", "n9", *reach(shared_cluster))
    assert refused.status == 70
    assert "NOT_FOUND" in refused.err
