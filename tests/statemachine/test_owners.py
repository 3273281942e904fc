"""What an owner may do with its key: renew, release, lose it by force; who may look."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from statemachine.owners import OBSERVATION_TOLD_BYTES_MAX, ListClaims
from tests.statemachine.driver import Driver, Result

KEY = "company:acme"


@pytest.fixture
def run(driver: Driver) -> str:
    return str(driver.do("scopes.create")["id"])


def acquire(driver: Driver, run: str, holder: str = "ann", key: str = KEY, **more: Any) -> Result:
    return driver.do("claims.acquire", key=key, scope_id=run, holder=holder, holder_session="s1", **more)


def row(driver: Driver, run: str, key: str = KEY) -> dict[str, Any]:
    (found,) = driver.ask("claims.list", scope_id=run, key=key)["claims"]
    return dict(found)


def told(driver: Driver, type_: str) -> list[dict[str, Any]]:
    events = driver.ask("events.list", limit=1000)["events"]
    return [event["payload"] for event in events if event["type"] == type_]


# ---------------------------------------------------------------------- renewing


def test_a_renewal_keeps_the_key(driver: Driver, run: str) -> None:
    claim = acquire(driver, run, lease_seconds=10)
    renewed = driver.do("claims.renew", key=KEY, token=claim["token"], advance_ms=9_999)
    assert renewed.status == 200
    assert renewed.body == {"leaseExpiresAt": "2026-01-01T00:00:19.999Z", "generation": 1}
    assert acquire(driver, run, "bob", advance_ms=9_999).code == "CLAIM_HELD"


@pytest.mark.parametrize(("seconds", "expected"), [(None, "00:00:11"), (60, "00:01:01"), (1, "00:00:02")])
def test_a_renewal_lasts_as_long_as_asked(driver: Driver, run: str, seconds: int | None, expected: str) -> None:
    token = acquire(driver, run, lease_seconds=10)["token"]
    renewed = driver.do("claims.renew", key=KEY, token=token, lease_seconds=seconds, advance_ms=1_000)
    assert renewed["leaseExpiresAt"] == f"2026-01-01T{expected}.000Z"


def test_renewals_have_no_events(driver: Driver, run: str) -> None:
    token = acquire(driver, run)["token"]
    before = len(driver.ask("events.list", limit=1000)["events"])
    driver.do("claims.renew", key=KEY, token=token)
    assert len(driver.ask("events.list", limit=1000)["events"]) == before


def test_an_owner_may_not_renew_for_ever(driver: Driver) -> None:
    driver.space = driver.new_space("short", max_hold_seconds=60)
    driver.actor = driver.key("short", "work", "read")
    run = str(driver.do("scopes.create")["id"])
    token = acquire(driver, run, lease_seconds=30)["token"]
    for _ in range(2):
        assert driver.do("claims.renew", key=KEY, token=token, advance_ms=29_000).status == 200
    refused = driver.do("claims.renew", key=KEY, token=token, advance_ms=2_000)
    assert (refused.status, refused.code) == (409, "LEASE_RENEWALS_EXHAUSTED")
    assert driver.do("claims.release", key=KEY, token=token).status == 200


@pytest.mark.parametrize("ending", ["scopes.cancel", "scopes.complete"])
def test_an_ended_run_refuses_renewals_and_takes_keys_back(driver: Driver, run: str, ending: str) -> None:
    token = acquire(driver, run)["token"]
    driver.do(ending, scope_id=run)
    assert driver.do("claims.renew", key=KEY, token=token).code == "SCOPE_CANCELLED"
    assert driver.ask("claims.verify", key=KEY, token=token)["valid"]
    assert driver.do("claims.release", key=KEY, token=token).body == {"released": True}


def test_a_lost_token_comes_before_an_ended_run(driver: Driver, run: str) -> None:
    token = acquire(driver, run, lease_seconds=1)["token"]
    driver.do("scopes.cancel", scope_id=run, advance_ms=1_000)
    assert driver.do("claims.renew", key=KEY, token=token).code == "STALE_CLAIM"


# ---------------------------------------------------------------------- releasing


def test_a_released_key_is_free_at_once(driver: Driver, run: str) -> None:
    token = acquire(driver, run)["token"]
    released = driver.do("claims.release", key=KEY, token=token)
    assert (released.status, released.body) == (200, {"released": True})
    assert acquire(driver, run, "bob")["generation"] == 2


def test_a_repeated_release_is_answered_until_the_next_owner(driver: Driver, run: str) -> None:
    token = acquire(driver, run)["token"]
    for observation in ({"a": 1}, {"a": 1}):
        assert driver.do("claims.release", key=KEY, token=token, observation=observation).status == 200
    assert not driver.applied.touched
    assert driver.do("claims.release", key=KEY, token=token, observation={"a": 2}).code == "STALE_CLAIM"
    assert driver.do("claims.release", key=KEY, token=token).code == "STALE_CLAIM"
    assert driver.do("claims.renew", key=KEY, token=token).code == "STALE_CLAIM"
    acquire(driver, run, "bob")
    assert driver.do("claims.release", key=KEY, token=token, observation={"a": 1}).code == "STALE_CLAIM"


def test_a_release_is_no_repeat_of_somebody_elses(driver: Driver, run: str) -> None:
    tokens = [acquire(driver, run, "ann")["token"]]
    driver.do("claims.release", key=KEY, token=tokens[0])
    tokens.append(acquire(driver, run, "bob")["token"])
    driver.do("claims.release", key=KEY, token=tokens[1])
    assert [driver.do("claims.release", key=KEY, token=token).code for token in tokens] == ["STALE_CLAIM", ""]


def test_null_and_no_observation_are_the_same(driver: Driver, run: str) -> None:
    token = acquire(driver, run)["token"]
    assert driver.do("claims.release", key=KEY, token=token, observation=None).status == 200
    assert driver.do("claims.release", key=KEY, token=token).status == 200
    assert "observation" not in row(driver, run)


def test_an_observation_stays_until_the_next_release(driver: Driver, run: str) -> None:
    driver.do("claims.release", key=KEY, token=acquire(driver, run)["token"], observation={"page": 3})
    assert row(driver, run)["observation"] == {"page": 3}
    assert told(driver, "claim.released")[-1]["observation"] == {"page": 3}
    acquire(driver, run, "bob", lease_seconds=1)
    driver.apply(advance_ms=1_000)
    assert row(driver, run)["state"] == "LAPSED"
    assert row(driver, run)["observation"] == {"page": 3}
    driver.do("claims.release", key=KEY, token=acquire(driver, run, "cem")["token"])
    assert "observation" not in row(driver, run)


def test_numbers_of_an_observation_keep_their_spelling(driver: Driver, run: str) -> None:
    token = acquire(driver, run)["token"]
    raw = b'{"key":"%b","token":"%b","observation":{"n":1.50,"big":123456789012345678901234567890}}'
    driver.do("claims.release", raw=raw % (KEY.encode(), token.encode()))
    kept = (
        driver.first.answer("claims.list", ListClaims(scope_id=run, key=KEY), driver.space, driver.actor)
        .claims[0]
        .observation
    )
    assert bytes(kept) == b'{"n":1.50,"big":123456789012345678901234567890}'


@pytest.mark.parametrize("length", [OBSERVATION_TOLD_BYTES_MAX - 2, OBSERVATION_TOLD_BYTES_MAX - 1])
def test_a_long_observation_is_kept_and_its_size_told(driver: Driver, run: str, length: int) -> None:
    text = "x" * length
    driver.do("claims.release", key=KEY, token=acquire(driver, run)["token"], observation=text)
    assert row(driver, run)["observation"] == text
    (payload,) = told(driver, "claim.released")
    if length + 2 <= OBSERVATION_TOLD_BYTES_MAX:
        assert payload["observation"] == text
    else:
        assert payload["observationBytes"] == length + 2
        assert "observation" not in payload


def test_tokens_open_nothing_but_their_own_key(driver: Driver, run: str) -> None:
    one, two = acquire(driver, run, key="one"), acquire(driver, run, key="two")
    wrong = [one["token"], two["token"][:-1], f"{run}.1.{'0' * 32}", "x", "scp_unheard.1.00", run]
    for token in wrong:
        for call in ("claims.renew", "claims.release"):
            refused = driver.do(call, key="two", token=token)
            assert (refused.status, refused.code) == (409, "STALE_CLAIM")
        assert driver.ask("claims.verify", key="two", token=token).body == {"valid": False}
    assert driver.ask("claims.verify", key="two", token=two["token"])["valid"]


def test_a_full_space_takes_keys_back(driver: Driver) -> None:
    driver.space = driver.new_space("small", max_records=3)  # the key, the run, one claim
    driver.actor = driver.key("small", "work", "read")
    run = str(driver.do("scopes.create")["id"])
    token = acquire(driver, run)["token"]
    assert acquire(driver, run, key="more").code == "RESOURCE_EXHAUSTED"
    assert driver.do("claims.renew", key=KEY, token=token).status == 200
    assert driver.do("claims.release", key=KEY, token=token, observation="x" * 1000).status == 200


# ---------------------------------------------------------------------- by force


@pytest.fixture
def admin(driver: Driver) -> bytes:
    return driver.key("boss", "admin")


def test_a_revoked_token_is_stale(driver: Driver, run: str, admin: bytes) -> None:
    token = acquire(driver, run)["token"]
    revoked = driver.do("claims.revoke", actor=admin, key=KEY, scope_id=run, reason="stuck")
    assert (revoked.status, revoked.body) == (200, {"revoked": True})
    for call in ("claims.renew", "claims.release"):
        assert driver.do(call, key=KEY, token=token).code == "STALE_CLAIM"
    assert told(driver, "claim.revoked")[0]["reason"] == "stuck"
    assert row(driver, run)["state"] == "REVOKED"
    assert acquire(driver, run, "bob")["generation"] == 2


def test_only_an_admin_revokes(driver: Driver, run: str) -> None:
    acquire(driver, run)
    assert driver.do("claims.revoke", key=KEY, scope_id=run).code == "FORBIDDEN"


def test_only_the_owner_that_was_meant_is_revoked(driver: Driver, run: str, admin: bytes) -> None:
    driver.do("claims.release", key=KEY, token=acquire(driver, run)["token"])
    acquire(driver, run, "bob")
    refused = driver.do("claims.revoke", actor=admin, key=KEY, scope_id=run, generation=1)
    assert (refused.code, refused.details) == ("CONFLICT", {"generation": 2, "holder": "bob"})
    assert driver.do("claims.revoke", actor=admin, key=KEY, scope_id=run, generation=2).status == 200


@pytest.mark.parametrize("before", ["never", "released", "lapsed", "revoked"])
def test_what_nobody_owns_cannot_be_revoked(driver: Driver, run: str, admin: bytes, before: str) -> None:
    if before != "never":
        token = acquire(driver, run, lease_seconds=1)["token"]
        if before == "released":
            driver.do("claims.release", key=KEY, token=token)
        elif before == "revoked":
            driver.do("claims.revoke", actor=admin, key=KEY, scope_id=run)
        driver.advance(1_000)
    assert driver.do("claims.revoke", actor=admin, key=KEY, scope_id=run).code == "CONFLICT"


def test_a_key_of_an_ended_run_can_be_revoked(driver: Driver, run: str, admin: bytes) -> None:
    acquire(driver, run)
    driver.do("scopes.cancel", scope_id=run)
    assert driver.do("claims.revoke", actor=admin, key=KEY, scope_id=run).status == 200
    assert driver.do("claims.revoke", actor=admin, key=KEY, scope_id="scp_unheard").code == "NOT_FOUND"


# ---------------------------------------------------------------------- looking


def test_a_row_says_who_owns_what_and_no_token(driver: Driver, run: str) -> None:
    claim = acquire(driver, run, lease_seconds=10)
    acquire(driver, run, "bob", wait_ms=30_000)
    assert row(driver, run) == {
        "claimId": claim["claimId"],
        "key": KEY,
        "scopeId": run,
        "state": "HELD",
        "holder": "ann",
        "holderSession": "s1",
        "generation": 1,
        "acquiredAt": "2026-01-01T00:00:00.000Z",
        "leaseExpiresAt": "2026-01-01T00:00:10.000Z",
        "waiting": 1,
    }


def test_the_list_has_the_owned_keys_of_one_run_oldest_first_in_pages(driver: Driver, run: str) -> None:
    keys = ["m", "b", "z", "a", "k"]
    tokens = {key: acquire(driver, run, key=key)["token"] for key in keys}
    acquire(driver, str(driver.do("scopes.create", parent_id=run)["id"]), key="below")
    driver.do("claims.release", key="z", token=tokens["z"])
    found: list[str] = []
    cursor = None
    for _ in range(3):
        page = driver.ask("claims.list", scope_id=run, limit=2, cursor=cursor)
        found += [row["key"] for row in page["claims"]]
        cursor = page["nextCursor"]
        if cursor is None:
            break
        driver.do("claims.release", key=found[-1], token=tokens[found[-1]])
    assert (found, cursor) == (["m", "b", "a", "k"], None)


def test_an_unknown_key_has_no_row_and_an_unknown_run_is_not_found(driver: Driver, run: str) -> None:
    assert driver.ask("claims.list", scope_id=run, key="unheard").body == {"claims": [], "nextCursor": None}
    assert driver.ask("claims.list", scope_id="scp_unheard").code == "NOT_FOUND"


def test_readers_may_look_and_verify(driver: Driver, run: str) -> None:
    token = acquire(driver, run)["token"]
    reader = driver.key("reader", "read")
    assert driver.ask("claims.list", actor=reader, scope_id=run).status == 200
    assert driver.ask("claims.verify", actor=reader, key=KEY, token=token)["generation"] == 1
    assert driver.do("claims.renew", actor=reader, key=KEY, token=token).code == "FORBIDDEN"
    assert msgspec.json.encode(driver.ask("claims.list", scope_id=run).body).find(token.encode()) == -1
