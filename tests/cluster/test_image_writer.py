"""Images are written behind: so often, one at a time, each of exactly the entry that it says."""

from __future__ import annotations

import asyncio
import random

import pytest

from cluster.fatal import Fatal
from cluster.image_records import ImageMeta
from cluster.image_writer import ImageWriter
from statemachine.entry import encode_entry
from statemachine.image_state import content_of
from statemachine.membership import IMAGE_HERE
from tests.cluster.offered import Offer
from tests.cluster.test_install import follow, pass_by
from tests.simulation import lone
from tests.simulation.images import SimulatedThread
from tests.simulation.lone import LoneNode, alone


def writer(node: LoneNode) -> ImageWriter:
    return node.core.imaging.writer


def written(node: LoneNode) -> list[int]:
    """From now on: the indexes of the images that became durable."""
    indexes: list[int] = []
    before = writer(node)._written

    def note(meta: ImageMeta, marked: bool) -> None:
        indexes.append(meta.index)
        before(meta, marked)

    writer(node)._written = note
    return indexes


def test_an_image_follows_what_was_applied_twice_a_second_and_not_more_often() -> None:
    async def scenario(node: LoneNode) -> None:
        offer, indexes = Offer(), written(node)
        for at in range(2, 52):
            await node.tell("n2", follow(node, [offer.log[at - 1]]))
            await asyncio.sleep(0.05)
        assert 4 <= len(indexes) <= 6
        assert indexes == sorted(set(indexes))
        await asyncio.sleep(1.0)
        assert indexes[-1] == 51
        images = node.replica.metrics.images
        await asyncio.sleep(5.0)
        assert node.replica.metrics.images == images  # nothing was applied since
        assert node.replica.metrics.image_index == 51

    alone(scenario)


def test_an_image_holds_what_changed_and_its_digest() -> None:
    async def scenario(node: LoneNode) -> None:
        offer = Offer()
        await node.tell("n2", follow(node, offer.log[1:50]))
        await asyncio.sleep(0.6)
        meta = writer(node).image.meta
        assert meta is not None
        assert (meta.index, meta.term, meta.content, meta.records) == (50, 3, offer.meta.content, offer.meta.records)
        assert meta.content == content_of(node.replica.machine.store).digest

    alone(scenario)


@pytest.fixture
def slow_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(end: Fatal, rng: random.Random) -> SimulatedThread:
        return SimulatedThread(end, rng, (0.3, 0.3))

    monkeypatch.setattr(lone, "SimulatedThread", slow)


def test_a_marked_entry_has_an_image_of_exactly_itself(slow_thread: None) -> None:
    async def scenario(node: LoneNode) -> None:
        offer, indexes = Offer(), written(node)
        mark = b"\x20" + encode_entry(9, 9, bytes(16), [IMAGE_HERE], [("", 0, 0)])
        log = [(mark, at, 3) if at in (20, 21, 33) else (data, at, 3) for data, at, _ in offer.log[1:50]]
        await node.tell("n2", follow(node, log))
        await asyncio.sleep(3.0)
        assert indexes[:3] == [20, 21, 33]
        assert indexes[-1] == 50

    alone(scenario)


def test_writes_do_not_overlap_and_none_begins_while_it_is_held(slow_thread: None) -> None:
    async def scenario(node: LoneNode) -> None:
        offer = Offer()
        await node.tell("n2", follow(node, offer.log[1:20]))
        await asyncio.sleep(0.55)
        assert writer(node).busy
        assert not writer(node).hold()
        await node.tell("n2", follow(node, offer.log[20:40]))
        await asyncio.sleep(2.0)
        assert writer(node).hold()
        assert writer(node).image.index == 20
        writer(node).release()
        await asyncio.sleep(1.0)
        assert writer(node).image.index == 40
        await pass_by(node)

    alone(scenario)


def test_a_write_that_fails_ends_the_node() -> None:
    async def scenario(node: LoneNode) -> None:
        def refuse(what: str) -> None:
            if what == "before image":
                raise OSError("no space left on device")

        node.disk.passed = refuse
        await node.tell("n2", follow(node, Offer().log[1:20]))
        await asyncio.sleep(1.0)
        assert node.ended is not None
        assert "the image thread failed: OSError: no space left on device" in node.ended

    alone(scenario, may_end=True)
