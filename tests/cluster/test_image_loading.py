"""A store is made of an image in steps, and not made of one that is not what it says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from cluster.image import Image
from cluster.image_folder import DiskImages
from cluster.image_loading import STEP_RECORDS, drop_store, load_image
from cluster.image_records import META_KEY, ImageError, decode_meta, encode_meta, seal
from cluster.ports import ImageFile
from cluster.worker import ImageThread
from statemachine.machine import Machine
from statemachine.store import Store
from tests.cluster.imaged import OWNER, history, run, same
from tests.statemachine.specimens import Specimen, declared

T = TypeVar("T")


def no_end(reason: str, error: BaseException | None = None) -> Any:
    raise AssertionError(reason) from error


def threaded(scenario: Callable[[ImageThread], Coroutine[Any, Any, T]]) -> T:
    async def run() -> T:
        worker = ImageThread(no_end)
        try:
            return await scenario(worker)
        finally:
            worker.close()

    return asyncio.run(run())


@pytest.fixture
def file(tmp_path: Path) -> ImageFile:
    machine, file = Machine(), DiskImages(tmp_path).open("image-1")
    machine.freeze()
    Image("image-1", file, OWNER).write(run(machine, history()).freeze(), machine.index, 2)
    return file


def test_the_store_is_that_of_the_machine(file: ImageFile) -> None:
    async def scenario(worker: ImageThread) -> Machine:
        meta, store = await load_image(Image("image-1", file, OWNER), worker)
        machine = Machine()
        machine.restore(meta.values, store)
        return machine

    assert same(threaded(scenario), run(Machine(), history()))


def change(file: ImageFile, key: bytes, value: bytes | None) -> None:
    with file.transaction() as transaction:
        transaction.pop(key)
        if value is not None:
            transaction.replace(key, value)


def a_record(file: ImageFile) -> tuple[bytes, bytes]:
    snapshot = file.snapshot()
    (record,) = snapshot.after(b"organizations\x00", 1)
    snapshot.close()
    return record


def refusal(file: ImageFile) -> str:
    async def scenario(worker: ImageThread) -> str:
        with pytest.raises(ImageError) as raised:
            await load_image(Image("image-1", file, OWNER), worker)
        return str(raised.value)

    return threaded(scenario)


def test_a_damaged_record_is_named(file: ImageFile) -> None:
    name, stored = a_record(file)
    change(file, name, stored[:-1] + bytes([stored[-1] ^ 1]))
    assert refusal(file).startswith(("record b'organizations", "record b'"))


def test_a_record_that_is_gone_or_too_much_shows_in_the_digest(file: ImageFile) -> None:
    name, stored = a_record(file)
    change(file, name, None)
    assert "were written" in refusal(file)
    change(file, name, stored)
    _, another = seal(name + b"2", bytes(stored[16:]))
    change(file, name + b"2", another)
    assert "is there twice" in refusal(file)


def test_another_format_says_to_start_a_newer_build(file: ImageFile) -> None:
    snapshot = file.snapshot()
    meta = decode_meta(snapshot.meta() or b"")
    snapshot.close()
    values = msgspec.structs.replace(meta.values, feature_level=2)
    change(file, META_KEY, encode_meta(msgspec.structs.replace(meta, values=values)))
    assert "start a newer build" in refusal(file)


def test_the_loop_runs_while_an_image_is_loaded_and_a_store_dropped(tmp_path: Path) -> None:
    count = 20 * STEP_RECORDS

    async def turns(work: Coroutine[Any, Any, T]) -> tuple[int, T]:
        task, turned = asyncio.ensure_future(work), 0
        while not task.done():
            await asyncio.sleep(0)
            turned += 1
        return turned, task.result()

    with declared() as specimens:
        machine = Machine()
        machine.freeze()
        for number in range(count):
            machine.store.rows(specimens.table).put(Specimen(id=f"s{number}", group="g", rank=number))
        machine.store.settle()
        image = Image("image-1", DiskImages(tmp_path).open("image-1"), OWNER)
        image.write(machine.freeze(), 1, 1)
        told: list[int] = []

        async def scenario(worker: ImageThread) -> tuple[int, int, Store]:
            loading, (_, store) = await turns(load_image(image, worker, told.append))
            dropping, _ = await turns(drop_store(store))
            return loading, dropping, store

        loading, dropping, store = threaded(scenario)
        assert loading > 15
        assert dropping > 3
        assert told[-1] == count
        assert len(store.rows(specimens.table)) == 0
