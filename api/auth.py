"""Who asks: the credential of a request as the machine's actor.

A key's secret goes no further than this file; what leaves it is the secret's SHA-256, by which the machine knows keys.
Whether that key exists and what it may do is judged behind a read index or by apply, never here.
"""

from __future__ import annotations

from hashlib import sha256
from hmac import compare_digest
from pathlib import Path

from statemachine.entry import OPERATOR
from statemachine.errors import UNAUTHENTICATED, Refused

OPERATOR_KEY_CHARACTERS_MIN = 16


class OperatorKeyError(ValueError):
    """The file of the operator key has none that could be used. The message says why and what is right."""


def read_operator_key(path: Path | None) -> bytes | None:
    """SHA-256 of the operator key in a file, None without a file: then nobody is the operator.

    Raises OperatorKeyError.
    """
    if path is None:
        return None
    try:
        key = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise OperatorKeyError(f"operator_key_file {path} cannot be read: {error}") from None
    if len(key) < OPERATOR_KEY_CHARACTERS_MIN or not key.isascii() or any(character.isspace() for character in key):
        raise OperatorKeyError(
            f"operator_key_file {path} must hold one key of at least {OPERATOR_KEY_CHARACTERS_MIN} ASCII characters"
            " without white space"
        )
    return sha256(key.encode()).digest()


class Authenticator:
    """operator: SHA-256 of the operator key, None when there is none."""

    def __init__(self, operator: bytes | None) -> None:
        self._operator = operator

    def actor(self, header: str | None) -> bytes:
        """The actor that an Authorization header makes. Raises UNAUTHENTICATED when it holds no bearer key."""
        if header is None:
            raise Refused(UNAUTHENTICATED, "the call needs a key: send Authorization: Bearer KEY")
        if header[:7].lower() != "bearer ":
            raise Refused(UNAUTHENTICATED, "the Authorization header must read: Bearer KEY")
        secret = header[7:].strip()
        if not secret:
            raise Refused(UNAUTHENTICATED, "the Authorization header has no key behind Bearer")
        actor = sha256(secret.encode("utf-8", "surrogateescape")).digest()
        if self._operator is not None and compare_digest(actor, self._operator):
            return OPERATOR
        return actor
