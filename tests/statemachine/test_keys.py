"""API keys: made, listed, revoked, expired; who may, and what is never shown."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from typing import Any

import pytest

from statemachine.declare import OPERATIONS
from statemachine.entry import OPERATOR
from statemachine.keys import EXPIRED_KEPT_MS
from statemachine.types import time_text
from tests.statemachine.driver import Driver, Result

DAY_MS = 86_400_000


def digest(secret: str) -> bytes:
    return sha256(secret.encode()).digest()


def make(driver: Driver, secret: str, /, **arguments: Any) -> Result:
    """As the node does it: the hash of the secret beside what the caller sent."""
    name = "spaces.create-key" if "space_id" in arguments else "keys.create"
    return driver.do(name, hash=b64encode(digest(secret)).decode(), **arguments)


@pytest.fixture
def admin(driver: Driver) -> bytes:
    return driver.key("admin", "admin")


def test_a_key_as_it_is_answered(driver: Driver) -> None:
    expires = time_text(driver.wall_ms + DAY_MS)
    made = make(driver, "s1", space_id=driver.space, name="ci", permissions=["work", "read"], expires_at=expires)
    assert made.status == 201
    assert made.body == {
        "id": made["id"],
        "spaceId": driver.space,
        "name": "ci",
        "permissions": ["read", "work"],
        "expiresAt": expires,
        "createdAt": "2026-01-01T00:00:00.000Z",
    }
    assert made["id"].startswith("key_")


def test_the_default_key(driver: Driver) -> None:
    made = make(driver, "s1", space_id=driver.space)
    assert (made["name"], made["permissions"], made["expiresAt"]) == (None, ["read", "resource_config", "work"], None)
    assert driver.do("scopes.create", actor=digest("s1")).status == 201


def test_the_hash_is_the_nodes_to_fill_in(driver: Driver) -> None:
    for name in ("keys.create", "spaces.create-key"):
        assert OPERATIONS[name].front_fields == ("hash",)
        assert "key" in OPERATIONS[name].answer.__struct_fields__
    with driver.expecting_defects():
        assert driver.do("spaces.create-key", space_id=driver.space).code == "INTERNAL"


def test_nothing_shows_a_hash(driver: Driver, admin: bytes) -> None:
    made = make(driver, "s1", actor=admin)
    spelled = b64encode(digest("s1")).decode()
    shown = [
        made,
        driver.ask("keys.list", actor=admin),
        driver.ask("spaces.list-keys", space_id=driver.space),
        driver.ask("audit.list"),
        driver.ask("events.list"),
        driver.ask("whoami", actor=digest("s1")),
    ]
    assert all(spelled not in str(result.body) and digest("s1").hex() not in str(result.body) for result in shown)


def test_a_secret_is_used_once(driver: Driver, admin: bytes) -> None:
    make(driver, "s1", actor=admin)
    assert make(driver, "s1", actor=admin).code == "CONFLICT"


def test_a_replay_is_the_first_answer(driver: Driver, admin: bytes) -> None:
    keyed = {"actor": admin, "idempotency": ("k", b"same request")}
    made = make(driver, "s1", **keyed)
    again = make(driver, "s2", **keyed)
    assert again.replayed
    assert again.body == made.body
    assert "key" not in again
    assert driver.do("scopes.create", actor=digest("s2")).code == "UNAUTHENTICATED"


def test_a_revoked_key_is_unknown_from_that_entry_on(driver: Driver, admin: bytes) -> None:
    key_id = make(driver, "s1", actor=admin)["id"]
    results = driver.apply(
        [
            driver.operation("scopes.create", actor=digest("s1")),
            driver.operation("keys.revoke", actor=admin, key_id=key_id),
            driver.operation("scopes.create", actor=digest("s1")),
        ]
    )
    assert [result.status for result in results] == [201, 200, 401]
    assert results[1].body == {"id": key_id, "revoked": True}
    assert driver.ask("scopes.list", actor=digest("s1")).code == "UNAUTHENTICATED"
    assert driver.do("keys.revoke", actor=admin, key_id=key_id).code == "NOT_FOUND"


def test_a_key_expires_by_wall_time(driver: Driver, admin: bytes) -> None:
    make(driver, "s1", actor=admin, expires_at=time_text(driver.wall_ms + 1000))
    assert driver.do("scopes.create", actor=digest("s1"), advance_ms=999).status == 201
    assert driver.do("scopes.create", actor=digest("s1"), advance_ms=1).code == "UNAUTHENTICATED"
    assert driver.ask("whoami", actor=digest("s1")).code == "UNAUTHENTICATED"


def test_an_expired_key_is_listed_for_a_while(driver: Driver) -> None:
    make(driver, "s1", space_id=driver.space, expires_at=time_text(driver.wall_ms + 1000))
    driver.apply(advance_ms=999 + EXPIRED_KEPT_MS)
    assert len(driver.ask("spaces.list-keys", space_id=driver.space)["keys"]) == 2
    driver.apply(advance_ms=1)
    assert len(driver.ask("spaces.list-keys", space_id=driver.space)["keys"]) == 1


@pytest.mark.parametrize("ms", [0, -1])
def test_a_key_that_is_born_expired(driver: Driver, admin: bytes, ms: int) -> None:
    refused = make(driver, "s1", actor=admin, expires_at=time_text(driver.wall_ms + ms))
    assert refused.code == "VALIDATION_FAILED"
    assert "expiresAt" in refused.message


# ---------------------------------------------------------------------- who may


def test_an_admin_key_rules_its_own_space_alone(driver: Driver, admin: bytes) -> None:
    made = make(driver, "s1", actor=admin, permissions=["admin"])
    assert made["permissions"] == ["admin"]
    other = driver.do("spaces.create", name="other")["id"]
    theirs = make(driver, "s2", space_id=other)["id"]
    assert driver.do("keys.revoke", actor=admin, key_id=theirs).code == "NOT_FOUND"
    assert [row["id"] for row in driver.ask("spaces.list-keys", space_id=other)["keys"]] == [theirs]
    assert theirs not in [row["id"] for row in driver.ask("keys.list", actor=admin)["keys"]]
    assert make(driver, "s3", actor=admin, space=other).code == "FORBIDDEN"
    assert driver.do("spaces.revoke-key", space_id=driver.space, key_id=theirs).code == "NOT_FOUND"
    assert driver.do("spaces.revoke-key", space_id=other, key_id=theirs)["revoked"] is True


def test_others_may_not(driver: Driver) -> None:
    everything_else = driver.key("plain", "work", "resource_config", "read")
    key_id = driver.ask("whoami", actor=everything_else)["keyId"]
    assert make(driver, "s1", actor=everything_else).code == "FORBIDDEN"
    assert driver.ask("keys.list", actor=everything_else).code == "FORBIDDEN"
    assert driver.do("keys.revoke", actor=everything_else, key_id=key_id).code == "FORBIDDEN"
    admin = driver.key("admin", "admin")
    assert make(driver, "s1", space_id=driver.space, actor=admin).code == "FORBIDDEN"
    assert make(driver, "s1", actor=OPERATOR).code == "UNAUTHENTICATED"


def test_an_unknown_space(driver: Driver) -> None:
    assert make(driver, "s1", space_id="spc_none").code == "NOT_FOUND"
    assert driver.ask("spaces.list-keys", space_id="spc_none").code == "NOT_FOUND"
    assert driver.do("spaces.revoke-key", space_id="spc_none", key_id="key_x").code == "NOT_FOUND"


def test_a_space_has_a_bounded_number_of_keys(driver: Driver, admin: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("statemachine.keys.KEYS_MAX", 3)
    assert make(driver, "s1", actor=admin).status == 201
    assert make(driver, "s2", actor=admin).code == "RESOURCE_EXHAUSTED"


def test_a_full_space_can_still_revoke(driver: Driver) -> None:
    space = driver.do("spaces.create", name="small", settings={"maxRecords": 1})["id"]
    admin = driver.key("small", "admin", space=space)
    key_id = driver.ask("whoami", actor=admin)["keyId"]
    assert make(driver, "s1", actor=admin, space=space).code == "RESOURCE_EXHAUSTED"
    assert driver.do("keys.revoke", actor=admin, space=space, key_id=key_id).status == 200


def test_pages(driver: Driver, admin: bytes) -> None:
    made = [make(driver, f"s{number}", actor=admin)["id"] for number in range(3)]
    page = driver.ask("keys.list", actor=admin, limit=2)
    rest = driver.ask("keys.list", actor=admin, limit=9, cursor=page["nextCursor"])
    rows = page["keys"] + rest["keys"]
    assert [row["name"] for row in rows[:2]] == ["default", "admin"]
    assert [row["id"] for row in rows[2:]] == made


@pytest.mark.parametrize(
    "arguments",
    [
        {"permissions": []},
        {"permissions": ["root"]},
        {"permissions": "work"},
        {"name": ""},
        {"expiresAt": "2027-01-01"},
        {"key": "x"},
    ],
)
def test_bad_input_is_refused(driver: Driver, admin: bytes, arguments: dict[str, Any]) -> None:
    assert make(driver, "s1", actor=admin, **arguments).code == "VALIDATION_FAILED"


def test_permissions_named_twice_count_once(driver: Driver, admin: bytes) -> None:
    assert make(driver, "s1", actor=admin, permissions=["work", "work"])["permissions"] == ["work"]
