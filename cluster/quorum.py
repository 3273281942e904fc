"""Who counts: the members that the replicated state lists, by node id and incarnation.

A majority is always a set of listed node ids that spoke with their listed incarnation; what any other node says counts
for nothing. A node whose disk was lost comes back with a new incarnation, so a promise that the old disk held cannot
be given twice.
"""

from collections.abc import Callable, Iterable, Mapping


class Quorum:
    """Answers by the list of the state as it is applied at the moment of the question.

    members: node id to listed incarnation. node_id, incarnation: of this node.
    """

    def __init__(self, members: Callable[[], Mapping[str, int]], node_id: str, incarnation: int) -> None:
        self._members = members
        self.node_id = node_id
        self.incarnation = incarnation

    @property
    def members(self) -> Mapping[str, int]:
        return self._members()

    @property
    def size(self) -> int:
        """How many nodes make a majority of the listed ones."""
        return len(self._members()) // 2 + 1

    @property
    def lists_me(self) -> bool:
        return self.lists(self.node_id, self.incarnation)

    def lists(self, node_id: str, incarnation: int) -> bool:
        return self._members().get(node_id) == incarnation

    def is_majority(self, node_ids: Iterable[str]) -> bool:
        """node_ids: a set of nodes that spoke with their listed incarnation."""
        members = self._members()
        return len({node for node in node_ids if node in members}) >= len(members) // 2 + 1

    def reached_by_majority(self, values: Mapping[str, int]) -> int:
        """The largest value that a majority of the listed nodes has reached; 0 for a node that is not in values."""
        ranked = sorted((values.get(node, 0) for node in self._members()), reverse=True)
        return ranked[self.size - 1] if ranked else 0
