"""The plan's bound on payloads."""

from __future__ import annotations

from tests.api.served import Api, served


@served
async def test_a_plan_may_lower_the_bound_on_payloads(api: Api) -> None:
    organization = (await api.operate("POST", "/organizations", {"name": "o", "plan": {"payloadBytes": 10}}))["id"]
    body = {"name": "s", "organizationId": organization}
    api.space = (await api.operate("POST", "/spaces", body))["id"]
    api.key = await api.make_key()
    run = await api.run()
    claim = {"key": "k", "scopeId": run, "holder": "h", "holderSession": "s"}
    token = (await api.call("POST", "/claims", claim))["token"]
    release = {"token": token, "observation": "123456789"}
    reply = await api.call("POST", "/claims/k/release", release)
    assert (reply.status, reply.code) == (400, "VALIDATION_FAILED")
    assert "observation: exceeds 10 bytes" in reply.error["message"]
    await api.operate("PATCH", f"/organizations/{organization}", {"plan": {"payloadBytes": 11}})
    assert (await api.call("POST", "/claims/k/release", release)).status == 200


@served
async def test_without_one_the_bound_is_that_of_every_payload(api: Api) -> None:
    run = await api.run()
    claim = {"key": "k", "scopeId": run, "holder": "h", "holderSession": "s"}
    token = (await api.call("POST", "/claims", claim))["token"]
    for size, status in ((65_535, 400), (65_534, 200)):
        reply = await api.call("POST", "/claims/k/release", {"token": token, "observation": "x" * size})
        assert reply.status == status
