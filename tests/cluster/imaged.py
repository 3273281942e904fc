"""Machines with a history, and their images: what tests of images begin with."""

from __future__ import annotations

from cluster.image import Image
from cluster.image_records import data_of, hash_of
from cluster.journal_records import JournalIdentity
from statemachine.entry import decode_entry
from statemachine.image_state import Loader, record_hash
from statemachine.machine import Machine
from tests.statemachine.test_properties import happen

OWNER = JournalIdentity("cls_test", "n1", 101)


def history(seed: int = 1, entries: int = 60) -> list[tuple[int, bytes]]:
    """A log in which all kinds of things happen: (index, entry)."""
    log = happen(seed, steps=2 * entries).log[:entries]
    assert len(log) == entries
    return log


def run(machine: Machine, log: list[tuple[int, bytes]]) -> Machine:
    for index, data in log:
        machine.apply(index, decode_entry(data))
    return machine


def loaded(image: Image) -> Machine:
    """The machine that an image makes, everything in it checked."""
    meta, snapshot = image.snapshot()
    loader = Loader()
    name = None
    try:
        while records := snapshot.after(name, 1000):
            for name, stored in records:
                assert hash_of(stored) == record_hash(name, data_of(stored))
                loader.add(name, data_of(stored))
    finally:
        snapshot.close()
    assert (loader.content.digest, loader.content.records) == (meta.content, meta.records)
    machine = Machine()
    machine.restore(meta.values, loader.store)
    return machine


def same(one: Machine, other: Machine) -> bool:
    """Whether two machines are equal in all that an image keeps."""
    return (one.index, one.chain, one.lease_now_ms, one.wall_now_ms, one.store.dump()) == (
        other.index,
        other.chain,
        other.lease_now_ms,
        other.wall_now_ms,
        other.store.dump(),
    )
