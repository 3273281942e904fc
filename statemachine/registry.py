"""Everything that the machine offers. A new primitive is one file, imported here."""

from __future__ import annotations

from statemachine import (
    admission,
    audit,
    claims,
    events,
    idempotency,
    keys,
    lines,
    membership,
    once,
    organizations,
    owners,
    ownership,
    results,
    runs,
    scopes,
    space_deletion,
    spaces,
    watch,
    whoami,
)

PRIMITIVES = (
    membership,
    admission,
    organizations,
    spaces,
    space_deletion,
    keys,
    audit,
    events,
    idempotency,
    scopes,
    runs,
    lines,
    ownership,
    claims,
    owners,
    results,
    once,
    watch,
    whoami,
)
