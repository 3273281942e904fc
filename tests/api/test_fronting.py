"""What the node fills in: secrets of keys, incarnations of members."""

from __future__ import annotations

from hashlib import sha256

from statemachine.keys import BY_HASH, KEYS
from tests.api.served import Api, served


@served
async def test_a_secret_is_in_the_first_answer_alone(api: Api) -> None:
    body = {"name": "n", "permissions": ["work", "read"]}
    first = await api.operate("POST", f"/spaces/{api.space}/keys", body, idempotency_key="a")
    secret = first["key"]
    assert (first.status, first["permissions"]) == (201, ["read", "work"])
    assert (await api.call("GET", "/scopes", key=secret)).status == 200
    again = await api.operate("POST", f"/spaces/{api.space}/keys", body, idempotency_key="a")
    assert again.headers["Idempotency-Replayed"] == "true"
    assert again.body == {name: value for name, value in first.body.items() if name != "key"}
    listed = await api.operate("GET", f"/spaces/{api.space}/keys")
    assert secret.encode() not in listed.content


@served
async def test_only_the_hash_enters_the_log(api: Api) -> None:
    secret = await api.make_key()
    found = api.replica.machine.store.rows(KEYS).find(BY_HASH, sha256(secret.encode()).digest())
    assert found is not None
    kept = [data for rows in api.replica.machine.store.dump().values() for pair in rows.items() for data in pair]
    kept += [operation for entry in api.replica.entries for operation in entry]
    assert not [data for data in kept if secret.encode() in data]


@served
async def test_an_admin_key_makes_keys_of_its_space(api: Api) -> None:
    admin = await api.make_key("admin")
    made = await api.call("POST", "/keys", {"permissions": ["read"]}, key=admin)
    assert (made.status, made["spaceId"]) == (201, api.space)
    assert (await api.request("GET", "/v1/whoami", key=made["key"]))["permissions"] == ["read"]
    assert (await api.call("POST", "/keys", {}, key=api.key)).code == "FORBIDDEN"
    assert (await api.call("POST", "/keys", {"hash": "AAAA"}, key=admin)).error["message"] == "hash: unknown field"


@served
async def test_the_incarnation_is_that_of_the_connected_node(api: Api) -> None:
    reply = await api.operate("POST", "/cluster/nodes/n1/admit")
    assert (reply.status, reply["incarnation"]) == (200, "7")
    assert (await api.operate("POST", "/cluster/nodes/n2/admit")).code == "UNAVAILABLE"
    assert (await api.operate("POST", "/cluster/nodes/n9/admit")).code == "NOT_FOUND"
    assert (await api.operate("POST", "/cluster/nodes/n1/admit", {"incarnation": 9})).code == "VALIDATION_FAILED"
