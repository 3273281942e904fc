"""A copy of every committed entry, for checkers that replay the log later: a file that only grows.

Off unless `journal_archive` names a directory. It is written when an entry is applied, is never synced, and nothing
ever depends on it; a restart goes on where it ends, and drops a torn end.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from cluster.ports import LogRecord

LENGTH_BYTES = 4

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(LogRecord).decode


class Archive:
    """One node's file, `NODE.log` in the directory."""

    def __init__(self, directory: Path, node_id: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"{node_id}.log"
        end, self._last_index = 0, 0
        for position, (_, index, _) in _records(path):
            end, self._last_index = position, index
        self._file = path.open("r+b" if path.exists() else "w+b", buffering=0)
        self._file.truncate(end)
        self._file.seek(end)

    def add(self, index: int, term: int, command: bytes) -> None:
        """Keep a committed entry. One that is kept already (a restart replays the log) is passed over."""
        if index <= self._last_index:
            return
        body = _encode((command, index, term))
        self._file.write(len(body).to_bytes(LENGTH_BYTES, "big") + body)
        self._last_index = index

    def close(self) -> None:
        self._file.close()


def read_archive(path: Path) -> Iterator[LogRecord]:
    """The entries of an archive in log order, as (command, index, term), as far as they are whole."""
    for _, record in _records(path):
        yield record


def _records(path: Path) -> Iterator[tuple[int, LogRecord]]:
    """Whole records, each with the position of its end."""
    if not path.exists():
        return
    with path.open("rb") as file:
        end = 0
        while len(header := file.read(LENGTH_BYTES)) == LENGTH_BYTES:
            length = int.from_bytes(header, "big")
            body = file.read(length)
            if len(body) < length:
                return
            end += LENGTH_BYTES + length
            yield end, _decode(body)
