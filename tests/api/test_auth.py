"""Credentials and the operator's key file."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from api.auth import Authenticator, OperatorKeyError, read_operator_key
from statemachine.entry import OPERATOR
from statemachine.errors import UNAUTHENTICATED, Refused

KEY = "rsop_0123456789abcdef"


def digest(secret: str) -> bytes:
    return sha256(secret.encode()).digest()


def test_a_key_becomes_its_digest() -> None:
    assert Authenticator(None).actor("Bearer secret") == digest("secret")
    assert Authenticator(None).actor("bearer   secret ") == digest("secret")
    assert Authenticator(digest(KEY)).actor(f"Bearer {KEY}x") == digest(f"{KEY}x")


def test_the_operator_key_makes_the_operator_where_there_is_one() -> None:
    assert Authenticator(digest(KEY)).actor(f"Bearer {KEY}") == OPERATOR
    assert Authenticator(None).actor(f"Bearer {KEY}") == digest(KEY)


def test_a_key_of_any_bytes_is_just_unknown() -> None:
    assert len(Authenticator(None).actor("Bearer \udcff\u00e9")) == 32


@pytest.mark.parametrize("header", [None, "", "secret", "Basic secret", "Bearer", "Bearer ", "Bearer    "])
def test_without_a_bearer_key_nobody_asks(header: str | None) -> None:
    with pytest.raises(Refused) as refused:
        Authenticator(None).actor(header)
    assert refused.value.error is UNAUTHENTICATED


def test_the_key_is_read_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "operator.key"
    path.write_text(f"  {KEY}\n")
    assert read_operator_key(path) == digest(KEY)
    assert read_operator_key(None) is None


@pytest.mark.parametrize("content", ["", "\n", "short", "two words of a key file", "schlüssel-0123456789"])
def test_a_file_without_a_usable_key_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "operator.key"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(OperatorKeyError, match="must hold one key"):
        read_operator_key(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(OperatorKeyError, match="cannot be read"):
        read_operator_key(tmp_path / "operator.key")
