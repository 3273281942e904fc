"""The log is never shorter than a crash may need, and no longer than slow followers are worth."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.fatal import InvariantBroken
from cluster.image_limits import ImageLimits
from cluster.trimming import Trimming


@dataclass
class Log:
    """In the place of the engine."""

    first_index: int = 1
    applied_index: int = 0
    trims: list[int] = field(default_factory=list)

    def trim_to(self, index: int) -> None:
        assert self.first_index < index <= self.applied_index
        self.first_index = index
        self.trims.append(index)


class Node:
    def __init__(self, limits: ImageLimits, first_index: int = 1, image_index: int = 0) -> None:
        self.log = Log(first_index, image_index)
        self.needed: int | None = None
        self.trimming = Trimming(cast(Any, self.log), limits, image_index, lambda: self.needed)

    def apply(self, count: int, size: int = 100) -> None:
        self.log.applied_index += count
        self.trimming.log_bytes += count * size

    def image(self) -> int:
        """Freeze; the image is durable when `durable` is told of it."""
        self.trimming.on_frozen(self.log.applied_index)
        return self.log.applied_index

    def whole_image(self) -> None:
        self.trimming.on_durable(self.image())


NOTHING_KEPT = ImageLimits(kept_entries=0)


def test_the_log_goes_back_to_the_image_before_the_last_durable_one() -> None:
    node = Node(NOTHING_KEPT)
    for expected in ([], [100], [100, 200], [100, 200, 300]):
        node.apply(100)
        node.whole_image()
        assert node.log.trims == expected


def test_an_image_that_is_not_durable_yet_lets_nothing_go() -> None:
    node = Node(NOTHING_KEPT)
    node.apply(100)
    node.whole_image()
    node.apply(100)
    index = node.image()
    assert node.log.first_index == 1
    node.apply(100)
    node.trimming.on_durable(index)
    assert node.log.first_index == 100


def test_so_many_entries_are_kept() -> None:
    node = Node(ImageLimits(kept_entries=1000))
    for _ in range(50):
        node.apply(100)
        node.whole_image()
    assert node.log.first_index == 5000 - 1000


def test_so_many_bytes_are_kept() -> None:
    node = Node(ImageLimits(kept_bytes=1000 * 100))
    for _ in range(50):
        node.apply(100)
        node.whole_image()
    assert node.log.first_index == 5000 - 1000
    node.apply(10, size=100 * 100)
    node.whole_image()
    assert node.log.first_index == 5000


def test_a_running_transfer_keeps_the_log_from_its_image_on() -> None:
    node = Node(NOTHING_KEPT)
    for _ in range(5):
        node.apply(100)
        node.whole_image()
    node.needed = 500
    for _ in range(5):
        node.apply(100)
        node.whole_image()
    assert node.log.first_index == 500
    node.needed = None
    node.apply(100)
    node.whole_image()
    assert node.log.first_index == 1000


def test_after_a_restart_the_image_that_was_found_counts_as_the_last_one() -> None:
    node = Node(NOTHING_KEPT, first_index=400, image_index=700)
    node.apply(100)
    assert node.log.trims == []
    node.whole_image()
    assert node.log.trims == [700]


def test_what_an_earlier_life_left_goes_once_it_is_older_than_what_is_kept() -> None:
    node = Node(ImageLimits(kept_entries=1000), first_index=400, image_index=700)
    for _ in range(7):
        node.apply(100)
        node.whole_image()
    assert node.log.first_index == 400
    node.apply(100)
    node.whole_image()
    assert node.log.first_index == 800


def test_after_an_install_the_log_begins_with_its_image() -> None:
    node = Node(NOTHING_KEPT)
    node.apply(100)
    node.whole_image()
    node.log.first_index = node.log.applied_index = 5000
    node.trimming.on_installed(5000)
    node.apply(100)
    node.whole_image()
    assert node.log.trims == []
    node.apply(100)
    node.whole_image()
    assert node.log.trims == [5100]


def test_an_image_that_goes_back_or_runs_ahead_ends_the_node() -> None:
    node = Node(NOTHING_KEPT)
    node.apply(100)
    node.whole_image()
    for index in (99, 101):
        with pytest.raises(InvariantBroken, match=f"an image of entry {index}"):
            node.trimming.on_durable(index)


@given(
    st.lists(st.tuples(st.integers(0, 400), st.integers(1, 5000), st.booleans(), st.booleans()), max_size=30),
    st.integers(0, 800),
    st.integers(0, 500_000),
)
def test_whatever_happens_the_image_before_the_last_durable_one_meets_the_log(
    steps: list[tuple[int, int, bool, bool]], kept_entries: int, kept_bytes: int
) -> None:
    node = Node(ImageLimits(kept_entries=kept_entries, kept_bytes=kept_bytes))
    durable, frozen, transfers = [0, 0], [0], []
    for count, size, written, transfer in steps:
        node.apply(count, size)
        if written:
            node.trimming.on_durable(frozen[-1])
            durable.append(frozen[-1])
            if transfer:
                transfers.append(durable[-1])
                node.needed = min(transfers)
        else:
            frozen.append(node.image())
        assert node.log.first_index <= max(durable[-2], 1)
        assert node.needed is None or node.log.first_index <= max(node.needed, 1)
