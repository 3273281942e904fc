"""Due items of one clock, in one total order: (time, kind, key).

Derived from records alone: a restarted replica has exactly the items of one that never stopped. Changing an item leaves
the old one in the heap until it comes up; such dead items are dropped without being counted, so that a bounded sweep
takes the same live items on every replica, whatever their history.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Any, TypeAlias

Key: TypeAlias = Any  # the key of a record: a str, or a tuple of str and int; of one shape within a kind
Item: TypeAlias = tuple[int, str, Key]


class DueItems:
    """Ordered due items; set, move and remove in O(log n) amortized."""

    def __init__(self) -> None:
        self._at: dict[tuple[str, Key], int] = {}
        self._heap: list[Item] = []

    def __len__(self) -> int:
        return len(self._at)

    def set(self, kind: str, key: Key, at_ms: int | None) -> None:
        """Make the item due at at_ms; None removes it."""
        if at_ms is None:
            self._at.pop((kind, key), None)
        else:
            self._at[(kind, key)] = at_ms
            heappush(self._heap, (at_ms, kind, key))
        if len(self._heap) > 2 * len(self._at) + 64:
            self._heap = [(at, kind, key) for (kind, key), at in self._at.items()]
            heapify(self._heap)

    def first(self) -> Item | None:
        """The earliest live item, left in place."""
        heap = self._heap
        while heap:
            at_ms, kind, key = heap[0]
            if self._at.get((kind, key)) == at_ms:
                return heap[0]
            heappop(heap)
        return None
