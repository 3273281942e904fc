"""Which members count: a disk that was lost is replaced by another one, and a cluster goes on from its last copy.

A member whose disk was lost comes back with a new incarnation and counts for nothing. To count it again takes two
entries. The first takes the old incarnation off the list, so that from then on only the others are asked; the second,
which the leader proposes once it has applied the first and the node has what the others had committed, lists the new
one. In one step it would be unsafe: while the old disk still runs somewhere, it and a node that has not heard of the
change would be a majority of the old list, and the new disk and another node one of the new list, with no node in
both. Any two lists that follow each other here differ by one member, so their majorities have one in common (Ongaro's
thesis, section 4.1). For the same reason only one member at a time is taken off.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from statemachine.cluster_record import CLUSTER, Awaited, Cluster, numbered
from statemachine.context import Context
from statemachine.declare import Access, operation
from statemachine.entry import SYSTEM, encode_operation
from statemachine.errors import CONFLICT, NOT_FOUND, VALIDATION_FAILED, Refused
from statemachine.types import Answer, Name, Request


class AdmitNode(Request, frozen=True):
    """incarnation: that of the node as it is connected now, filled in by the node that takes the request."""

    node_id: Name
    incarnation: int = 0


class Admitted(Answer, frozen=True):
    """incarnation: as decimal digits, for it may have more of them than a JSON number keeps. counts: whether the node
    counts with it by now; else it will, once it has what the others have."""

    node_id: str
    incarnation: str
    counts: bool


@operation(
    "cluster.admit-node",
    "POST /cluster/nodes/{nodeId}/admit",
    access=Access.OPERATOR,
    repeatable=True,
    urgent=True,
    errors=(CONFLICT, NOT_FOUND),
    front_fields=("incarnation",),
)
def admit_node(context: Context, request: AdmitNode) -> Admitted:
    """Let a member count with the disk that it has now.

    For a node whose disk was lost: it comes back empty, follows, and counts for nothing until it is admitted. From here
    on its old disk counts for nothing; the new one does as soon as it has what the others have.
    """
    rows = context.rows(CLUSTER)
    old = rows["cluster"]
    node_id, incarnation = request.node_id, request.incarnation
    if node_id not in old.members and node_id not in old.awaited:
        names = ", ".join(sorted([*old.members, *old.awaited]))
        raise Refused(NOT_FOUND, f"{node_id!r} is no member; the members are {names}")
    if incarnation < 1:
        raise Refused(VALIDATION_FAILED, "incarnation: filled in by the node, above 0")
    counts = old.members.get(node_id) == incarnation
    if node_id in old.members and not counts:
        if old.awaited:
            names = ", ".join(sorted(old.awaited))
            raise Refused(CONFLICT, f"{names} does not count yet, and only one member at a time may be replaced")
        if len(old.members) == 1:
            raise Refused(CONFLICT, f"{node_id!r} is the only member: there is nobody to judge its new disk")
    if not counts and (node_id not in old.awaited or old.awaited[node_id].incarnation != incarnation):
        members = {name: listed for name, listed in old.members.items() if name != node_id}
        awaited = {**old.awaited, node_id: Awaited(incarnation, context.index)}
        _put(context, old, members=members, awaited=awaited)
    return Admitted(node_id, str(incarnation), counts)


class ListNode(Request, frozen=True):
    node_id: str
    incarnation: int


@operation("cluster.list-node", access=Access.SYSTEM, repeatable=True)
def list_node(context: Context, request: ListNode) -> Admitted:
    """A member that was awaited counts with this incarnation from here on.

    Only ever proposed by a leader that has applied the entry since which it is awaited (`cluster.admission`).
    """
    old = context.rows(CLUSTER)["cluster"]
    node_id, incarnation = request.node_id, request.incarnation
    awaited = old.awaited.get(node_id)
    if awaited is not None and awaited.incarnation in (0, incarnation):
        left = {name: other for name, other in old.awaited.items() if name != node_id}
        _put(context, old, members={**old.members, node_id: incarnation}, awaited=left)
    return Admitted(node_id, str(incarnation), context.rows(CLUSTER)["cluster"].members.get(node_id) == incarnation)


class Recover(Request, frozen=True):
    """node_id, incarnation: of the only disk that is left."""

    cluster_id: str
    node_id: str
    incarnation: int


class Recovered(Answer, frozen=True):
    cluster_id: str
    awaited: list[str]


@operation("cluster.recover", access=Access.SYSTEM, repeatable=True)
def recover(context: Context, request: Recover) -> Recovered:
    """Begin a new cluster with this state, of which one member is there; the others count once they have followed it.

    They come with empty disks, whichever those are, for everybody else is kept out by the new cluster id.
    What was acknowledged and is not in this state may have had generations, so the next ones are above all of those.
    """
    old = context.rows(CLUSTER)["cluster"]
    others = sorted({*old.members, *old.awaited} - {request.node_id})
    awaited = {name: Awaited(0, context.index) for name in others}
    members = {request.node_id: request.incarnation}
    last = numbered(context.store, context.index)
    _put(context, old, members=members, awaited=awaited, cluster_id=request.cluster_id, epoch=old.epoch + 1)
    first = numbered(context.store, context.index)
    _put(context, context.rows(CLUSTER)["cluster"], members=members, awaited=awaited, lost=(last, first))
    return Recovered(request.cluster_id, others)


def _put(context: Context, old: Cluster, *, members: dict[str, int], awaited: dict[str, Awaited], **more: Any) -> None:
    changed = msgspec.structs.replace(
        old, members=dict(sorted(members.items())), awaited=dict(sorted(awaited.items())), **more
    )
    context.rows(CLUSTER).put(changed)


def list_node_operation(node_id: str, incarnation: int) -> bytes:
    """The operation by which a leader lists a node that has caught up."""
    return _operation("cluster.list-node", nodeId=node_id, incarnation=incarnation)


def recover_operation(cluster_id: str, node_id: str, incarnation: int) -> bytes:
    """The operation that makes a new cluster of the only copy that is left."""
    return _operation("cluster.recover", clusterId=cluster_id, nodeId=node_id, incarnation=incarnation)


def _operation(name: str, **arguments: str | int) -> bytes:
    return encode_operation(name, "", SYSTEM, 0, None, json.dumps(arguments, separators=(",", ":")).encode())
