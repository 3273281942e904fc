"""The cluster itself as replicated state: its id, its members and their incarnations, its feature level, its epoch.

Written by entry 1 (`statemachine.membership`) and changed only through the log (`statemachine.admission`), so that
every node counts votes and acknowledgements by the same list.

An epoch ends when a cluster goes on from less than it had acknowledged. What was lost may have had generations, ids
and positions; so those of the next epoch are above all that the lost entries can have had, and never given twice.
"""

from __future__ import annotations

import msgspec

from statemachine.store import Store, Table
from statemachine.types import Record

GENERATION_SHIFT = 40  # of the epoch in a generation, which stays below 2^53
LOST_ENTRIES_MAX = 1 << 26  # between two epochs, numbers jump by so many entries


class Awaited(Record, frozen=True):
    """A member that does not count, and will once it has what the others have.

    incarnation: of the journal that it will count with, 0 for whichever it comes with. index: of the entry that said
    so; whoever has the log up to there has all that the others had committed before.
    """

    incarnation: int
    index: int


class Cluster(Record, frozen=True):
    """members: those that count, node id to the incarnation of the journal. awaited: the others, by node id.

    epoch: how often the cluster went on from less than it had acknowledged. lost: what is between these two indexes,
    as `numbered` counts, was numbered by what the last such time lost, if by anything.
    """

    cluster_id: str
    members: dict[str, int]
    feature_level: int
    awaited: dict[str, Awaited] = msgspec.field(default_factory=dict)
    epoch: int = 0
    lost: tuple[int, int] = (0, 0)


CLUSTER = Table("cluster", Cluster, key=lambda _: "cluster")


def cluster(store: Store) -> Cluster | None:
    """The cluster's record, None before genesis was applied."""
    return store.rows(CLUSTER).get("cluster")


def generation_floor(store: Store) -> int:
    """No generation at or below it is given any more."""
    known = cluster(store)
    return 0 if known is None else known.epoch << GENERATION_SHIFT


def numbered(store: Store, index: int) -> int:
    """The index of an entry of this epoch as ids and positions have it."""
    known = cluster(store)
    return index if known is None else index + known.epoch * LOST_ENTRIES_MAX


def was_lost(store: Store, index: int) -> bool:
    """Whether an index, as `numbered` counts, is of no entry that this state has ever seen."""
    known = cluster(store)
    return known is not None and known.lost[0] < index < known.lost[1]
