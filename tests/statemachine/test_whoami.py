"""What a key learns about itself."""

from __future__ import annotations

from tests.statemachine.driver import Driver


def test_a_key_learns_its_space_and_permissions(driver: Driver) -> None:
    (key,) = driver.ask("spaces.list-keys", space_id=driver.space)["keys"]
    assert driver.ask("whoami").body == {
        "spaceId": driver.space,
        "spaceName": "default",
        "keyId": key["id"],
        "name": "default",
        "permissions": ["read", "resource_config", "work"],
    }


def test_any_permission_does_and_an_expiry_is_shown(driver: Driver) -> None:
    actor = driver.key("admin", "admin", expires_at="2026-01-01T00:00:01Z")
    answer = driver.ask("whoami", actor=actor, space="")
    assert (answer["permissions"], answer["expiresAt"]) == (["admin"], "2026-01-01T00:00:01.000Z")


def test_an_unknown_key_learns_nothing(driver: Driver) -> None:
    assert driver.ask("whoami", actor=b"nobody").code == "UNAUTHENTICATED"


def test_the_key_of_a_deleted_space_learns_nothing(driver: Driver) -> None:
    space = driver.do("spaces.create", name="gone")["id"]
    actor = driver.key("gone", "work", space=space)
    driver.do("spaces.delete", space_id=space)
    assert driver.ask("whoami", actor=actor).code == "UNAUTHENTICATED"
