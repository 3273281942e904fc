"""`runstate key`, against real nodes."""

import json
from pathlib import Path

import pytest

from tests.api.cli_cluster import reach, run
from tests.integration.calls import call
from tests.integration.cluster import Cluster

pytestmark = pytest.mark.xdist_group("shared cluster")


@pytest.fixture
def space_id(shared_cluster: Cluster, tmp_path: Path) -> str:
    return run(tmp_path, "space", "create", "keys", *reach(shared_cluster)).out.strip()


def test_a_key_works_until_it_is_revoked(shared_cluster: Cluster, tmp_path: Path, space_id: str) -> None:
    environ = {"RUNSTATE_SPACE_ID": space_id}
    made = run(tmp_path, "key", "create", "--name", "mine", *reach(shared_cluster), environ=environ)
    assert made.status == 0
    secret = made.out.strip()
    key_id = made.err.split()[1].rstrip(",")
    assert made.err == f"id {key_id}, permissions read, resource_config, work; the key is not shown again\n"
    for url in shared_cluster.urls:
        assert call(url, "GET", "/v1/whoami", key=secret).body["keyId"] == key_id

    listed = run(tmp_path, "key", "list", *reach(shared_cluster), environ=environ).out
    assert f"{key_id}  mine  read,resource_config,work" in listed
    assert secret not in listed

    revoked = run(tmp_path, "key", "revoke", key_id, "--space", space_id, *reach(shared_cluster))
    assert (revoked.status, revoked.out) == (0, f"{key_id} is revoked\n")
    for url in shared_cluster.urls:
        assert call(url, "GET", "/v1/whoami", key=secret).code == "UNAUTHENTICATED"
    again = run(tmp_path, "key", "revoke", key_id, "--space", space_id, *reach(shared_cluster))
    assert (again.status, again.err.split(":")[1]) == (70, " NOT_FOUND")


def test_permissions_and_an_end_can_be_chosen(shared_cluster: Cluster, tmp_path: Path, space_id: str) -> None:
    flags = ("--permissions", "read,admin", "--expires-at", "2100-01-01T00:00:00Z", "--json", "--space", space_id)
    made = json.loads(run(tmp_path, "key", "create", *flags, *reach(shared_cluster)).out)
    assert made["permissions"] == ["admin", "read"]
    assert made["expiresAt"] == "2100-01-01T00:00:00.000Z"
    assert made["key"]


def test_a_permission_that_is_none_is_refused(shared_cluster: Cluster, tmp_path: Path, space_id: str) -> None:
    refused = run(tmp_path, "key", "create", "--permissions", "work,fly", "--space", space_id, *reach(shared_cluster))
    assert refused.status == 70
    assert "VALIDATION_FAILED" in refused.err
    assert "permissions" in refused.err


def test_the_space_must_be_known(shared_cluster: Cluster, tmp_path: Path) -> None:
    unsaid = run(tmp_path, "key", "list", *reach(shared_cluster))
    assert unsaid.status == 64
    assert unsaid.err.startswith("runstate: which space? Give --space or set RUNSTATE_SPACE_ID")
    unknown = run(tmp_path, "key", "list", "--space", "no/where", *reach(shared_cluster))
    assert unknown.status == 70
