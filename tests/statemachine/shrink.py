"""Finds what of a log is needed for a failure, and writes it down.

Entries are emptied and operations replaced by one that is refused, never removed, so that ids and tokens stay what the
rest of the log takes them for.
"""

from __future__ import annotations

from collections.abc import Sequence

from statemachine.entry import Entry, decode_entry, decode_operation, encode_entry, encode_operation
from tests.statemachine.driver import Driver

NOTHING = encode_operation("runs.join", "", bytes(32), 0, None, b"{}")
GENESIS = 1


def shrunk(log: Sequence[tuple[int, bytes]], failure: Exception) -> str:
    """The least of the log, found in one pass, after which a driver fails alike; as text."""
    entries = [decode_entry(data) for _, data in log]
    if not fails(entries, failure):
        return "the log alone does not fail: see the queries"
    for number in range(len(entries) - 1, 0, -1):
        entries = _less(entries, number, [], failure)
    for number, entry in enumerate(entries):
        for place in range(len(entry.operations)):
            operations = list(entries[number].operations)
            operations[place] = NOTHING
            entries = _less(entries, number, operations, failure)
    return "\n".join(line for number, entry in enumerate(entries) for line in _lines(number + 1, entry))


def fails(entries: Sequence[Entry], failure: Exception) -> bool:
    """Whether a driver that gets these entries fails with an error of the same class and cause."""
    driver = Driver(begun=False)
    try:
        for entry in entries:
            driver.append(_encoded(entry))
        driver.settle_due()
    except Exception as error:
        return (type(error), type(error.__cause__)) == (type(failure), type(failure.__cause__))
    return False


def _less(entries: list[Entry], number: int, operations: list[bytes], failure: Exception) -> list[Entry]:
    old = entries[number]
    if number + 1 == GENESIS or old.operations == operations:
        return entries
    origins = [("n1", 1, place) for place in range(len(operations))]
    new = Entry(old.format, old.lease_now_ms, old.wall_now_ms, old.entropy, operations, origins)
    changed = [*entries[:number], new, *entries[number + 1 :]]
    return changed if fails(changed, failure) else entries


def _encoded(entry: Entry) -> bytes:
    return encode_entry(entry.lease_now_ms, entry.wall_now_ms, entry.entropy, entry.operations, entry.origins)


def _lines(index: int, entry: Entry) -> list[str]:
    commands = [decode_operation(data) for data in entry.operations if data != NOTHING]
    when = f"{index}: lease {entry.lease_now_ms} wall {entry.wall_now_ms}"
    return [f"{when} {str(command)[:400]}" for command in commands]
