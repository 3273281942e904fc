"""Killed in mid-write, it loses nothing: kill -9 of one node, of two, of all three, under load; by signal while writes
are under way, and by nodes that kill themselves at the very moment of a commit."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.integration.cluster import Cluster, Node, Space
from tests.integration.load.start import Load
from tests.integration.log import images_installed
from tests.integration.proof import prove
from tests.integration.waiting import eventually

pytestmark = pytest.mark.timeout(240)

Choice = Callable[[Cluster, int], Sequence[Node]]


def leader(cluster: Cluster, number: int) -> Sequence[Node]:
    return [cluster.leader()]


def follower(cluster: Cluster, number: int) -> Sequence[Node]:
    return [cluster.followers()[number % 2]]


def stale_follower(cluster: Cluster, number: int) -> Sequence[Node]:
    """One that is away until the others have nothing of the log for it any more."""
    return follower(cluster, number)


def leader_and_follower(cluster: Cluster, number: int) -> Sequence[Node]:
    return [cluster.leader(), cluster.followers()[number % 2]]


def followers(cluster: Cluster, number: int) -> Sequence[Node]:
    return cluster.followers()


def everybody(cluster: Cluster, number: int) -> Sequence[Node]:
    return cluster.nodes


# Nothing of the log is kept behind an image: whoever was away for some time gets the image.
SHORT_LOG = {"log_kept_entries": 0}


@pytest.mark.parametrize(
    ("cluster", "choices", "times"),
    [
        pytest.param(SHORT_LOG, [leader], 6, id="leader"),
        pytest.param({}, [follower], 2, id="follower"),
        pytest.param(SHORT_LOG, [stale_follower], 3, id="stale follower"),
        pytest.param(SHORT_LOG, [leader_and_follower, followers], 5, id="two"),
        pytest.param({}, [everybody], 5, id="all"),
    ],
    indirect=["cluster"],
)
def test_nothing_acknowledged_is_lost(
    cluster: Cluster, space: Space, tmp_path: Path, choices: Sequence[Choice], times: int
) -> None:
    with Load(space, tmp_path / "load") as load:
        for number in range(times):
            load.wait_for_more(60)
            victims = choices[number % len(choices)](cluster, number)
            for node in victims:
                node.program.kill()
            if len(victims) == 1:
                load.wait_for_more(60)
            if choices == [stale_follower]:
                wait_for_images(cluster.leader(), 3)
            cluster.restart(victims)
        load.wait_for_more(60)
        requests = load.finish()
    prove(cluster, space, load.scope_id, requests)
    if choices == [stale_follower]:
        assert images_installed(cluster) >= times / 2, "hardly anybody needed an image: this proves nothing"


def wait_for_images(node: Node, count: int) -> None:
    """Wait until the node has written so many images. Its log then begins behind what it had before."""
    seen: set[int] = set()

    def written() -> bool:
        seen.update(file.stat().st_mtime_ns for file in node.data.glob("image/*/data.mdb"))
        return len(seen) > count

    eventually(written, within_seconds=20, what=f"{count} images of {node.id}")


DEATHS = 15
# Each node at another step and after another number of commits: they die one by one, together, and in elections.
AT_COMMIT = {
    "n1": "journal.before_commit=kill@83",
    "n2": "journal.after_commit=kill@131",
    "n3": "journal.before_commit=kill@109",
}


def test_nothing_is_lost_by_death_at_a_commit(cluster: Cluster, space: Space, tmp_path: Path) -> None:
    with Load(space, tmp_path / "load") as load:
        for node in cluster.nodes:
            assert node.program.terminate() == 0
            cluster.configure(node, failpoints=[AT_COMMIT[node.id]])
            node.start()
        for _ in range(DEATHS):
            dead = eventually(
                lambda: [node for node in cluster.nodes if not node.alive],
                within_seconds=30,
                what="the next death at a commit",
            )
            for node in dead:
                assert node.program.status == -9, node.program.last_words()
                node.start()
        for node in cluster.nodes:
            node.program.kill()
            cluster.configure(node)
            node.start()
        cluster.wait_ready()
        load.wait_for_more(60)
        requests = load.finish()
    prove(cluster, space, load.scope_id, requests)
