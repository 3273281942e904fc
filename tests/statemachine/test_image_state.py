"""A machine made of an image equals the one it was taken of, whenever it was taken, and goes on the same."""

from __future__ import annotations

import random
from types import SimpleNamespace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemachine.entry import decode_entry
from statemachine.image_state import (
    DROPPED_AT_ONCE,
    Content,
    Frozen,
    ImageStateError,
    Loader,
    Values,
    check_values,
    content_of,
    drop,
    encode_record,
    format_of,
    record_hash,
    record_name,
)
from statemachine.machine import Machine
from statemachine.store import Store
from tests.statemachine.driver import Driver
from tests.statemachine.specimens import Specimen
from tests.statemachine.state import derived, differences, rebuilt, snapshot
from tests.statemachine.test_properties import happen


class Image:
    """Records as a disk would keep them, fed by freezes alone."""

    def __init__(self) -> None:
        self.records: dict[bytes, bytes] = {}
        self.content = Content()
        self.values: Values | None = None

    def write(self, frozen: Frozen) -> None:
        for (table, key), record in frozen.dirty.items():
            name = record_name(table, key)
            old = self.records.pop(name, None)
            if old is not None:
                self.content.remove(record_hash(name, old))
            if record is not None:
                data = self.records[name] = encode_record(record)
                self.content.add(record_hash(name, data))
        self.values = frozen.values

    def load(self, order: random.Random | None = None) -> Machine:
        assert self.values is not None
        loader = Loader()
        items = sorted(self.records.items())
        if order is not None:
            order.shuffle(items)
        for name, data in items:
            loader.add(name, data)
        assert loader.content.digest == self.content.digest
        assert loader.content.records == self.content.records == len(self.records)
        check_values(self.values)
        machine = Machine()
        machine.restore(self.values, loader.store)
        return machine


def values(machine: Machine) -> tuple[object, ...]:
    return (
        machine.index,
        machine.lease_now_ms,
        machine.wall_now_ms,
        machine.chain,
        machine.cluster_id,
        machine.feature_level,
        machine.members(),
        machine.due_lease_ms,
        machine.due_wall_ms,
    )


@pytest.mark.parametrize("seed", range(6))
def test_a_machine_of_an_image_is_the_one_that_was_frozen_and_goes_on_the_same(seed: int) -> None:
    log = happen(seed, steps=120).log
    rng = random.Random(seed)
    machine, image = Machine(), Image()
    image.write(machine.freeze())
    loaded: Machine | None = None
    for index, data in log:
        applied = machine.apply(index, decode_entry(data))
        if loaded is not None:
            assert loaded.apply(index, decode_entry(data)) == applied
            assert loaded.chain == machine.chain
        if rng.random() < 0.2:
            image.write(machine.freeze())
            assert image.content.digest == content_of(machine.store).digest
            loaded = image.load(rng)
            assert values(loaded) == values(machine)
            assert loaded.store.dump() == machine.store.dump()
            assert not differences(snapshot(machine.store), snapshot(loaded.store))
    image.write(machine.freeze())
    assert image.records == {
        name: data
        for table, records in machine.store.dump().items()
        for (key, data) in records.items()
        for name in [record_name(table, msgspec.msgpack.decode(key))]
    }


def test_nobody_who_takes_no_images_keeps_changes() -> None:
    driver = Driver()
    assert driver.first.store.dirty is None
    frozen = driver.first.freeze()
    assert frozen.dirty == {}
    driver.new_space("another")
    assert driver.first.store.dirty
    assert driver.second.store.dirty is None


def test_a_freeze_has_what_changed_since_the_last_one_and_no_more() -> None:
    driver = Driver()
    driver.first.freeze()
    space = driver.new_space("another")
    frozen = driver.first.freeze()
    assert ("spaces", space) in frozen.dirty
    assert frozen.values.index == len(driver.log)
    assert driver.first.freeze().dirty == {}


def test_a_refused_operation_changes_no_record_for_the_image(specimens: SimpleNamespace) -> None:
    driver = Driver()
    driver.first.freeze()
    with driver.expecting_defects():
        for fault in ("refused", "value"):
            assert driver.do("specimens.put", id="a", fault=fault).status >= 400
    assert driver.first.freeze().dirty == {}


def test_a_record_that_came_and_went_is_noted_as_gone(specimens: SimpleNamespace) -> None:
    driver = Driver()
    driver.first.freeze()
    driver.do("specimens.put", id="a")
    driver.do("specimens.remove", id="a")
    assert driver.first.freeze().dirty[("specimens", "a")] is None


# ---------------------------------------------------------------------- names and digests

keys = st.text(max_size=600) | st.tuples(st.text(max_size=300), st.text(max_size=300) | st.integers(0, 2**53))


@given(keys, keys)
def test_names_are_unique_and_short(one: object, other: object) -> None:
    assert (record_name("table", one) == record_name("table", other)) == (one == other)
    assert len(record_name("table", one)) <= 450
    assert record_name("table", one) != record_name("tables", one)


def test_names_of_usual_keys_sort_as_the_keys_do() -> None:
    keys = [("spc_1", number) for number in (1 << 40, (1 << 40) + 1, (1 << 41))]
    assert sorted(record_name("events", key) for key in keys) == [record_name("events", key) for key in keys]


@given(st.lists(st.binary(min_size=1, max_size=4), max_size=12, unique=True), st.randoms())
def test_a_digest_depends_on_the_records_and_not_on_the_way_to_them(names: list[bytes], rng: random.Random) -> None:
    straight, winding = Content(), Content()
    hashes = [record_hash(name, b"data") for name in names]
    for hashed in hashes:
        straight.add(hashed)
    rng.shuffle(hashes)
    for hashed in hashes:
        winding.add(hashed)
        winding.add(record_hash(b"passing", hashed))
        winding = Content(winding.digest, winding.records)
        winding.remove(record_hash(b"passing", hashed))
    assert (straight.digest, straight.records) == (winding.digest, winding.records) or not names
    assert winding.records == len(names)


def test_a_digest_tells_a_record_from_one_of_another_name_or_content() -> None:
    assert len({record_hash(b"a", b"b"), record_hash(b"a", b"c"), record_hash(b"b", b"b")}) == 3


# ---------------------------------------------------------------------- what cannot be loaded


@pytest.mark.parametrize(
    ("name", "data"),
    [
        (b"nobody\x00\xa1a", b"\x80"),  # a table that there is not
        (b"\xff\x00\xa1a", b"\x80"),
        (b"specimens", b"\x80"),  # a field is missing
        (b"specimens\x00\xa1a", b"\xc1"),
        (b"specimens\x00\xa1a", b""),
        (b"specimens\x00\xa1a", msgspec.msgpack.encode(Specimen(id="a", rank=1, amount="x"))),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_record_is_refused(specimens: SimpleNamespace, name: bytes, data: bytes) -> None:
    with pytest.raises(ImageStateError, match="is none of this build"):
        Loader().add(name, data)


def test_a_record_that_is_there_twice_is_refused(specimens: SimpleNamespace) -> None:
    loader = Loader()
    loader.add(record_name("specimens", "a"), encode_record(Specimen(id="a")))
    with pytest.raises(ImageStateError, match="twice"):
        loader.add(record_name("specimens", "a"), encode_record(Specimen(id="a")))


@pytest.mark.parametrize("changed", [{"format": 2}, {"format": 0}, {"feature_level": 2}])
def test_values_of_another_release_are_refused(changed: dict[str, int]) -> None:
    fine = Driver().first.freeze().values
    check_values(fine)
    check_values(Machine().freeze().values)
    with pytest.raises(ImageStateError, match="start a newer build"):
        check_values(msgspec.structs.replace(fine, **changed))


def test_a_machine_before_genesis_writes_the_first_format() -> None:
    assert format_of(0) == format_of(1) == Machine().freeze().values.format


# ---------------------------------------------------------------------- the end of a store


def test_a_store_is_dropped_in_steps(specimens: SimpleNamespace) -> None:
    store = Store()
    count = 3 * DROPPED_AT_ONCE
    for number in range(count):
        name = f"s{number}"
        store.rows(specimens.table).put(Specimen(id=name, alias=name, group="one", rank=number, lease_at_ms=number))
    store.settle()
    steps, before = 0, len(store.rows(specimens.table)._records)
    for _ in drop(store):
        steps += 1
        now = len(store.rows(specimens.table)._records)
        assert before - now <= DROPPED_AT_ONCE
        before = now
    assert steps > 3 * 3
    assert not any(derived(store)[name] for name in derived(store) if name != "usage")
    assert rebuilt(store)["usage"] == {}
