"""What a leader sends to a follower whose place in its log is gone: no more than its window, of no stale image."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from cluster.frames import Appended, AppendEntries, Install, InstallChunk, InstallProgress
from cluster.image_limits import ImageLimits
from cluster.image_records import decode_meta
from cluster.transfers import Transfers
from statemachine.entry import OPERATOR, encode_operation
from tests.simulation.lone import INCARNATIONS, LoneNode, alone

LIMITS = ImageLimits(
    every_s=0.1,
    kept_entries=0,
    chunk_bytes=600,
    window_chunks=2,
    transfer_log_bytes=20_000,
    stalled_s=2.0,
    again_s=0.5,
)


class Leader:
    """n1 leads, n2 has everything, n3 has nothing but the entry of genesis, and the log begins far behind that."""

    def __init__(self, node: LoneNode) -> None:
        self.node = node
        self.number = 0

    async def begin(self) -> None:
        self.node.limits = LIMITS
        await self.node.restart()
        await self.node.lead()
        for _ in range(8):
            await self.write(5)
        assert self.node.core.engine.first_index > 20
        self.sent()

    async def write(self, count: int, size: int = 10) -> None:
        """Have entries committed, and time pass; n3 refuses or waits."""
        for _ in range(count):
            self.number += 1
            name = f"w{self.number}".encode() + b"x" * size
            operation = encode_operation("organizations.create", "", OPERATOR, 0, None, b'{"name":"%s"}' % name)
            deadline = self.node.loop.now + 5
            writing = asyncio.ensure_future(self.node.replica.propose(operation, urgent=False, deadline=deadline))
            while not writing.done():
                await self.node.turn()
                self.node.acknowledge("n2")
            await writing
        await self.wait(0.15)

    async def wait(self, seconds: float) -> None:
        """Time passes; n2 answers."""
        ends_at = self.node.loop.now + seconds
        while self.node.loop.now < ends_at:
            await asyncio.sleep(0.02)
            self.node.acknowledge("n2")
            await self.node.turn()

    def sent(self) -> list[Any]:
        """What went to n3 since the last time."""
        return [frame for to, frame in self.node.take() if to == "n3"]

    def refuse(self) -> None:
        """n3 says how little it has."""
        core = self.node.core
        answer = Appended(core.engine.term, core.replication.round, INCARNATIONS["n3"], False, 0, 2, 1, 0)
        self.node.give("n3", answer)

    async def offer(self) -> Install:
        self.refuse()
        await self.wait(0.02)
        (install,) = [frame for frame in self.sent() if isinstance(frame, Install)]
        return install

    async def progress(self, transfer: int, received: int, loaded: int = 0) -> list[InstallChunk]:
        """n3 has so much; returns the chunks that follow."""
        self.node.give("n3", InstallProgress(self.node.core.engine.term, transfer, received, loaded))
        for _ in range(8):
            await self.node.turn()
        return [frame for frame in self.sent() if isinstance(frame, InstallChunk)]

    @property
    def transfers(self) -> Transfers:
        return self.node.core.imaging.transfers


def leading(scenario: Callable[[Leader], Coroutine[Any, Any, None]]) -> None:
    async def run(node: LoneNode) -> None:
        leader = Leader(node)
        await leader.begin()
        await scenario(leader)

    alone(run)


def test_the_whole_image_arrives_in_chunks_within_the_window() -> None:
    async def scenario(leader: Leader) -> None:
        install = await leader.offer()
        meta, engine = decode_meta(install.meta), leader.node.core.engine
        assert (meta.index, meta.term) == (install.index, install.entry_term)
        assert engine.first_index <= install.index <= engine.applied_index
        assert install.command == engine.records(install.index, 1, 1)[0][0]
        chunks: list[InstallChunk] = []
        received = 0
        while not (chunks and chunks[-1].last):
            found = await leader.progress(install.transfer, received)
            assert len(found) == (2 if received == 0 else 1)
            chunks += found
            received += 1
        assert [chunk.number for chunk in chunks] == list(range(len(chunks)))
        records = [record for chunk in chunks for record in msgspec.msgpack.decode(chunk.records)]
        assert len(records) == meta.records
        assert all(len(chunk.records) < 2 * LIMITS.chunk_bytes for chunk in chunks)
        assert await leader.progress(install.transfer, len(chunks)) == []

    leading(scenario)


def test_a_follower_that_waits_for_an_image_hears_heartbeats_that_agree_with_any_log() -> None:
    async def scenario(leader: Leader) -> None:
        await leader.offer()
        await leader.wait(0.3)
        heartbeats = [frame for frame in leader.sent() if isinstance(frame, AppendEntries)]
        assert len(heartbeats) > 4
        assert all((frame.prev_index, frame.prev_term, frame.entries) == (0, 0, []) for frame in heartbeats)

    leading(scenario)


def test_after_the_image_the_log_goes_on_and_was_kept_for_that() -> None:
    async def scenario(leader: Leader) -> None:
        install = await leader.offer()
        await leader.progress(install.transfer, 0)
        for _ in range(4):
            await leader.write(5)
            leader.node.give("n3", InstallProgress(leader.node.core.engine.term, install.transfer, 0, _ + 1))
        engine = leader.node.core.engine
        assert engine.first_index == install.index
        leader.sent()
        answer = Appended(
            engine.term, install.round, INCARNATIONS["n3"], True, install.index, install.index + 1, install.index, 0
        )
        leader.node.give("n3", answer)
        await leader.node.turn()
        (entries,) = [frame for frame in leader.sent() if isinstance(frame, AppendEntries) and frame.entries]
        assert (entries.prev_index, len(entries.entries)) == (install.index, engine.last_index - install.index)
        assert leader.transfers.needed_index() is None
        await leader.write(5)
        await leader.write(5)
        assert engine.first_index > install.index

    leading(scenario)


def test_one_transfer_a_follower_and_its_answers_alone_count() -> None:
    async def scenario(leader: Leader) -> None:
        install = await leader.offer()
        leader.refuse()
        await leader.wait(0.3)
        assert not [frame for frame in leader.sent() if isinstance(frame, Install)]
        assert await leader.progress(install.transfer + 1, 0) == []
        assert await leader.progress(install.transfer - 1, 3) == []
        assert len(await leader.progress(install.transfer, 0)) == 2
        assert await leader.progress(install.transfer, 0) == []  # doubled
        assert len(await leader.progress(install.transfer, 99)) == 2  # it cannot have what was not sent

    leading(scenario)


def test_a_transfer_without_progress_is_given_up_and_a_new_one_begins_with_a_newer_image() -> None:
    async def scenario(leader: Leader) -> None:
        install = await leader.offer()
        await leader.progress(install.transfer, 0)
        for _ in range(8):
            await leader.write(5)
        assert leader.transfers.needed_index() == install.index
        await leader.wait(1.5)
        (again,) = [frame for frame in leader.sent() if isinstance(frame, Install)]
        assert again.transfer > install.transfer
        assert again.index > install.index

    leading(scenario)


def test_a_follower_that_loads_for_long_is_waited_for() -> None:
    async def scenario(leader: Leader) -> None:
        install = await leader.offer()
        await leader.progress(install.transfer, 0)
        for loaded in range(1, 7):
            await leader.wait(1.0)
            await leader.progress(install.transfer, 2, loaded * 1000)
        assert leader.transfers.needed_index() == install.index

    leading(scenario)


def test_a_log_that_grows_too_much_meanwhile_makes_it_begin_again() -> None:
    async def scenario(leader: Leader) -> None:
        install = await leader.offer()
        for _ in range(5):
            await leader.progress(install.transfer, 0)
            await leader.write(4, size=1000)
        await leader.wait(0.2)
        (again,) = [frame for frame in leader.sent() if isinstance(frame, Install)]
        assert again.index > install.index

    leading(scenario)


def test_a_refused_image_is_offered_again_after_a_pause() -> None:
    async def scenario(leader: Leader) -> None:
        install = await leader.offer()
        assert await leader.progress(install.transfer, -1) == []
        await leader.wait(0.4)
        assert not [frame for frame in leader.sent() if isinstance(frame, Install)]
        await leader.wait(0.3)
        assert [frame for frame in leader.sent() if isinstance(frame, Install)]

    leading(scenario)


def test_a_lost_connection_or_leadership_ends_it_and_lets_go_of_the_snapshot() -> None:
    async def scenario(leader: Leader) -> None:
        install = await leader.offer()
        await leader.progress(install.transfer, 0)
        snapshot = leader.transfers._running["n3"].snapshot
        assert snapshot is not None
        leader.node.transport.disconnect("n3")
        await leader.wait(0.1)
        assert leader.transfers.needed_index() is None
        assert snapshot._closed  # type: ignore[attr-defined]
        assert await leader.progress(install.transfer, 1) == []
        leader.node.transport.connect("n3")
        again = await leader.offer()
        assert again.transfer > install.transfer
        await leader.node.tell("n2", leader.node.append(leader.node.core.engine.term + 1, (1, 1), []))
        assert leader.transfers.needed_index() is None
        assert await leader.progress(again.transfer, 1) == []

    leading(scenario)


def test_one_that_ends_before_its_snapshot_is_there_sends_nothing() -> None:
    async def scenario(leader: Leader) -> None:
        leader.transfers.begin("n3", leader.node.loop.now)
        leader.transfers.lost_connection("n3")
        await leader.wait(0.1)
        assert not [frame for frame in leader.sent() if isinstance(frame, Install)]

    leading(scenario)
