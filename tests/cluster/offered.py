"""Images as a leader offers them to `LoneNode`: made of a log of its cluster, in frames."""

from __future__ import annotations

import msgspec

from cluster.frames import Install, InstallChunk
from cluster.image_records import ImageMeta, encode_meta, seal
from cluster.journal_records import JournalIdentity
from statemachine.entry import decode_entry, genesis_entry
from statemachine.image_state import Content, record_name
from statemachine.machine import Machine
from tests.simulation.cluster import WALL_MS
from tests.simulation.lone import INCARNATIONS, command


class Offer:
    """The image of n2 behind entry `index`; all entries behind genesis are of one term.

    log: (command, index, term) of every entry up to there and a few more. records: name to stored record.
    """

    def __init__(self, index: int = 50, entry_term: int = 3, further: int = 10) -> None:
        genesis = b"\x20" + genesis_entry("lone", INCARNATIONS, WALL_MS, bytes(16))
        self.index, self.entry_term = index, entry_term
        self.log = [(genesis, 1, 1)]
        self.log += [(command(f"o{at}", lease_now_ms=at), at, entry_term) for at in range(2, index + further + 1)]
        self.machine = run(Machine(), self.log[:index])
        content = Content()
        self.records: dict[bytes, bytes] = {}
        for table, rows in self.machine.store.dump().items():
            for key, data in rows.items():
                name = record_name(table, msgspec.msgpack.decode(key))
                hashed, self.records[name] = seal(name, data)
                content.add(hashed)
        values = self.machine.freeze().values
        owner = JournalIdentity("lone", "n2", INCARNATIONS["n2"])
        self.meta = ImageMeta(owner, index, entry_term, content.digest, content.records, values)

    def install(self, term: int = 4, transfer: int = 1, round: int = 7, commit: int = 60) -> Install:
        meta, last = encode_meta(self.meta), self.log[self.index - 1][0]
        return Install(term, transfer, round, self.index, self.entry_term, last, meta, commit)

    def chunks(self, term: int = 4, transfer: int = 1, size: int = 40) -> list[InstallChunk]:
        """The records, so many a chunk, and an empty last one, as a leader sends them."""
        records = sorted(self.records.items())
        parts = [records[place : place + size] for place in range(0, len(records), size)] + [[]]
        return [
            InstallChunk(term, transfer, number, msgspec.msgpack.encode(part), number == len(parts) - 1)
            for number, part in enumerate(parts)
        ]


def run(machine: Machine, log: list[tuple[bytes, int, int]]) -> Machine:
    for data, index, _ in log:
        machine.apply(index, decode_entry(data[1:]))
    return machine
