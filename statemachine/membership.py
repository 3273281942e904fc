"""The cluster itself in the log: its first entry, and marks behind which all nodes do the same."""

from __future__ import annotations

from statemachine import organizations
from statemachine.cluster_record import CLUSTER, Cluster
from statemachine.context import Context
from statemachine.declare import Access, operation
from statemachine.entry import SYSTEM, encode_operation
from statemachine.types import Answer, Request


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
