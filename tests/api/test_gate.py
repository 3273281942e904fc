"""Who may ask, from confirmed state alone."""

from __future__ import annotations

import asyncio

import pytest

from api.call import Call
from api.gate import Gate
from api.nowhere import stand_in
from statemachine.declare import OPERATIONS, Access
from statemachine.entry import OPERATOR
from statemachine.errors import FORBIDDEN, IDEMPOTENCY_CONFLICT, UNAUTHENTICATED, Refused
from statemachine.keys import BY_HASH, KEYS
from tests.api.served import Api, served


def call_of(api: Api, actor: bytes, key: str | None = None, body: bytes = b"{}") -> Call:
    now = asyncio.get_running_loop().time()
    call = Call("req_1", "POST", f"/v1/spaces/{api.space}/scopes", "", key, None, now, now + 8)
    call.actor, call.space, call.body = actor, api.space, body
    return call


def actor_of(api: Api) -> bytes:
    (key,) = [row for row in api.replica.machine.store.rows(KEYS)._records.values() if row.space == api.space]
    assert api.replica.machine.store.rows(KEYS).find(BY_HASH, key.hash) is key
    return bytes(key.hash)


async def refusal(api: Api, call: Call, access: Access = Access.SPACE) -> object:
    try:
        await Gate(api.replica).require(call, stand_in(access))
    except Refused as refused:
        return refused.error
    return None


@served
async def test_a_key_is_known_or_is_not(api: Api) -> None:
    gate, create, spaces = Gate(api.replica), OPERATIONS["scopes.create"], OPERATIONS["spaces.create"]
    actor = actor_of(api)
    assert gate.is_known(call_of(api, actor), create)
    assert not gate.is_known(call_of(api, b"x" * 32), create)
    assert not gate.is_known(call_of(api, OPERATOR), create)
    assert gate.is_known(call_of(api, OPERATOR), spaces)
    assert not gate.is_known(call_of(api, actor), spaces)


@served
async def test_it_asks_the_cluster_before_it_judges(api: Api) -> None:
    reads = api.replica.reads
    call = call_of(api, b"x" * 32)
    assert await refusal(api, call) is UNAUTHENTICATED
    assert (api.replica.reads, call.read_index) == (reads + 1, api.replica.machine.index)
    assert await refusal(api, call_of(api, actor_of(api))) is None
    assert await refusal(api, call_of(api, actor_of(api)), Access.OPERATOR) is FORBIDDEN


@served
async def test_the_kept_answer_comes_before_permission_and_validity(api: Api) -> None:
    body = b'{"name":"x"}'
    first = await api.call("POST", "/scopes", body, idempotency_key="i")
    gate, create = Gate(api.replica), OPERATIONS["scopes.create"]
    kept = await gate.admit(call_of(api, actor_of(api), "i", body), create)
    assert kept is not None
    assert (kept.status, kept.body, kept.replayed) == (201, first.content, True)
    assert await gate.admit(call_of(api, actor_of(api), "other", body), create) is None
    with pytest.raises(Refused) as refused:
        await gate.admit(call_of(api, actor_of(api), "i", b"{}"), create)
    assert refused.value.error is IDEMPOTENCY_CONFLICT
