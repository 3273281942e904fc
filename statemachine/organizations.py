"""Organizations: who owns spaces, and the plan that bounds what all of them together may do.

One organization, `default`, exists from the beginning and has no bounds.
"""

from __future__ import annotations

from statemachine.context import Context
from statemachine.store import Table
from statemachine.types import Record

DEFAULT = "org_default"


class Plan(Record, frozen=True):
    """Bounds of an organization; None is unlimited."""

    operations_per_month: int | None = None
    agents_at_once: int | None = None
    spaces: int | None = None
    retention_days: int | None = None
    payload_bytes: int | None = None


class Organization(Record, frozen=True):
    id: str
    name: str
    plan: Plan
    created_at_ms: int


ORGANIZATIONS = Table("organizations", Organization, key=lambda o: o.id)


def begin(context: Context) -> None:
    """Make the default organization, as part of the cluster's first entry."""
    context.rows(ORGANIZATIONS).put(
        Organization(id=DEFAULT, name="default", plan=Plan(), created_at_ms=context.wall_now_ms)
    )
