"""One connection: what leaves when, and how it ends."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest

from cluster.connection import OTHER_SIDE_CLOSED, Connection
from tests.cluster.loops import LOOPS, LoopFactory, run, until

both_loops = pytest.mark.parametrize("loop", LOOPS)


class Heard:
    """The owner of a connection, and what it was told."""

    def __init__(self) -> None:
        self.frames: list[object] = []
        self.reasons: list[str] = []

    def on_open(self, connection: Connection) -> None:
        pass

    def on_frames(self, connection: Connection, frames: list[object]) -> None:
        self.frames += frames

    def on_lost(self, connection: Connection, reason: str) -> None:
        self.reasons.append(reason)


def connected(loop: LoopFactory, work: Callable[[Connection, Heard, socket.socket], Any]) -> None:
    async def running() -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.settimeout(5)
        owner = Heard()
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: Connection(owner, None, 1000), sock=ours
        )
        try:
            await work(connection, owner, theirs)
        finally:
            connection.close("the test is over")
            theirs.close()
            await asyncio.sleep(0)

    run(loop, running())


@both_loops
def test_the_first_of_a_turn_leaves_at_once_and_the_others_together(loop: LoopFactory) -> None:
    async def work(connection: Connection, owner: Heard, other: socket.socket) -> None:
        for frame in (b"1", b"2", b"3"):
            connection.send(frame)
        assert other.recv(100) == b"1"
        assert connection.buffered_bytes == 2
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert other.recv(100) == b"23"
        assert connection.buffered_bytes == 0
        connection.send(b"4")
        assert other.recv(100) == b"4"

    connected(loop, work)


@both_loops
def test_nothing_leaves_a_closed_connection(loop: LoopFactory) -> None:
    async def work(connection: Connection, owner: Heard, other: socket.socket) -> None:
        connection.send(b"1")
        connection.send(b"2")
        connection.close("enough")
        connection.send(b"3")
        assert connection.buffered_bytes == 0
        connection.close("again")
        await asyncio.sleep(0.01)
        assert other.recv(100) == b"1"
        assert other.recv(100) == b""
        assert owner.reasons == ["enough"]
        connection.data_received(b"\x00\x00\x00\x01\xc0")
        assert owner.frames == []

    connected(loop, work)


@both_loops
def test_with_a_last_frame_all_that_was_sent_leaves(loop: LoopFactory) -> None:
    async def work(connection: Connection, owner: Heard, other: socket.socket) -> None:
        for frame in (b"1", b"2", b"3"):
            connection.send(frame)
        connection.close("refused", b"because")
        await asyncio.sleep(0.01)
        assert other.recv(100) == b"123because"
        assert other.recv(100) == b""
        assert owner.reasons == ["refused"]

    connected(loop, work)


@both_loops
def test_the_other_sides_end_is_told_once(loop: LoopFactory) -> None:
    async def work(connection: Connection, owner: Heard, other: socket.socket) -> None:
        other.send(b"\x00\x00\x00\x01\x07")
        other.close()
        await until(connection.closed.is_set)
        assert owner.frames == [7]
        assert owner.reasons == [OTHER_SIDE_CLOSED]

    connected(loop, work)


@both_loops
def test_a_malformed_frame_ends_it(loop: LoopFactory) -> None:
    async def work(connection: Connection, owner: Heard, other: socket.socket) -> None:
        other.send(b"\x00\x00\x00\x01\xc1")
        await until(connection.closed.is_set)
        assert len(owner.reasons) == 1
        assert "not msgpack" in owner.reasons[0]

    connected(loop, work)
