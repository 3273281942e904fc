"""Organizations: who owns spaces, and the plan that bounds what all of them together may do.

One organization, `default`, exists from the beginning and has no bounds. A name is a label; the id is what counts.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from statemachine.context import Context, View
from statemachine.declare import Access, operation, query
from statemachine.errors import NOT_FOUND, Refused
from statemachine.paging import page
from statemachine.store import Ordered, Table
from statemachine.types import (
    COUNT_MAX,
    LIST_LIMIT_DEFAULT,
    PAYLOAD_BYTES_MAX,
    Answer,
    Cursor,
    Id,
    Limit,
    Name,
    Record,
    Request,
    time_text,
)

DEFAULT = "org_default"

Count: TypeAlias = Annotated[int, Meta(ge=0, le=COUNT_MAX)]


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


ALL: Ordered[Organization] = Ordered(group=lambda _: 0, order=lambda o: (o.created_at_ms, o.id))

ORGANIZATIONS = Table("organizations", Organization, key=lambda o: o.id, indexes=(ALL,))


def begin(context: Context) -> None:
    """Make the default organization, as part of the cluster's first entry."""
    context.rows(ORGANIZATIONS).put(
        Organization(id=DEFAULT, name="default", plan=Plan(), created_at_ms=context.wall_now_ms)
    )


def find(view: View, organization_id: str) -> Organization:
    """Raises NOT_FOUND."""
    organization = view.rows(ORGANIZATIONS).get(organization_id)
    if organization is None:
        raise Refused(NOT_FOUND, f"there is no organization {organization_id!r}")
    return organization


# ---------------------------------------------------------------------- the operator's calls


class PlanBounds(Request, frozen=True):
    """A whole plan: what is absent is unlimited."""

    operations_per_month: Count | None = None
    agents_at_once: Count | None = None
    spaces: Count | None = None
    retention_days: Annotated[int, Meta(ge=1, le=3650)] | None = None
    payload_bytes: Annotated[int, Meta(ge=1, le=PAYLOAD_BYTES_MAX)] | None = None


class CreateOrganization(Request, frozen=True):
    name: Name
    plan: PlanBounds | None = None


class ChangeOrganization(Request, frozen=True):
    organization_id: Id
    name: Name | None = None
    plan: PlanBounds | None = None


class ListOrganizations(Request, frozen=True):
    limit: Limit = LIST_LIMIT_DEFAULT
    cursor: Cursor | None = None


class PlanView(Answer, frozen=True):
    operations_per_month: int | None
    agents_at_once: int | None
    spaces: int | None
    retention_days: int | None
    payload_bytes: int | None


class OrganizationView(Answer, frozen=True):
    id: str
    name: str
    plan: PlanView
    created_at: str


class Organizations(Answer, frozen=True):
    organizations: list[OrganizationView]
    next_cursor: str | None


def _view(organization: Organization) -> OrganizationView:
    return OrganizationView(
        id=organization.id,
        name=organization.name,
        plan=PlanView(*msgspec.structs.astuple(organization.plan)),
        created_at=time_text(organization.created_at_ms),
    )


def _plan(bounds: PlanBounds) -> Plan:
    return Plan(*msgspec.structs.astuple(bounds))


@operation("organizations.create", "POST /organizations", access=Access.OPERATOR)
def create(context: Context, request: CreateOrganization) -> OrganizationView:
    """Create an organization; a bound that its plan does not name is unlimited."""
    organization = Organization(
        id=context.new_id("org"),
        name=request.name,
        plan=_plan(request.plan or PlanBounds()),
        created_at_ms=context.wall_now_ms,
    )
    context.rows(ORGANIZATIONS).put(organization)
    context.mark_created()
    return _view(organization)


@operation("organizations.change", "PATCH /organizations/{organizationId}", access=Access.OPERATOR, errors=(NOT_FOUND,))
def change(context: Context, request: ChangeOrganization) -> OrganizationView:
    """Rename an organization or replace its plan as a whole: a bound that the new plan does not name is lifted."""
    old = find(context, request.organization_id)
    new = msgspec.structs.replace(
        old, name=request.name or old.name, plan=old.plan if request.plan is None else _plan(request.plan)
    )
    if new != old:
        context.rows(ORGANIZATIONS).put(new)
    return _view(new)


@query("organizations.list", "GET /organizations", access=Access.OPERATOR)
def list_all(view: View, request: ListOrganizations) -> Organizations:
    """All organizations, oldest first."""
    rows, cursor = page(view.rows(ORGANIZATIONS), ALL, 0, request.limit, request.cursor)
    return Organizations(organizations=[_view(row) for row in rows], next_cursor=cursor)
