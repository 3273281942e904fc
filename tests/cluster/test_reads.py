"""Reads are as new as the moment they were asked, through any node, or are not answered."""

import asyncio

import pytest

from cluster.frames import AppendEntries, ReadAnswer, ReadIndex
from cluster.node import Unavailable
from tests.simulation.cluster import SimulatedCluster, simulate
from tests.simulation.lone import LoneNode, alone


def read(node: LoneNode, seconds: float = 5.0) -> asyncio.Task[int]:
    return asyncio.ensure_future(node.replica.read(node.loop.now + seconds))


async def follow(node: LoneNode, leader: str = "n2", term: int = 3, commit: int = 2) -> None:
    await node.tell(leader, node.append(term, (1, 1), [(3, b"\x01")], commit=commit))


def questions(node: LoneNode, leader: str) -> list[int]:
    return [frame.number for to, frame in node.take() if to == leader and isinstance(frame, ReadIndex)]


def test_a_leader_waits_for_a_round_that_left_after_the_question() -> None:
    async def scenario(node: LoneNode) -> None:
        await node.lead()
        asked_in = node.core.replication.round
        reading = read(node)
        await node.turn()
        assert sum(isinstance(frame, AppendEntries) for _, frame in node.take()) == 2
        node.acknowledge("n2", round=asked_in)
        await node.turn()
        assert not reading.done()
        node.acknowledge("n2", round=asked_in + 1)  # the frame to n2 is the first of the round
        await node.turn()
        assert await reading == node.core.engine.applied_index

    alone(scenario)


def test_while_a_round_is_out_the_next_readers_gather_for_the_following() -> None:
    async def scenario(node: LoneNode) -> None:
        await node.lead()
        first = read(node)
        await node.turn()
        later = [read(node) for _ in range(5)]
        await node.turn()
        await node.turn()
        assert node.replica.metrics.read_rounds == 1
        node.acknowledge("n2")
        await node.turn()
        assert first.done()
        assert not any(task.done() for task in later)
        node.core.kick()
        await node.turn()
        assert node.replica.metrics.read_rounds == 2
        node.acknowledge("n2")
        await node.turn()
        assert all(task.done() for task in later)

    alone(scenario)


def test_a_follower_asks_once_a_turn_and_waits_until_it_has_applied_so_far() -> None:
    async def scenario(node: LoneNode) -> None:
        await follow(node, commit=1)
        readers = [read(node) for _ in range(3)]
        await node.turn()
        (number,) = questions(node, "n2")
        await node.tell("n2", ReadAnswer(3, number, 2))
        assert not readers[0].done()
        await node.tell("n2", node.append(3, (2, 3), [], commit=2))
        assert [await task for task in readers] == [2, 2, 2]

    alone(scenario)


def test_the_next_leader_and_a_new_connection_are_asked_again() -> None:
    async def scenario(node: LoneNode) -> None:
        await follow(node)
        reading = read(node)
        await node.turn()
        assert len(questions(node, "n2")) == 1
        node.transport.disconnect("n2")
        node.transport.connect("n2")
        await node.turn()
        assert len(questions(node, "n2")) == 1
        for _ in range(6):  # an answer may be lost in other ways
            await asyncio.sleep(0.1)
            node.give("n2", node.append(3, (2, 3), [], commit=2))
        node.core.kick()
        await node.turn()
        assert len(questions(node, "n2")) == 1
        node.give("n3", node.append(4, (2, 3), [(4, b"\x01")], commit=2))
        node.core.kick()
        await node.turn()
        (number,) = questions(node, "n3")
        await node.tell("n3", ReadAnswer(4, number, 2))
        assert await reading == 2

    alone(scenario)


def test_the_answer_to_a_process_that_has_ended_is_none_for_the_next() -> None:
    """The leader kept the question until a majority had confirmed it; a write may have ended meanwhile."""

    async def scenario(node: LoneNode) -> None:
        await follow(node)
        with pytest.raises(Unavailable):
            await read(node, 0.1)
        (old,) = questions(node, "n2")
        await node.restart()
        await node.tell("n2", node.append(3, (2, 3), [], commit=2))
        reading = read(node)
        await node.turn()
        (number,) = questions(node, "n2")
        await node.tell("n2", ReadAnswer(3, old, 2))
        await node.turn()
        assert not reading.done()
        await node.tell("n2", ReadAnswer(3, number, 2))
        assert await reading == 2

    alone(scenario)


def test_who_does_not_lead_sends_the_asker_on() -> None:
    async def scenario(node: LoneNode) -> None:
        answer = await node.answer("n3", ReadIndex(1, 7), ReadAnswer)
        assert (answer.number, answer.index) == (7, 0)
        term = await node.lead()
        assert (await node.answer("n3", ReadIndex(term - 1, 8), ReadAnswer)).index == 0
        assert [f for _, f in await node.tell("n3", ReadIndex(term, 9)) if isinstance(f, ReadAnswer)] == []
        sent = await node.tell("n2", node.append(term + 1, (2, term), [], commit=2))
        assert ("n3", ReadAnswer(term, 9, 0)) in sent

    alone(scenario)


def test_a_read_without_a_leader_ends_at_its_deadline() -> None:
    async def scenario(node: LoneNode) -> None:
        begun = node.loop.now
        with pytest.raises(Unavailable):
            await read(node, 1.0)
        assert 1.0 <= node.loop.now - begun < 1.1

    alone(scenario)


def test_every_node_reads_what_was_written_before_through_any_other() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.elected()
        for number in range(60):
            await cluster.write(cluster.rng.choice(cluster.ids), b"w%d" % number)
            await asyncio.gather(*(cluster.read(node_id) for node_id in cluster.ids))

    simulate(scenario)
