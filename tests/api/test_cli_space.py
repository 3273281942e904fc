"""`runstate space`, against real nodes."""

import json
from pathlib import Path

import pytest

from tests.api.cli_cluster import reach, run
from tests.integration.cluster import Cluster

pytestmark = pytest.mark.xdist_group("shared cluster")


def test_a_space_is_created_and_listed(shared_cluster: Cluster, tmp_path: Path) -> None:
    made = run(tmp_path, "space", "create", "Größe", *reach(shared_cluster))
    assert (made.status, made.err) == (0, "")
    space_id = made.out.strip()
    listed = run(tmp_path, "space", "list", *reach(shared_cluster))
    assert listed.status == 0
    assert listed.out.startswith("ID ")
    assert [line.split()[:2] for line in listed.out.splitlines() if line.startswith(space_id)] == [[space_id, "Größe"]]


def test_answers_can_be_had_as_json(shared_cluster: Cluster, tmp_path: Path) -> None:
    made = json.loads(run(tmp_path, "space", "create", "j", "--json", *reach(shared_cluster)).out)
    assert made["name"] == "j"
    listed = json.loads(run(tmp_path, "space", "list", "--json", *reach(shared_cluster)).out)
    assert made["id"] in [space["id"] for space in listed]


def test_what_the_cluster_refuses_is_said(shared_cluster: Cluster, tmp_path: Path) -> None:
    refused = run(tmp_path, "space", "create", "", *reach(shared_cluster))
    assert refused.status == 70
    assert refused.out == ""
    assert refused.err.startswith("runstate: VALIDATION_FAILED: name")


def test_a_wrong_operator_key_is_refused(shared_cluster: Cluster, tmp_path: Path) -> None:
    refused = run(
        tmp_path,
        "space",
        "list",
        "--endpoints",
        shared_cluster.urls[0],
        environ={"RUNSTATE_OPERATOR_KEY": "wrong"},
    )
    assert refused.status == 70
    assert refused.err.startswith("runstate: UNAUTHENTICATED: ")
    assert "wrong" not in refused.err
