"""A sorted list for values that arrive in rising order and leave from either end, as a log's do.

Both of that costs the same however long the list is. Anything else is right as well, but moves all that is behind. It
has the part of the interface of SortedList that an index needs.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from itertools import islice
from typing import Any

SLACK = 512  # places in front that are given back only when they are as many as the values


class RisingList:
    """Sorted values, each once. `_values` begins with `_gone` empty places."""

    __slots__ = ("_gone", "_values")

    def __init__(self) -> None:
        self._values: list[Any] = []
        self._gone = 0

    def __len__(self) -> int:
        return len(self._values) - self._gone

    def __iter__(self) -> Iterator[Any]:
        return islice(self._values, self._gone, None)

    def __getitem__(self, place: int) -> Any:
        """The value at a place counted from 0."""
        return self._values[self._gone + place]

    def islice(self, start: int) -> Iterator[Any]:
        """The values from a place on."""
        return islice(self._values, self._gone + start, None)

    def bisect_left(self, value: Any) -> int:
        """The place of the first value that is not below the given one."""
        return bisect_left(self._values, value, lo=self._gone) - self._gone

    def add(self, value: Any) -> None:
        values = self._values
        if len(values) == self._gone or values[-1] < value:
            values.append(value)
        else:
            insort(values, value, lo=self._gone)

    def remove(self, value: Any) -> None:
        """Raises ValueError for a value that is not there."""
        values, gone = self._values, self._gone
        if len(values) == gone:
            raise ValueError(value)
        if values[gone] == value:
            values[gone] = None
            self._gone = gone + 1
            if self._gone == len(values) or self._gone > max(SLACK, len(self)):
                del values[: self._gone]
                self._gone = 0
        elif values[-1] == value:
            values.pop()
        else:
            place = bisect_left(values, value, lo=gone)
            if place == len(values) or values[place] != value:
                raise ValueError(value)
            del values[place]
