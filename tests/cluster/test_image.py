"""An image follows its machine by whole transactions: after whatever end it is one that was written, or the next."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from cluster.failpoints import Failpoints
from cluster.image import AFTER_COMMIT, BEFORE_COMMIT, RECORD, Image
from cluster.image_folder import DiskImages
from cluster.image_records import ImageError
from cluster.ports import ImageFile
from statemachine.image_state import content_of
from statemachine.machine import Machine
from tests.cluster.imaged import OWNER, history, loaded, run, same

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> DiskImages:
    return DiskImages(tmp_path / "image")


@pytest.fixture
def file(folder: DiskImages) -> Iterator[ImageFile]:
    file = folder.open("image-1")
    yield file
    file.close()


def test_an_image_that_follows_a_machine_is_that_machine(folder: DiskImages, file: ImageFile) -> None:
    log = history()
    machine, image = Machine(), Image("image-1", file, OWNER)
    assert (image.index, image.meta) == (0, None)
    machine.freeze()
    for place in range(0, len(log), 7):
        run(machine, log[place : place + 7])
        meta = image.write(machine.freeze(), machine.index, 3)
        assert (meta.index, meta.term, meta.owner) == (machine.index, 3, OWNER)
        assert meta.content == content_of(machine.store).digest
    assert same(loaded(image), machine)
    image.close()
    again = Image("image-1", folder.open("image-1"), OWNER)
    assert again.meta == meta
    assert same(loaded(again), machine)
    again.close()


def test_a_snapshot_stays_what_it_was(file: ImageFile) -> None:
    log = history()
    machine, image = Machine(), Image("image-1", file, OWNER)
    machine.freeze()
    run(machine, log[:20])
    image.write(machine.freeze(), 20, 2)
    meta, snapshot = image.snapshot()
    before = snapshot.after(None, 1 << 30)
    run(machine, log[20:])
    image.write(machine.freeze(), machine.index, 2)
    assert snapshot.after(None, 1 << 30) == before
    assert meta.index == 20
    assert len(before) == meta.records
    snapshot.close()


def test_a_snapshot_is_read_in_pieces_of_bounded_bytes(file: ImageFile) -> None:
    machine, image = Machine(), Image("image-1", file, OWNER)
    machine.freeze()
    run(machine, history())
    image.write(machine.freeze(), machine.index, 2)
    meta, snapshot = image.snapshot()
    names: list[bytes] = []
    while records := snapshot.after(names[-1] if names else None, 2000):
        assert sum(len(name) + len(stored) for name, stored in records[:-1]) < 2000
        names += [name for name, _ in records]
    assert len(names) == len(set(names)) == meta.records
    assert names == sorted(names)
    snapshot.close()


def test_an_empty_image_has_no_snapshot(file: ImageFile) -> None:
    with pytest.raises(ImageError, match="there is no image yet"):
        Image("image-1", file, OWNER).snapshot()


def test_a_filled_draft_is_the_image_that_it_was_filled_from(folder: DiskImages, file: ImageFile) -> None:
    machine, image = Machine(), Image("image-1", file, OWNER)
    machine.freeze()
    run(machine, history())
    image.write(machine.freeze(), machine.index, 2)
    meta, snapshot = image.snapshot()
    other = msgspec.structs.replace(OWNER, node_id="n2", incarnation=102)
    draft = Image("image-2", folder.open("image-2", draft=True), other)
    for record in snapshot.after(None, 1 << 30):
        draft.fill([record])
    snapshot.close()
    draft.finish(meta)
    assert draft.meta == msgspec.structs.replace(meta, owner=other)
    draft.close()
    opened = Image("image-2", folder.open("image-2"), other)
    assert same(loaded(opened), machine)
    opened.close()


def test_an_image_never_goes_back(file: ImageFile) -> None:
    machine, image = Machine(), Image("image-1", file, OWNER)
    machine.freeze()
    run(machine, history())
    image.write(machine.freeze(), 50, 2)
    with pytest.raises(ImageError, match="back from entry 50 to 49"):
        image.write(machine.freeze(), 49, 2)


def test_somebody_elses_image_is_refused(file: ImageFile) -> None:
    machine, image = Machine(), Image("image-1", file, OWNER)
    machine.freeze()
    image.write(run(machine, history()).freeze(), machine.index, 2)
    for changed in ({"cluster_id": "other"}, {"node_id": "n2"}, {"incarnation": 5}):
        with pytest.raises(ImageError, match="it belongs to"):
            Image("image-1", file, msgspec.structs.replace(OWNER, **changed))


def test_records_without_a_description_are_refused(file: ImageFile) -> None:
    with file.transaction() as transaction:
        transaction.replace(b"claims\x00x", b"y")
    with pytest.raises(ImageError, match="no description"):
        Image("image-1", file, OWNER)


# ---------------------------------------------------------------------- ends in the middle


@pytest.mark.parametrize("point", [RECORD, BEFORE_COMMIT])
def test_a_write_that_fails_leaves_the_image_before(folder: DiskImages, file: ImageFile, point: str) -> None:
    log, points = history(), Failpoints()
    machine, image = Machine(), Image("image-1", file, OWNER, points)
    machine.freeze()
    run(machine, log[:20])
    image.write(machine.freeze(), 20, 2)
    before = loaded(image)

    def fail(point: str) -> None:
        raise OSError(28, "No space left on device")

    points.arm(point, fail, 2 if point == RECORD else 1)
    run(machine, log[20:])
    with pytest.raises(ImageError, match=r"No space left on device.* Free space"):
        image.write(machine.freeze(), machine.index, 2)
    image.close()
    again = Image("image-1", folder.open("image-1"), OWNER)
    assert again.index == 20
    assert same(loaded(again), before)
    again.close()


SAVES = """
import sys
from pathlib import Path
from cluster.failpoints import Failpoints
from cluster.image import Image
from cluster.image_folder import DiskImages
from statemachine.machine import Machine
from tests.cluster.imaged import OWNER, history, run

folder, log, machine = DiskImages(Path(sys.argv[1])), history(), Machine()
image = Image("image-1", folder.open("image-1"), OWNER, Failpoints([sys.argv[2]]))
machine.freeze()
for place in range(0, len(log), 10):
    run(machine, log[place : place + 10])
    image.write(machine.freeze(), machine.index, 2)
    print(machine.index, flush=True)
"""


@pytest.mark.parametrize("point", [f"{RECORD}=kill@25", f"{BEFORE_COMMIT}=kill@3", f"{AFTER_COMMIT}=kill@3"])
def test_killed_at_any_step_of_a_save_it_is_one_whole_image(folder: DiskImages, point: str) -> None:
    run_ = subprocess.run(
        [sys.executable, "-c", SAVES, str(folder.path), point], cwd=ROOT, capture_output=True, timeout=60, check=False
    )
    assert run_.returncode == -signal.SIGKILL, run_.stderr.decode()
    told = [int(line) for line in run_.stdout.split()]
    assert told
    image = Image("image-1", folder.open("image-1"), OWNER)
    assert image.index == told[-1] + (10 if point.startswith(AFTER_COMMIT) else 0)
    assert same(loaded(image), run(Machine(), history()[: image.index]))
    image.close()
