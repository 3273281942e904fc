"""Planned restarts: one node after the other gets SIGTERM, and no client notices."""

from pathlib import Path

import pytest

from tests.integration.cluster import Cluster, Space
from tests.integration.judge import judge
from tests.integration.load.start import Load
from tests.integration.log import Replay, committed_log


@pytest.mark.timeout(180)
def test_a_rolling_restart_gives_no_client_an_error(cluster: Cluster, space: Space, tmp_path: Path) -> None:
    with Load(space, tmp_path / "load") as load:
        # The leader last and then first: both the node that leads and those that follow it are asked to go.
        for node in [*cluster.followers(), cluster.leader(), cluster.leader()]:
            load.wait_for_more(60)
            assert node.program.terminate() == 0, node.program.last_words()
            load.wait_for_more(60)
            cluster.restart([node])
        requests = load.finish()
    judge(requests)
    refused = [one for one in requests for fault in one.faults if "UNAVAILABLE" in fault]
    assert not refused, refused[:3]
    unknown = [one for one in requests if not one.status]
    assert not unknown, unknown[:3]
    assert len(set(cluster.digests().values())) == 1
    cluster.stop()
    replay = Replay(committed_log(cluster))
    replay.holds_every_reply(requests)
    replay.holds_nothing_twice(requests)


def test_a_leader_that_is_asked_to_go_hands_over_first(cluster: Cluster, space: Space) -> None:
    old = cluster.leader()
    term = old.readiness()["term"]
    assert old.program.terminate() == 0, old.program.last_words()
    new = cluster.leader()
    assert new is not old
    # One election, the one that the old leader asked for.
    assert new.readiness()["term"] == term + 1
    assert space.call(new, "PUT", "/runs/after", {}).status == 201


def test_all_data_is_there_after_a_full_stop(cluster: Cluster, space: Space) -> None:
    run = space.do(cluster.nodes[0], "PUT", "/runs/kept", {})
    body = {"key": "lock", "scopeId": run["id"], "holder": "h", "holderSession": "s", "leaseSeconds": 600}
    held = space.do(cluster.nodes[1], "POST", "/claims", body, idempotency_key="k")
    before = cluster.digests()
    cluster.stop()
    cluster.restart(cluster.nodes)
    for node in cluster.nodes:
        assert space.do(node, "PUT", "/runs/kept", {}) == run
        assert space.do(node, "POST", "/claims", body, idempotency_key="k") == held
        assert space.do(node, "POST", "/claims/lock/renew", {"token": held["token"]})["generation"] == 1
    after = cluster.digests()
    assert len(set(before.values())) == len(set(after.values())) == 1
