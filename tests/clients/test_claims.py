"""Claims, run trees and events with the released clients 0.1.1 and 0.2.0."""

from pathlib import Path

import pytest

from tests.clients.program import ClientProgram
from tests.integration.cluster import Cluster, Space

versions = pytest.mark.parametrize("version", ["0.1.1", "0.2.0"])


@versions
def test_the_life_of_a_claim(shared_cluster: Cluster, shared_space: Space, tmp_path: Path, version: str) -> None:
    first, second, _ = shared_cluster.nodes
    with ClientProgram(version, "claim_life.py", shared_space, first, tmp_path, first.url, second.url) as program:
        seen = program.finish()
    assert seen == {
        "busy": "busy",
        "own": "busy",
        "renewed": True,
        "waited": "WAIT_TIMEOUT",
        "generations": [1, 2, 3],
        "tokens_differ": True,
        "stale": "STALE_CLAIM",
        "lost": False,
        "run": "ran",
        "free": "acquired",
    }


def _holder(
    version: str, space: Space, place: int, directory: Path, scope_id: str, name: str, lease_seconds: int = 3
) -> ClientProgram:
    node = space.cluster.nodes[place]
    return ClientProgram(version, "claim_hold.py", space, node, directory, scope_id, "lock", lease_seconds, name=name)


@versions
def test_a_killed_holders_claim_is_taken_over(
    shared_cluster: Cluster, shared_space: Space, tmp_path: Path, version: str
) -> None:
    scope = shared_space.do(shared_cluster.nodes[0], "POST", "/scopes", {})["id"]
    with _holder(version, shared_space, 0, tmp_path, scope, "dying") as dying:
        assert dying.wait_for("generation") == 1
        with _holder(version, shared_space, 1, tmp_path, scope, "heir") as heir:
            heir.wait_for("asks")
            dying.program.kill()
            assert heir.wait_for("generation") == 2
            held = shared_space.do(shared_cluster.nodes[2], "GET", f"/claims?scopeId={scope}&key=lock")["claims"]
            assert [claim["generation"] for claim in held] == [2]


@versions
def test_a_holder_that_slept_past_its_lease_hears_that_it_is_lost(
    shared_cluster: Cluster, shared_space: Space, tmp_path: Path, version: str
) -> None:
    scope = shared_space.do(shared_cluster.nodes[0], "POST", "/scopes", {})["id"]
    with _holder(version, shared_space, 0, tmp_path, scope, "sleeper") as sleeper:
        assert sleeper.wait_for("generation") == 1
        sleeper.program.pause()
        with _holder(version, shared_space, 1, tmp_path, scope, "heir") as heir:
            assert heir.wait_for("generation") == 2
            sleeper.program.resume()
            assert sleeper.wait_for("lost") is True
            # The heir renews in peace meanwhile.
            assert not any("lost" in line for line in heir.seen())
            assert heir.program.alive


@versions
def test_a_worker_hears_that_its_run_was_cancelled(
    shared_cluster: Cluster, shared_space: Space, tmp_path: Path, version: str
) -> None:
    root = shared_space.do(shared_cluster.nodes[0], "POST", "/scopes", {})["id"]
    child = shared_space.do(shared_cluster.nodes[1], "POST", "/scopes", {"parentId": root})["id"]
    with _holder(version, shared_space, 2, tmp_path, child, "worker") as worker:
        assert worker.wait_for("generation") == 1
        shared_space.do(shared_cluster.nodes[0], "POST", f"/scopes/{root}/cancel")
        assert worker.wait_for("lost") is True


@versions
def test_a_tree_of_runs(shared_cluster: Cluster, shared_space: Space, tmp_path: Path, version: str) -> None:
    _, second, third = shared_cluster.nodes
    with ClientProgram(version, "run_tree.py", shared_space, second, tmp_path, second.url, third.url) as program:
        seen = program.finish()
    active, cancelled, completed = ["ACTIVE", "ACTIVE"], ["CANCELLED", "CANCELLED"], ["COMPLETED", "COMPLETED"]
    assert seen == {
        "parents": [True, True],
        "active": [active] * 4,
        "limit": "CONFLICT",
        "cancelled": [active, cancelled, ["ACTIVE", "CANCELLED"], active],
        "acquire": "SCOPE_CANCELLED",
        "renew": "SCOPE_CANCELLED",
        "child": "SCOPE_CANCELLED",
        "completed": [completed, cancelled, ["ACTIVE", "CANCELLED"], ["ACTIVE", "COMPLETED"]],
        "deadline": "DEADLINE_EXCEEDED",
        "unknown": "NOT_FOUND",
    }


@versions
def test_events_are_watched_and_listed(
    shared_cluster: Cluster, shared_space: Space, tmp_path: Path, version: str
) -> None:
    first, second, third = shared_cluster.nodes
    scope = shared_space.do(first, "POST", "/scopes", {})["id"]
    arguments = (scope, second.url, third.url, "claim.acquired,claim.released")
    with ClientProgram(version, "watch.py", shared_space, second, tmp_path, *arguments) as program:
        program.wait_for("watches")
        body = {"key": "seen", "scopeId": scope, "holder": "h", "holderSession": "s"}
        token = shared_space.do(first, "POST", "/claims", body)["token"]
        kind, aggregate, payload = program.wait_for("event 1")
        assert (kind, aggregate["type"]) == ("claim.acquired", "claim")
        assert token not in str(payload)
        shared_space.do(third, "POST", "/claims/seen/release", {"token": token})
        shared_space.do(first, "POST", "/claims", {**body, "key": "other"})
        seen = program.finish()
    assert [seen["event 1"][0], seen["event 2"][0]] == ["claim.released", "claim.acquired"]
    assert seen["watched"] == seen["listed"]
    assert len(seen["watched"]) == 3
    assert seen["unique"]
    assert seen["in_order"]


@versions
def test_the_blocking_client(shared_cluster: Cluster, shared_space: Space, tmp_path: Path, version: str) -> None:
    first, second, _ = shared_cluster.nodes
    with ClientProgram(version, "blocking_life.py", shared_space, first, tmp_path, second.url) as program:
        seen = program.finish()
    assert seen == {
        "generations": [1],
        "busy": "busy",
        "ran": "by generation 2",
        "types": ["scope.created", "claim.acquired", "claim.released", "claim.acquired", "claim.released"],
        "cancelled": "SCOPE_CANCELLED",
    }
