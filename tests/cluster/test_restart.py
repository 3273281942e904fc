"""A node that starts has its image and its log together, or does not start and says what to do."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from cluster.image import Image
from cluster.image_folder import CURRENT_FILE, DiskImages
from cluster.image_records import ImageError
from cluster.journal import InstallMark, Journal
from cluster.restart import ImageGround, next_name, recover
from cluster.worker import ImageThread
from statemachine.machine import Machine
from tests.cluster.imaged import OWNER, history, run, same
from tests.cluster.test_image_loading import threaded

LOG = history()
TERM = 2
START_EMPTY = "start this node with an empty one and admit its new incarnation"


class Node:
    """A data directory, and the lives of a node on it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.images = DiskImages(path / "image")
        Journal.create(str(path / "journal"), OWNER, LOG[0][1]).close()
        self.change(lambda journal: self.write(journal, len(LOG)))

    def journal(self) -> Journal:
        return Journal(str(self.path / "journal"))

    def change(self, act: object) -> None:
        journal = self.journal()
        act(journal)  # type: ignore[operator]
        journal.sync()
        journal.close()

    @staticmethod
    def write(journal: Journal, last: int) -> None:
        if journal.getCurrentTerm() < TERM:
            journal.setCurrentTerm(TERM, None)
        for index in range(journal.last_index + 1, last + 1):
            journal.add(b"\x20" + LOG[index - 1][1], index, TERM)

    def image(self, name: str, index: int, owner: object = OWNER) -> Image:
        """An image of the first entries, in a directory of this name; not the current one."""
        image = Image(name, self.images.open(name), owner)  # type: ignore[arg-type]
        machine = Machine()
        machine.freeze()
        image.write(run(machine, LOG[:index]).freeze(), index, TERM)
        image.close()
        return image

    def current(self, name: str, index: int) -> None:
        self.image(name, index)
        self.images.switch(name)

    def start(self) -> tuple[Machine, Image, Journal]:
        """Raises what a start raises; the rest of the log is applied."""
        journal, machine = self.journal(), Machine()

        async def scenario(worker: ImageThread) -> Image:
            return await recover(journal, ImageGround(self.images, worker, OWNER), machine)

        try:
            image = threaded(scenario)
        except BaseException:
            journal.close()
            raise
        image.close()
        return machine, image, journal

    def refusal(self) -> str:
        with pytest.raises(ImageError) as raised:
            self.start()
        return str(raised.value)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def mark(node: Node, image: Image) -> InstallMark:
    meta = image.meta
    assert meta is not None
    return InstallMark(meta.index, meta.term, b"\x20" + LOG[meta.index - 1][1], meta.content, image.name)


def test_a_new_node_makes_an_empty_image(node: Node) -> None:
    machine, image, journal = node.start()
    assert (image.index, machine.index, node.images.current()) == (0, 0, "image-1")
    journal.close()
    machine, image, journal = node.start()
    assert (image.index, node.images.names()) == (0, ["image-1"])
    journal.close()


def test_a_node_goes_on_from_its_image(node: Node) -> None:
    node.current("image-1", 30)
    node.change(lambda journal: journal.deleteEntriesTo(20))
    machine, image, journal = node.start()
    assert (image.index, journal.first_index, journal.last_index) == (30, 21, len(LOG))
    assert same(machine, run(Machine(), LOG[:30]))
    assert same(run(machine, LOG[30:]), run(Machine(), LOG))
    assert machine.store.dirty is not None
    journal.close()


def test_what_was_not_finished_is_removed(node: Node) -> None:
    node.current("image-3", 30)
    node.image("image-2", 10)
    (node.path / "image" / "image-4").mkdir()
    assert next_name(node.images) == "image-5"
    _, _, journal = node.start()
    journal.close()
    assert node.images.names() == ["image-3"]


# ---------------------------------------------------------------------- an install that was under way


def test_an_install_that_had_not_switched_is_forgotten(node: Node) -> None:
    node.current("image-1", 10)
    new = node.image("image-2", 40)
    node.change(lambda journal: (journal.deleteEntriesFrom(20), journal.set_mark(mark(node, new))))
    machine, image, journal = node.start()
    assert (image.index, machine.index, journal.last_index, journal.mark) == (10, 10, 20, None)
    assert node.images.names() == ["image-1"]
    journal.close()


def test_an_install_that_had_switched_is_finished(node: Node) -> None:
    new = node.image("image-2", 40)
    node.change(lambda journal: (journal.deleteEntriesFrom(20), journal.set_mark(mark(node, new))))
    node.images.switch("image-2")
    for _ in range(2):
        machine, image, journal = node.start()
        assert (image.index, journal.first_index, journal.last_index, journal.mark) == (40, 40, 40, None)
        assert journal[0] == (b"\x20" + LOG[39][1], 40, TERM)
        assert same(machine, run(Machine(), LOG[:40]))
        journal.close()


def test_a_log_that_agrees_with_the_installed_image_keeps_what_follows(node: Node) -> None:
    new = node.image("image-2", 30)
    node.change(lambda journal: journal.set_mark(mark(node, new)))
    node.images.switch("image-2")
    machine, _, journal = node.start()
    assert (journal.first_index, journal.last_index, journal.mark) == (1, len(LOG), None)
    assert same(run(machine, LOG[30:]), run(Machine(), LOG))
    journal.close()


def test_a_switch_to_something_else_than_was_to_be_installed_is_refused(node: Node) -> None:
    new = node.image("image-2", 40)
    wrong = msgspec.structs.replace(mark(node, new), content=b"x" * 16)
    node.change(lambda journal: (journal.deleteEntriesFrom(20), journal.set_mark(wrong)))
    node.images.switch("image-2")
    assert "is not the image that was installed there, of entry 40" in node.refusal()


# ---------------------------------------------------------------------- what does not belong together


def test_a_log_whose_beginning_is_in_no_image_is_refused(node: Node) -> None:
    node.change(lambda journal: journal.deleteEntriesTo(20))
    said = node.refusal()
    assert "the log begins with entry 21, and there is no image of what was before" in said
    assert START_EMPTY in said


@pytest.mark.parametrize(("first", "last", "index"), [(20, 30, 10), (1, 30, 40)])
def test_an_image_that_ends_outside_the_log_is_refused(node: Node, first: int, last: int, index: int) -> None:
    node.current("image-1", index)
    node.change(lambda journal: (journal.deleteEntriesFrom(last), journal.deleteEntriesTo(first - 1)))
    said = node.refusal()
    assert f"the image ends with entry {index} of term 2, which is not in the log of entries" in said
    assert START_EMPTY in said  # also when the log goes back to its beginning: it may be yesterday's


def test_an_image_that_ends_with_another_entry_is_refused(node: Node) -> None:
    node.current("image-1", 30)

    def rewrite(journal: Journal) -> None:
        journal.deleteEntriesFrom(25)
        journal.setCurrentTerm(TERM + 1, None)
        for index in range(26, 41):
            journal.add(b"\x01", index, TERM + 1)

    node.change(rewrite)
    assert "they do not belong together" in node.refusal()


def test_an_unreadable_image_is_refused_and_not_taken_for_an_empty_one(node: Node) -> None:
    node.current("image-1", 30)
    data = node.path / "image" / "image-1" / "data.mdb"
    data.write_bytes(data.read_bytes()[:8192])
    assert "move the directory `image` in the data directory away" in node.refusal()
    node.change(lambda journal: journal.deleteEntriesTo(10))
    assert START_EMPTY in node.refusal()


def test_a_lost_current_is_refused_unless_the_log_has_everything(node: Node) -> None:
    node.current("image-1", 30)
    (node.path / "image" / CURRENT_FILE).unlink()
    machine, image, journal = node.start()
    assert (image.index, machine.index, journal.first_index) == (0, 0, 1)
    journal.deleteEntriesTo(10)
    journal.sync()
    journal.close()
    (node.path / "image" / CURRENT_FILE).unlink()
    assert "there is no image of what was before" in node.refusal()


def test_another_nodes_image_is_refused(node: Node) -> None:
    node.image("image-1", 30, msgspec.structs.replace(OWNER, node_id="n2"))
    node.images.switch("image-1")
    assert "it belongs to" in node.refusal()
