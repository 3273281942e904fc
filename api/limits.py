"""Bounds of the HTTP front, in one place.

None of them protects the replicated state, which has its own; they keep one client from using up a node.
"""

from __future__ import annotations

BODY_BYTES = 1 << 20
BODY_SECONDS = 30.0  # from the headers to the last byte of the body
LINE_BYTES = 16_384  # of the request line: a key of 512 code points is up to 6,144 bytes when percent-encoded
HEADER_BYTES = 16_384
HEADERS = 100
CONNECTIONS = 20_000
IDLE_SECONDS = 75.0  # of a connection between two requests, and from its first byte to the end of the headers
LINGER_SECONDS = 2.0  # for which the rest of a refused body is read and dropped, so that its sender sees the answer

HOLD_SECONDS = 8.0  # for which a request waits for a leader, see the wire contract, "Writes"
OPERATION_MS = 10_000  # lease time after which an operation must not be applied any more; HOLD_SECONDS and some slack
FAREWELL_SECONDS = 1.0  # for which a node that stops still answers on connections that it has, and closes each with it
GRACE_SECONDS = 1.0  # for which a place in a line is kept for a client that comes back with its idempotency key

NESTING = 64  # of JSON
IDEMPOTENCY_KEY_CHARACTERS = 255
BATCH_OPERATIONS = 256
RETRY_AFTER_SECONDS = (0.05, 30.0)
