"""The exported metrics."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from tests.api.served import Api, served


def values(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@served
async def test_requests_and_errors_are_counted_by_operation(api: Api) -> None:
    run = await api.run()
    for _ in range(3):
        await api.call("POST", "/claims", {"key": "k", "scopeId": run, "holder": "h", "holderSession": "s"})
    await api.call("GET", "/nowhere")
    await api.call(
        "POST", "/batch", {"operations": [{"method": "POST", "path": "/scopes"}, {"method": "GET", "path": "/x"}]}
    )
    reply = await api.request("GET", "/metrics")
    assert reply.headers["Content-Type"].startswith("text/plain")
    found = values(reply.content.decode())

    def requests(operation: str, status: int, code: str = "") -> float:
        labels = (("code", code), ("operation", operation), ("status", str(status)))
        return found["runstate_requests_total", labels]

    assert requests("claims.acquire", 201) == 1
    assert requests("claims.acquire", 409, "CLAIM_HELD") == 2
    assert requests("nowhere", 404, "NOT_FOUND") == 2
    assert requests("batch", 200) == 1
    assert requests("scopes.create", 201) == 1
    assert found["runstate_request_seconds_count", (("operation", "claims.acquire"),)] == 3
    assert found["runstate_commit_seconds_count", ()] >= 6
    assert found["runstate_connections", ()] >= 1
    assert found["runstate_long_polls", ()] == 0
    assert found["runstate_requests_in_flight", ()] == 1
    assert found["runstate_machine_defects_total", ()] == 0
    assert found["runstate_raft_term", ()] == 0
    assert found["runstate_raft_commit_seconds_count", ()] == 0


@served
async def test_labels_come_from_declarations_alone(api: Api) -> None:
    for path in ("/a", "/b", "/c/d"):
        await api.request("GET", path)
        await api.call("PUT", f"/runs{path}", {"x": path})
    found = values((await api.request("GET", "/metrics")).content.decode())
    operations = {dict(labels).get("operation") for name, labels in found if name == "runstate_requests_total"}
    assert operations <= {endpoint.name for endpoint in api.server.endpoints} | {"nowhere"}
