"""The way of a read, and polls that wait for what they read to change."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.api.served import Api, Reply, served
from tests.api.test_operations import eventually

ONCE = {"key": "w", "holder": "h", "holderSession": "s"}


def poll(api: Api, run: str, wait_ms: int = 20_000) -> asyncio.Task[Reply]:
    return asyncio.create_task(api.call("GET", f"/once?scopeId={run}&key=w&waitMs={wait_ms}"))


async def held(api: Api) -> tuple[str, str]:
    """A run and the token of a once key that is being worked on."""
    run = await api.run()
    return run, (await api.call("POST", "/once/acquire", {**ONCE, "scopeId": run}))["token"]


@served
async def test_a_read_is_behind_a_read_index_and_makes_no_entry(api: Api) -> None:
    run = await api.run()
    index, reads = api.replica.machine.index, api.replica.reads
    reply = await api.call("GET", f"/scopes/{run}")
    assert reply.headers["X-Raft-Index"] == f"{index}/0"
    assert (api.replica.machine.index, api.replica.reads) == (index, reads + 1)


@served
async def test_a_read_by_post_takes_a_body_and_makes_no_entry(api: Api) -> None:
    run = await api.run()
    held = await api.call("POST", "/claims", {**ONCE, "key": "k", "scopeId": run})
    index = api.replica.machine.index
    reply = await api.call("POST", "/claims/k/verify", {"token": held["token"]})
    assert (reply["valid"], reply["generation"]) == (True, 1)
    assert reply.headers["X-Raft-Index"] == f"{index}/0"
    assert (await api.call("POST", "/claims/k/verify", {"token": "t"})).body == {"valid": False}
    for path, body, said in (
        ("/claims/k/verify", {}, "token: required"),
        ("/claims/k/verify", {"token": 1}, "token:"),
        ("/claims/k/verify", {"token": "t", "more": 1}, "more: unknown field"),
        ("/claims/k/verify?token=t", {"token": "t"}, "token: unknown query parameter"),
    ):
        refused = await api.call("POST", path, body)
        assert refused.code == "VALIDATION_FAILED"
        assert said in refused.error["message"]
    assert api.replica.machine.index == index


@served
async def test_a_poll_answers_with_the_entry_that_settles_it(api: Api) -> None:
    run, token = await held(api)
    polls = [poll(api, run) for _ in range(5)]
    await eventually(lambda: len(api.server._hub) == 5)
    index = api.replica.machine.index
    await api.call("POST", "/once/acquire", {**ONCE, "key": "other", "scopeId": run})
    assert not any(task.done() for task in polls)
    await api.call("POST", "/once/complete", {"scopeId": run, "key": "w", "token": token, "result": [1]})
    for task in polls:
        reply = await task
        assert (reply["state"], reply["result"]) == ("DONE", [1])
        assert int(reply.headers["X-Raft-Index"].partition("/")[0]) > index
    assert len(api.server._hub) == 0
    assert not api.server._hub._waiting


@served
async def test_a_poll_answers_the_present_state_when_its_time_is_up(api: Api) -> None:
    run, _ = await held(api)
    assert (await poll(api, run, 30))["state"] == "HELD"
    assert (await poll(api, run, 0))["state"] == "HELD"


@served
async def test_a_poll_of_what_is_settled_does_not_wait(api: Api) -> None:
    run = await api.run()
    assert (await poll(api, run))["state"] == "OPEN"


@served
async def test_a_poll_ends_when_there_can_be_no_answer_any_more(api: Api) -> None:
    run, _ = await held(api)
    task = poll(api, run)
    await eventually(lambda: len(api.server._hub) == 1)
    await api.call("POST", f"/scopes/{run}/cancel")
    assert (await task).status == 200


@served
async def test_a_lapse_ends_a_poll_with_no_client_asking(api: Api) -> None:
    run, _ = await held(api)
    task = poll(api, run)
    await eventually(lambda: len(api.server._hub) == 1)
    api.replica.advance(30_001)
    assert (await task)["state"] == "OPEN"


@served
async def test_a_poll_costs_the_log_nothing_and_outlives_its_leader(api: Api) -> None:
    run, token = await held(api)
    index, reads = api.replica.machine.index, api.replica.reads
    task = poll(api, run)
    await eventually(lambda: len(api.server._hub) == 1)
    api.replica.led = False
    await asyncio.sleep(0.01)
    api.replica.led = True
    assert api.replica.machine.index == index
    await api.call("POST", "/once/fail", {"scopeId": run, "key": "w", "token": token, "error": "e", "maxAttempts": 1})
    assert (await task)["state"] == "FAILED"
    assert api.replica.reads == reads + 1


@served
async def test_a_poll_whose_client_has_gone_is_forgotten(api: Api) -> None:
    run, _ = await held(api)
    task = poll(api, run)
    await eventually(lambda: len(api.server._hub) == 1)
    task.cancel()
    await eventually(lambda: len(api.server._hub) == 0)
    await eventually(lambda: api.server.front.in_flight == 0)


@served
async def test_a_draining_node_answers_polls_early(api: Api) -> None:
    run, _ = await held(api)
    task = poll(api, run)
    await eventually(lambda: len(api.server._hub) == 1)
    api.server._hub.drain()
    assert (await task)["state"] == "HELD"
    assert (await poll(api, run))["state"] == "HELD"


@served
async def test_a_key_that_is_revoked_ends_its_polls(api: Api) -> None:
    run, token = await held(api)
    keys = (await api.operate("GET", f"/spaces/{api.space}/keys"))["keys"]
    task = poll(api, run)
    await eventually(lambda: len(api.server._hub) == 1)
    other = await api.make_key()
    await api.operate("DELETE", f"/spaces/{api.space}/keys/{keys[0]['id']}")
    body = {"scopeId": run, "key": "w", "token": token, "result": 1}
    await api.call("POST", "/once/complete", body, key=other)
    assert (await task).status == 401


@served
async def test_a_watch_goes_on_where_it_was(api: Api) -> None:
    start = (await api.call("GET", "/watch?waitSeconds=0"))["nextCursor"]
    task = asyncio.create_task(api.call("GET", f"/watch?types=claim.acquired&cursor={start}&waitSeconds=20"))
    await eventually(lambda: len(api.server._hub) == 1)
    run = await api.run()
    for _ in range(3):
        await api.call("POST", "/scopes", {})
    assert not task.done()
    await api.call("POST", "/claims", {**ONCE, "scopeId": run})
    page = await task
    (event,) = page["events"]
    assert (event["type"], event["scopeId"]) == ("claim.acquired", run)
    empty = await api.call("GET", f"/watch?cursor={page['nextCursor']}&waitSeconds=0")
    assert (empty["events"], bool(empty["nextCursor"])) == ([], True)


@pytest.mark.parametrize("wait", [0, 1, 30_000, 30_001, 2**63, 10**40])
@served
async def test_any_wait_is_taken(api: Api, wait: int) -> None:
    run = await api.run()
    assert (await poll(api, run, wait)).status == 200


@served
async def test_thousands_of_idle_polls_are_cheap(api: Api) -> None:
    run, token = await held(api)
    tasks = [poll(api, run) for _ in range(500)]
    async with asyncio.timeout(60):
        while len(api.server._hub) < 500:
            await asyncio.sleep(0.01)
    assert len(api.server._hub._waiting) == 2  # the key, and its run
    await api.call("POST", "/once/complete", {"scopeId": run, "key": "w", "token": token, "result": None})
    replies: list[Any] = await asyncio.gather(*tasks)
    assert {reply["state"] for reply in replies} == {"DONE"}
