"""The cluster itself as replicated state: its id, its members and their incarnations, its feature level.

Written by entry 1 and changed only through the log, so that every node counts votes and acknowledgements by the same
list.
"""

from __future__ import annotations

import msgspec

from statemachine import organizations
from statemachine.context import Context
from statemachine.declare import Access, operation
from statemachine.entry import SYSTEM, encode_operation
from statemachine.errors import NOT_FOUND, VALIDATION_FAILED, Refused
from statemachine.store import Store, Table
from statemachine.types import Answer, Name, Record, Request


class Cluster(Record, frozen=True):
    cluster_id: str
    members: dict[str, int]  # node id to the incarnation of its journal
    feature_level: int


CLUSTER = Table("cluster", Cluster, key=lambda _: "cluster")


class Genesis(Request, frozen=True):
    cluster_id: str
    members: dict[str, int]
    feature_level: int


class Born(Answer, frozen=True):
    cluster_id: str


@operation("cluster.genesis", access=Access.SYSTEM)
def genesis(context: Context, request: Genesis) -> Born:
    """Begin the cluster. Only ever entry 1."""
    rows = context.rows(CLUSTER)
    assert not len(rows), "a second genesis entry"
    members = dict(sorted(request.members.items()))
    rows.put(Cluster(cluster_id=request.cluster_id, members=members, feature_level=request.feature_level))
    organizations.begin(context)
    return Born(cluster_id=request.cluster_id)


class AdmitNode(Request, frozen=True):
    """incarnation: that of the node as it is connected now, filled in by the node that takes the request."""

    node_id: Name
    incarnation: int = 0


class Admitted(Answer, frozen=True):
    """incarnation: as decimal digits, for it may have more of them than a JSON number keeps."""

    node_id: str
    incarnation: str


@operation(
    "cluster.admit-node",
    "POST /cluster/nodes/{nodeId}/admit",
    access=Access.OPERATOR,
    repeatable=True,
    urgent=True,
    errors=(NOT_FOUND,),
    front_fields=("incarnation",),
)
def admit_node(context: Context, request: AdmitNode) -> Admitted:
    """List the present incarnation of a member, whose votes and acknowledgements count from here on.

    For a node whose disk was lost: it comes back empty, follows, and counts for nothing until it is admitted.
    """
    rows = context.rows(CLUSTER)
    old = rows["cluster"]
    if request.node_id not in old.members:
        raise Refused(NOT_FOUND, f"{request.node_id!r} is no member; the members are {', '.join(sorted(old.members))}")
    if request.incarnation < 1:
        raise Refused(VALIDATION_FAILED, "incarnation: filled in by the node, above 0")
    if old.members[request.node_id] != request.incarnation:
        members = dict(sorted({**old.members, request.node_id: request.incarnation}.items()))
        rows.put(msgspec.structs.replace(old, members=members))
    return Admitted(node_id=request.node_id, incarnation=str(request.incarnation))


class ImageHere(Request, frozen=True):
    pass


class Imaged(Answer, frozen=True):
    index: int


@operation("cluster.image-here", repeatable=True)
def image_here(context: Context, request: ImageHere) -> Imaged:
    """Change nothing. Every node takes an image of its state behind this entry, and the leader compares them."""
    return Imaged(index=context.index)


# The operation as it stands in the log, alone in its entry.
IMAGE_HERE = encode_operation("cluster.image-here", "", SYSTEM, 0, None, b"{}")


def cluster(store: Store) -> Cluster | None:
    """The cluster's record, None before genesis was applied."""
    return store.rows(CLUSTER).get("cluster")
