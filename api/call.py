"""One call of the API as its handler sees it: a request on a connection, or one operation of a batch.

Whatever is wrong with it (its path, its body, its idempotency key) is kept in `invalid` and raised only after it is
known whether the caller may ask at all, so that an answer gives nothing away.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from api.limits import IDEMPOTENCY_KEY_CHARACTERS
from statemachine.errors import VALIDATION_FAILED, Refused

if TYPE_CHECKING:
    from aiohttp import web

    from api.connection import Connection

FINGERPRINT_BYTES = 16


class Call:
    """id: of the request. path: as it was sent, without the query. values: decoded, of the fields in the route's path.

    space: of a space's route, else "". actor: SHA-256 of the secret or OPERATOR; empty without a key. connection: None
    in a batch. started, deadline: loop time in seconds; until the deadline the call may wait for a leader.
    read_index: of the state that the call was judged by at this node, 0 when there was none. waited: on purpose, for
    something to happen. request: what aiohttp made of it, for those who answer in a stream; None in a batch.
    """

    __slots__ = (
        "actor",
        "body",
        "connection",
        "deadline",
        "id",
        "idempotency_key",
        "invalid",
        "method",
        "path",
        "query",
        "read_index",
        "request",
        "space",
        "started",
        "values",
        "waited",
    )

    def __init__(
        self,
        id_: str,
        method: str,
        path: str,
        query: str,
        idempotency_key: str | None,
        connection: Connection | None,
        started: float,
        deadline: float,
    ) -> None:
        self.id = id_
        self.method = method
        self.path = path
        self.query = query
        self.body = b""
        self.idempotency_key = idempotency_key
        self.connection = connection
        self.started = started
        self.deadline = deadline
        self.actor = b""
        self.space = ""
        self.read_index = 0
        self.request: web.BaseRequest | None = None
        self.values: list[str] = []
        self.invalid: Refused | None = None
        self.waited = False

    def idempotency(self) -> tuple[str, bytes] | None:
        """The client's key with the fingerprint of method, path and body, None without one.

        Raises VALIDATION_FAILED.
        """
        key = self.idempotency_key
        if key is None:
            return None
        if not 0 < len(key) <= IDEMPOTENCY_KEY_CHARACTERS:
            raise Refused(VALIDATION_FAILED, f"Idempotency-Key: must have 1 to {IDEMPOTENCY_KEY_CHARACTERS} characters")
        try:
            key.encode()
            path = self.path.encode()
        except UnicodeEncodeError:  # bytes that are no UTF-8 come as lone surrogates
            raise Refused(VALIDATION_FAILED, "Idempotency-Key: must be UTF-8") from None
        digest = blake2b(self.method.encode(), digest_size=FINGERPRINT_BYTES)
        digest.update(b" %b\n" % path)
        digest.update(self.body)
        return key, digest.digest()
