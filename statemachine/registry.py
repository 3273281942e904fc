"""Everything that the machine offers. A new primitive is one file, imported here."""

from __future__ import annotations

from statemachine import (
    audit,
    events,
    idempotency,
    keys,
    membership,
    organizations,
    runs,
    scopes,
    space_deletion,
    spaces,
    watch,
    whoami,
)

PRIMITIVES = (
    membership,
    organizations,
    spaces,
    space_deletion,
    keys,
    audit,
    events,
    idempotency,
    scopes,
    runs,
    watch,
    whoami,
)
