"""Reads at every node see what was written through any other before they began."""

from itertools import permutations

from tests.integration.cluster import Cluster, Space


def test_a_write_through_one_node_is_seen_through_another_at_once(cluster: Cluster, space: Space) -> None:
    scope = space.do(cluster.nodes[0], "PUT", "/runs/reads", {})["id"]
    for number in range(20):
        for writer, reader in permutations(cluster.nodes, 2):
            key = f"{number}-{writer.id}-{reader.id}"
            body = {"key": key, "scopeId": scope, "holder": writer.id, "holderSession": "s"}
            written = space.call(writer, "POST", "/claims", body)
            assert written.status == 201, written
            read = space.call(reader, "GET", f"/claims?scopeId={scope}&key={key}")
            assert [claim["holder"] for claim in read.body["claims"]] == [writer.id], read
            assert read.index[0] >= written.index[0]


def test_a_key_revoked_at_one_node_is_refused_at_all(cluster: Cluster, space: Space) -> None:
    made = cluster.nodes[0].operate("POST", f"/spaces/{space.id}/keys", {"name": "short", "permissions": ["read"]}).body
    for node in cluster.nodes:
        assert node.call("GET", "/v1/whoami", key=made["key"]).body["keyId"] == made["id"]
    deleted = cluster.nodes[1].operate("DELETE", f"/spaces/{space.id}/keys/{made['id']}")
    assert deleted.status < 300, deleted
    for node in cluster.nodes:
        assert node.call("GET", "/v1/whoami", key=made["key"]).code == "UNAUTHENTICATED"
