"""The cluster itself as replicated state: its id, its members and their incarnations, its feature level.

Written by entry 1 and changed only through the log, so that every node counts votes and acknowledgements by the same
list.
"""

from __future__ import annotations

from statemachine import organizations
from statemachine.context import Context
from statemachine.declare import Access, operation
from statemachine.store import Store, Table
from statemachine.types import Answer, Record, Request


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


def cluster(store: Store) -> Cluster | None:
    """The cluster's record, None before genesis was applied."""
    return store.rows(CLUSTER).get("cluster")
