"""The end of the log as it is kept in memory: so many bytes of recent entries, without a gap.

Nearly all reads are of the last few thousand entries; only a follower that fell far behind needs older ones, from disk.
The window never drops an entry by itself: its owner says which are safe on disk.
"""

from cluster.journal_records import LogEntry

_OVERHEAD_BYTES = 200  # a tuple, two integers, a bytes object and a list slot, about


def _cost(entry: LogEntry) -> int:
    return len(entry[0]) + _OVERHEAD_BYTES


class Window:
    """Entries `first_index` and following. `limit_bytes` is what `shrink` brings it below, roughly."""

    def __init__(self, limit_bytes: int, entries: list[LogEntry]) -> None:
        self._limit_bytes = limit_bytes
        self.reset(entries)

    def reset(self, entries: list[LogEntry]) -> None:
        self._entries = entries
        self.first_index = entries[0][1] if entries else 1
        self.size_bytes = sum(map(_cost, entries))

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def last_term(self) -> int:
        """Term of the last entry; 0 when there is none."""
        return self._entries[-1][2] if self._entries else 0

    def __getitem__(self, index: int) -> LogEntry:
        """The entry with this log index, which must be in the window."""
        return self._entries[index - self.first_index]

    def between(self, index: int, end: int) -> list[LogEntry]:
        """The entries index ... end - 1, as far as the window has them; index must not lie before it."""
        start = index - self.first_index
        assert start >= 0, (index, self.first_index)
        return self._entries[start : max(start, end - self.first_index)]

    def append(self, entry: LogEntry) -> None:
        if not self._entries:
            self.first_index = entry[1]
        self._entries.append(entry)
        self.size_bytes += _cost(entry)

    def truncate(self, last_index: int) -> None:
        """Drop what follows last_index, which must be in the window."""
        keep = last_index + 1 - self.first_index
        assert keep > 0, (last_index, self.first_index)
        self.size_bytes -= sum(map(_cost, self._entries[keep:]))
        del self._entries[keep:]

    def drop_before(self, index: int) -> None:
        """Drop the entries below index."""
        count = index - self.first_index
        if count > 0:
            self.size_bytes -= sum(map(_cost, self._entries[:count]))
            del self._entries[:count]
            self.first_index = index

    def shrink(self, durable_index: int) -> None:
        """When it is over its limit, drop its oldest entries down to three quarters of it, so that this is rare.

        durable_index: entries above it stay. The last entry always stays.
        """
        if self.size_bytes <= self._limit_bytes:
            return
        count, freed_bytes = 0, 0
        droppable = min(len(self._entries) - 1, durable_index + 1 - self.first_index)
        while count < droppable and self.size_bytes - freed_bytes > self._limit_bytes * 3 // 4:
            freed_bytes += _cost(self._entries[count])
            count += 1
        self.drop_before(self.first_index + count)
