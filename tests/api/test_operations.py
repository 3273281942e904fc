"""The way of a write: once, in order, and never an answer that says more than is known."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
import pytest

from api import operations
from statemachine.entry import decode_operation
from tests.api.served import Api, Reply, served

CLAIM = {"key": "k", "holder": "h", "holderSession": "s"}


@contextmanager
def held_for(monkeypatch: pytest.MonkeyPatch, seconds: float) -> Iterator[None]:
    """Let requests wait for a leader as long as this instead of 8 s."""
    with monkeypatch.context() as patch:
        patch.setattr("api.front.HOLD_SECONDS", seconds)
        patch.setattr(operations, "HOLD_SECONDS", seconds)
        yield


async def eventually(true: Any) -> None:
    async with asyncio.timeout(10):
        while not true():
            await asyncio.sleep(0.001)


@served
async def test_an_operation_carries_what_its_request_said(api: Api) -> None:
    run = await api.run()
    api.replica.lease_ms = 5_000
    await api.call("POST", "/claims/a%2Fb/release", {"token": "t", "observation": {"n": 1.0}}, idempotency_key="i")
    (command,) = map(decode_operation, api.replica.entries[-1])
    assert (command.name, command.space, len(command.actor)) == ("claims.release", api.space, 32)
    assert command.arguments == b'{"key":"a/b","token":"t","observation":{"n":1.0}}'
    assert command.deadline_ms == 15_000
    assert command.idempotency is not None
    assert (command.idempotency[0], len(command.idempotency[1])) == ("i", 16)
    assert run


@served
async def test_a_node_that_does_not_know_lease_time_yet_asks_again(api: Api) -> None:
    api.replica.machine.lease_now_ms = 60_000
    run = await api.run()
    assert [decode_operation(data).deadline_ms for data in api.replica.entries[-1]] == [70_000]
    real, stale = api.replica.propose, api.replica.machine.lease_now_ms

    async def behind(operation: bytes, **options: Any) -> Any:
        api.replica.machine.lease_now_ms = stale + 60_000  # what a node learns while it catches up
        api.replica.propose = real  # type: ignore[method-assign]
        return await real(operation, **options)

    api.replica.propose = behind  # type: ignore[method-assign]
    granted = await api.call("POST", "/claims", {**CLAIM, "scopeId": run}, idempotency_key="i")
    assert granted["generation"] == 1
    expired, fresh = (decode_operation(entry[0]).deadline_ms for entry in api.replica.entries[-2:])
    assert (expired, fresh) == (70_000, 130_000)


@served
async def test_requests_of_one_turn_share_an_entry_with_hand_backs_first(api: Api) -> None:
    run = await api.run()
    claim = await api.call("POST", "/claims", {**CLAIM, "key": "first", "scopeId": run})
    operations_ = [
        {"method": "POST", "path": "/claims", "body": {**CLAIM, "scopeId": run}},
        {"method": "POST", "path": "/claims/first/renew", "body": {"token": claim["token"]}},
    ]
    await api.call("POST", "/batch", {"operations": operations_})
    assert [decode_operation(data).name for data in api.replica.entries[-1]] == ["claims.renew", "claims.acquire"]


# ---------------------------------------------------------------------- idempotency


@served
async def test_a_repeat_gets_the_first_answer(api: Api) -> None:
    run = await api.run()
    body = {**CLAIM, "scopeId": run}
    first = await api.call("POST", "/claims", body, idempotency_key="i")
    again = await api.call("POST", "/claims", body, idempotency_key="i")
    assert "Idempotency-Replayed" not in first.headers
    assert again.headers["Idempotency-Replayed"] == "true"
    assert (again.status, again.content) == (201, first.content)
    assert again.headers["X-Raft-Index"] == first.headers["X-Raft-Index"]
    other = await api.call("POST", "/claims", {**body, "key": "other"}, idempotency_key="i")
    assert (other.status, other.code) == (409, "IDEMPOTENCY_CONFLICT")
    spaces = await api.call("POST", "/claims", b" " + first.content, idempotency_key="i")
    assert spaces.code == "IDEMPOTENCY_CONFLICT", "the record is looked up before the body is validated"


@served
async def test_a_repeat_waits_for_the_first(api: Api) -> None:
    run = await api.run()
    body = {**CLAIM, "scopeId": run}
    replies = await asyncio.gather(*[api.call("POST", "/claims", body, idempotency_key="i") for _ in range(8)])
    assert {reply.status for reply in replies} == {201}
    assert len({reply.content for reply in replies}) == 1
    assert sum("Idempotency-Replayed" not in reply.headers for reply in replies) == 1
    assert sum(decode_operation(data).name == "claims.acquire" for data in api.replica.entries[-1]) == 1
    assert not api.server.endpoints[0]._writes.in_flight._all  # type: ignore[attr-defined]


@served
async def test_a_repeat_after_a_refusal_runs_for_itself(api: Api) -> None:
    run = await api.run()
    claim = await api.call("POST", "/claims", {**CLAIM, "scopeId": run})
    body = {**CLAIM, "scopeId": run, "holder": "other"}
    refused = await asyncio.gather(*[api.call("POST", "/claims", body, idempotency_key="i") for _ in range(3)])
    assert {reply.code for reply in refused} == {"CLAIM_HELD"}
    await api.call("POST", "/claims/k/release", {"token": claim["token"]})
    assert (await api.call("POST", "/claims", body, idempotency_key="i")).status == 201


@served
async def test_keys_of_two_spaces_have_nothing_to_do_with_each_other(api: Api) -> None:
    other = await api.make_space()
    key = await api.make_key(space=other)
    one = await api.call("POST", "/scopes", {"name": "one"}, idempotency_key="i")
    two = await api.request("POST", f"/v1/spaces/{other}/scopes", {"name": "two"}, key=key, idempotency_key="i")
    assert (one.status, two.status) == (201, 201)


# ---------------------------------------------------------------------- without a leader


@served
async def test_a_request_waits_for_a_leader(api: Api) -> None:
    run = await api.run()
    api.replica.led = False
    write = asyncio.create_task(api.call("POST", "/claims", {**CLAIM, "scopeId": run}))
    read = asyncio.create_task(api.call("GET", f"/scopes/{run}"))
    await eventually(lambda: api.server.front.in_flight == 2)
    api.replica.led = True
    assert (await write).status == 201
    assert (await read).status == 200


@served
async def test_it_gives_up_when_there_is_none_for_too_long(api: Api) -> None:
    run = await api.run()
    api.replica.led = False
    with held_for(pytest.MonkeyPatch(), 0.05):
        for reply in await asyncio.gather(
            api.call("POST", "/claims", {**CLAIM, "scopeId": run}),
            api.call("GET", f"/scopes/{run}"),
            api.call("POST", "/claims", {}),
            api.call("GET", "/nowhere"),
            api.call("GET", f"/once?scopeId={run}&key=k&waitMs=20"),
        ):
            assert (reply.status, reply.code) == (503, "UNAVAILABLE"), reply
            assert "nothing was changed" in reply.error["message"]
            assert float(reply.headers["Retry-After"]) > 0


@served
async def test_an_unknown_outcome_is_only_told_to_who_can_repeat(api: Api) -> None:
    run = await api.run()
    claim = await api.call("POST", "/claims", {**CLAIM, "key": "held", "scopeId": run})
    api.replica.losing = True
    with held_for(pytest.MonkeyPatch(), 0.05):
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await api.call("POST", "/claims", {**CLAIM, "key": "bare", "scopeId": run})
        keyed = await api.call("POST", "/claims", {**CLAIM, "scopeId": run}, idempotency_key="i")
        assert (keyed.status, keyed.code) == (503, "UNAVAILABLE")
        assert "same idempotency key" in keyed.error["message"]
        renewed = await api.call("POST", "/claims/held/renew", {"token": claim["token"]})
        assert (renewed.status, renewed.code) == (503, "UNAVAILABLE"), "a renewal is repeatable by nature"
    api.replica.losing = False
    settled = await api.call("POST", "/claims", {**CLAIM, "scopeId": run}, idempotency_key="i")
    assert (settled.status, settled.headers["Idempotency-Replayed"]) == (201, "true")


# ---------------------------------------------------------------------- look-ups


@served
async def test_a_put_of_what_exists_makes_no_entry(api: Api) -> None:
    made = await api.call("PUT", "/runs/r", {})
    index = api.replica.machine.index
    again = await api.call("PUT", "/runs/r", {})
    assert (made.status, again.status) == (201, 200)
    assert again.content == made.content
    assert api.replica.machine.index == index
    assert again.headers["X-Raft-Index"] == f"{index}/0"
    reader = await api.make_key("read")
    assert (await api.call("PUT", "/runs/r", {}, key=reader)).status == 200
    assert (await api.call("PUT", "/runs/other", {}, key=reader)).code == "FORBIDDEN"


# ---------------------------------------------------------------------- standing in line


def waiting(api: Api, run: str, holder: str, wait_ms: int = 20_000, **options: Any) -> asyncio.Task[Reply]:
    body = {**CLAIM, "scopeId": run, "holder": holder, "waitMs": wait_ms}
    return asyncio.create_task(api.call("POST", "/claims", body, **options))


@served
async def test_a_request_stands_in_line_until_its_turn(api: Api) -> None:
    run = await api.run()
    claim = await api.call("POST", "/claims", {**CLAIM, "scopeId": run})
    first = waiting(api, run, "first")
    await eventually(lambda: len(api.server._hub) == 1)
    second = waiting(api, run, "second")
    await eventually(lambda: len(api.server._hub) == 2)
    index = api.replica.machine.index
    await asyncio.sleep(0.02)
    assert api.replica.machine.index == index, "who waits costs the log nothing"
    assert (await api.call("POST", "/claims/k/release", {"token": claim["token"]})).status == 200
    granted = await first
    assert (granted.status, granted["generation"]) == (201, 2)
    assert not second.done()
    await api.call("POST", "/claims/k/release", {"token": granted["token"]})
    assert (await second)["generation"] == 3
    assert len(api.server._hub) == 0


@served
async def test_a_place_whose_time_is_up_is_given_up(api: Api) -> None:
    run = await api.run()
    await api.call("POST", "/claims", {**CLAIM, "scopeId": run})
    reply = await waiting(api, run, "late", wait_ms=30)
    assert (reply.status, reply.code) == (409, "CLAIM_HELD")
    assert reply.error["details"]["holder"] == "h"
    assert not api.replica.machine.store.dump()["waiters"]


@served
async def test_a_place_whose_client_has_gone_is_given_up_and_takes_nothing(api: Api) -> None:
    run = await api.run()
    claim = await api.call("POST", "/claims", {**CLAIM, "scopeId": run})
    gone = waiting(api, run, "gone")
    await eventually(lambda: len(api.server._hub) == 1)
    gone.cancel()
    await eventually(lambda: not api.replica.machine.store.dump()["waiters"])
    await api.call("POST", "/claims/k/release", {"token": claim["token"]})
    assert (await api.call("POST", "/claims", {**CLAIM, "scopeId": run}))["generation"] == 2


@served
async def test_a_client_that_comes_back_with_its_key_keeps_its_place(api: Api) -> None:
    run = await api.run()
    claim = await api.call("POST", "/claims", {**CLAIM, "scopeId": run})
    first = waiting(api, run, "first", idempotency_key="i")
    await eventually(lambda: len(api.server._hub) == 1)
    second = waiting(api, run, "second")
    await eventually(lambda: len(api.server._hub) == 2)
    first.cancel()
    await asyncio.sleep(0.01)
    again = waiting(api, run, "first", idempotency_key="i")
    await eventually(lambda: api.server.front.in_flight == 3)
    await api.call("POST", "/claims/k/release", {"token": claim["token"]})
    granted = await again
    assert (granted.status, granted["generation"]) == (201, 2)
    await api.call("POST", "/claims/k/release", {"token": granted["token"]})
    assert (await second)["generation"] == 3


@served
async def test_with_a_key_that_nobody_comes_back_with_the_place_goes_too(api: Api) -> None:
    run = await api.run()
    await api.call("POST", "/claims", {**CLAIM, "scopeId": run})
    first = waiting(api, run, "first", idempotency_key="i")
    await eventually(lambda: len(api.server._hub) == 1)
    first.cancel()
    await eventually(lambda: not api.replica.machine.store.dump()["waiters"])


@served
async def test_a_place_in_the_line_of_a_run_that_ends(api: Api) -> None:
    run = await api.run()
    await api.call("POST", "/claims", {**CLAIM, "scopeId": run})
    waiter = waiting(api, run, "first")
    await eventually(lambda: len(api.server._hub) == 1)
    await api.call("POST", f"/scopes/{run}/cancel")
    api.replica.advance(0)
    assert (await waiter).code == "SCOPE_CANCELLED"


@served
async def test_a_draining_node_lets_nobody_wait(api: Api) -> None:
    run = await api.run()
    await api.call("POST", "/claims", {**CLAIM, "scopeId": run})
    waiter = waiting(api, run, "first")
    await eventually(lambda: len(api.server._hub) == 1)
    api.server._hub.drain()
    assert (await waiter).code == "CLAIM_HELD"
    assert (await waiting(api, run, "second")).code == "CLAIM_HELD"


@served
async def test_nobody_waits_in_a_batch(api: Api) -> None:
    run = await api.run()
    item = {"method": "POST", "path": "/claims", "body": {**CLAIM, "scopeId": run, "waitMs": 1}}
    (result,) = (await api.call("POST", "/batch", {"operations": [item]}))["results"]
    assert result["status"] == 400
    assert "waitMs" in result["body"]["error"]["message"]
