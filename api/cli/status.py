"""`runstate status`: how a cluster does, as a table, also when parts of it are down.

Every known node is asked by itself what it is (`/readyz`), so the table says which node does not answer. With an
operator key the leader adds what only it knows: all members, and how far each one's log is.
Exit status: 0 all is well, 1 the cluster works but a node is down, not ready, far behind or does not count, 2 there is
no leader.
"""

import argparse
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from api.cli.calls import operator_call
from api.cli.connection import Connection, add_connection_options, find_connection
from api.cli.failure import CommandError
from api.cli.probe import Probe, probe
from api.cli.table import table

if TYPE_CHECKING:
    from api.cli.commands import Commands

ALL_WELL, DEGRADED, NO_LEADER = 0, 1, 2

EXPIRES_SOON = timedelta(days=30)

# A follower is a batch or two behind at any moment; more than this many entries is a follower in trouble.
FAR_BEHIND_ENTRIES = 5_000


class Row(msgspec.Struct, frozen=True, rename="camel"):
    """One node as the table has it; None is what nobody could tell."""

    node: str | None
    role: str | None
    term: int | None
    commit: int | None
    applied: int | None
    lag: int | None
    address: str
    problem: str
    counts: bool | None = None
    certificate_expires_at: str | None = None


def register(commands: "Commands") -> None:
    status = commands.add_parser(
        "status",
        help="show the nodes of a cluster and how they do",
        description="Exit status: 0 all is well, 1 degraded, 2 no leader.",
    )
    status.add_argument("--json", action="store_true", help="print the rows as JSON")
    add_connection_options(status)
    status.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    connection = find_connection(arguments)
    probes = _ask(connection.endpoints)
    members, complaint = _members(connection, probes)
    asked = {found.endpoint for found in probes}
    probes += _ask([member["url"] for member in members if member["url"] and member["url"] not in asked])
    rows = [_row(found, _known_as(found, probes, members)) for found in probes]
    verdict = _verdict(rows, _leader(probes))
    if arguments.json:
        print(json.dumps({"nodes": msgspec.to_builtins(rows), "verdict": verdict}, indent=2))
    else:
        print(_shown(rows))
        for line in _remarks(rows, verdict, complaint):
            print(line)
    return verdict


def _ask(endpoints: Sequence[str]) -> list[Probe]:
    with ThreadPoolExecutor(max_workers=max(1, len(endpoints))) as threads:
        return list(threads.map(probe, endpoints))


def _members(connection: Connection, probes: Sequence[Probe]) -> tuple[list[dict[str, Any]], str]:
    """What the leader tells operators of the members, and why it could not be had."""
    leader = _leader(probes)
    if leader is None:
        return [], ""
    if connection.operator_key is None:
        return [], "how far each log is: the leader tells it to the operator key alone"
    at_leader = msgspec.structs.replace(connection, endpoints=(leader.endpoint,))
    try:
        members: list[dict[str, Any]] = operator_call(at_leader, "GET", "/admin/v1/cluster")["members"]
    except CommandError as error:
        return [], f"how far each log is could not be had: {error}"
    return members, ""


def _leader(probes: Sequence[Probe]) -> Probe | None:
    """The node that leads in the newest term that any node knows. One that leads an older term has not noticed yet."""
    newest = max((found.said.get("term", 0) for found in probes), default=0)
    leading = (found for found in probes if found.said.get("role") == "leader" and found.said.get("term") == newest)
    return next(leading, None)


def _row(found: Probe, member: dict[str, Any]) -> Row:
    said = found.said
    return Row(
        node=said.get("node") or member.get("id"),
        role=said.get("role"),
        term=said.get("term"),
        commit=said.get("commit"),
        applied=said.get("applied"),
        lag=member.get("lag"),
        address=found.endpoint,
        problem=found.problem or ("does not count" if member.get("counts") is False else ""),
        counts=member.get("counts"),
        certificate_expires_at=member.get("certificateExpiresAt"),
    )


def _known_as(found: Probe, probes: Sequence[Probe], members: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The member behind an endpoint, {} when nobody can tell. The leader forgets where a node was that it lost."""
    answering = {other.said.get("node") for other in probes if other.reachable}
    if found.reachable:
        fitting = [member for member in members if member["id"] == found.said.get("node")]
    else:
        fitting = [member for member in members if member["id"] not in answering]
        fitting = [member for member in fitting if member["url"] == found.endpoint] or fitting
    return fitting[0] if len(fitting) == 1 else {}


def _verdict(rows: Sequence[Row], leader: Probe | None) -> int:
    if leader is None:
        return NO_LEADER
    return DEGRADED if any(row.problem or (row.lag or 0) > FAR_BEHIND_ENTRIES for row in rows) else ALL_WELL


def _shown(rows: Sequence[Row]) -> str:
    cells = [
        (row.node, row.role, row.term, row.commit, row.applied, row.lag, row.address, row.problem or "yes")
        for row in sorted(rows, key=lambda row: (row.node or "", row.address))
    ]
    return table(("NODE", "ROLE", "TERM", "COMMIT", "APPLIED", "LAG", "ADDRESS", "READY"), cells)


def _remarks(rows: Sequence[Row], verdict: int, complaint: str) -> list[str]:
    remarks = [complaint] if complaint else []
    down = [row.node or row.address for row in rows if row.problem]
    if verdict == NO_LEADER:
        remarks.append(f"no leader: {len(rows) - len(down)} of {len(rows)} nodes are ready; a majority is needed")
    elif down:
        remarks.append(f"degraded: {', '.join(down)}")
    for row in rows:
        if row.counts is False:
            remarks.append(f"{row.node} has a new disk: once it has no lag, `runstate node admit {row.node}`")
    soon = datetime.now(UTC) + EXPIRES_SOON
    for row in rows:
        ends_at = row.certificate_expires_at
        if ends_at is not None and datetime.fromisoformat(ends_at) < soon:
            remarks.append(f"the certificate of {row.node} ends at {ends_at}: replace it before (`runstate certs`)")
    return remarks
