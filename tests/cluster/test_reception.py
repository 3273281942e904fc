"""Every kind of frame has a handler; what is malformed reaches none, and nothing does after the end."""

from typing import Any, NoReturn

import pytest

from cluster import frames
from cluster.frames import AnyFrame, ReadIndex
from cluster.metrics import Metrics
from cluster.ports import SystemClocks
from cluster.reception import Reception
from tests.simulation.lone import LoneNode, alone


class _Ended(Exception):
    pass


def _end(reason: str, error: BaseException | None = None) -> NoReturn:
    raise _Ended(reason)


class Desk:
    def __init__(self) -> None:
        self.seen: list[object] = []
        self.metrics = Metrics()
        self.reception = Reception(
            SystemClocks(),
            self.metrics,
            _end,
            got_input=lambda: self.seen.append("input"),
            connected=lambda node_id: self.seen.append(("up", node_id)),
            disconnected=lambda node_id: self.seen.append(("down", node_id)),
        )
        self.reception.open({ReadIndex: self.take})

    def take(self, node_id: str, frame: Any, now: float) -> None:
        if frame.number == 0:
            raise ValueError("zero")
        self.seen.append((node_id, frame))


def test_every_kind_of_frame_has_a_handler() -> None:
    async def scenario(node: LoneNode) -> None:
        assert node.core._handlers().keys() == set(AnyFrame.__args__)

    alone(scenario)


def test_frames_and_connections_go_where_they_belong() -> None:
    desk, frame = Desk(), ReadIndex(1, 7)
    desk.reception.on_connected("n2")
    desk.reception.on_message("n2", frames.encode(frame))
    desk.reception.on_message("n2", {"type": "read_index"})
    desk.reception.on_disconnected("n2")
    assert desk.seen == [("up", "n2"), ("n2", frame), "input", ("down", "n2")]
    assert desk.metrics.malformed_frames == 1


def test_an_exception_out_of_a_handler_ends_the_node() -> None:
    with pytest.raises(_Ended, match="ValueError: zero"):
        Desk().reception.on_message("n2", frames.encode(ReadIndex(1, 0)))


def test_nothing_is_handled_after_the_end() -> None:
    desk = Desk()
    desk.reception.close()
    desk.reception.on_connected("n2")
    desk.reception.on_message("n2", frames.encode(ReadIndex(1, 7)))
    desk.reception.on_disconnected("n2")
    assert desk.seen == []
