"""Everything that the machine offers. A new primitive is one file, imported here."""

from __future__ import annotations

from statemachine import audit, events, idempotency, keys, membership, organizations, runs, scopes, spaces

PRIMITIVES = (membership, organizations, spaces, keys, audit, events, idempotency, scopes, runs)
