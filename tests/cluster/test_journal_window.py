"""The part of the log that is in memory."""

import pytest

from cluster.journal_window import Window


def _filled(count: int, limit_bytes: int = 1 << 20, command: bytes = b"x" * 100) -> Window:
    window = Window(limit_bytes, [])
    for index in range(1, count + 1):
        window.append((command, index, 1))
    return window


def test_it_stays_within_its_bound_once_entries_are_durable() -> None:
    window = _filled(1000, limit_bytes=30_000)
    assert window.size_bytes == 300_000
    window.shrink(durable_index=1000)
    assert window.size_bytes <= 30_000 * 3 // 4
    assert window[1000][1] == 1000
    assert window.first_index + len(window) == 1001


def test_it_keeps_what_is_not_durable() -> None:
    window = _filled(1000, limit_bytes=30_000)
    window.shrink(durable_index=10)
    assert window.first_index == 11
    window.shrink(durable_index=0)
    assert window.first_index == 11


def test_it_keeps_the_last_entry_whatever_its_size() -> None:
    window = _filled(3, limit_bytes=1, command=b"y" * 5000)
    window.shrink(durable_index=3)
    assert len(window) == 1
    assert window[3][1] == 3


def test_truncation_and_removal_of_the_head_give_their_bytes_back() -> None:
    window = _filled(10)
    window.truncate(6)
    window.drop_before(3)
    assert [entry[1] for entry in window.between(3, 99)] == [3, 4, 5, 6]
    assert window.size_bytes == 4 * 300
    window.drop_before(1)
    assert len(window) == 4
    window.reset([])
    assert window.size_bytes == 0
    assert window.last_term == 0


def test_a_range_before_the_window_is_a_mistake() -> None:
    window = _filled(10)
    window.drop_before(5)
    with pytest.raises(AssertionError):
        window.between(4, 6)
    assert window.between(6, 6) == []
    assert window.between(7, 5) == []
