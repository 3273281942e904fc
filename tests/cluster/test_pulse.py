"""A loop that stood still judges no timeout before it has read what came meanwhile."""

import asyncio
from typing import NoReturn

from cluster.pulse import Pulse
from tests.simulation.cluster import SimulatedClocks, SimulatedCluster, simulate
from tests.simulation.virtual_loop import NodeEnded, VirtualLoop


def _end(reason: str, error: BaseException | None = None) -> NoReturn:
    raise NodeEnded(reason)


def test_kicks_of_one_moment_are_one_turn() -> None:
    loop = VirtualLoop()
    turns = 0

    async def run() -> None:
        nonlocal turns

        def turn() -> None:
            nonlocal turns
            turns += 1

        pulse = Pulse(SimulatedClocks(loop), _end, turn, lambda: None, lambda now: now + 10)
        for _ in range(5):
            pulse.kick()
        await asyncio.sleep(0)
        assert turns == 1
        pulse.kick()
        pulse.close()
        await asyncio.sleep(0)
        assert turns == 1

    loop.run(run())


def test_the_timer_follows_what_is_due_next_and_waits_for_input() -> None:
    loop = VirtualLoop()

    async def run() -> None:
        order: list[object] = []
        due_at = loop.now + 5

        def tick() -> None:
            nonlocal due_at
            order.append(round(loop.now - begun, 3))
            due_at = loop.now + 5

        begun = loop.now
        pulse = Pulse(SimulatedClocks(loop), _end, lambda: None, tick, lambda now: due_at)
        pulse.start()
        await asyncio.sleep(0.001)
        order.clear()
        due_at = begun + 2
        pulse.kick()  # a turn finds that something is due earlier
        await asyncio.sleep(1.999)

        def input_arrives(left: int) -> None:
            order.append("input")
            pulse.got_input()
            if left:
                loop.call_soon(input_arrives, left - 1)

        loop.call_at(begun + 2, input_arrives, 3)
        await asyncio.sleep(0.1)
        assert order == ["input"] * 4 + [2.0]
        pulse.close()

    loop.run(run())


def test_a_node_that_slept_reads_first_and_asks_for_no_election() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        leader = await cluster.elected()
        follower = next(node for node in cluster.nodes.values() if node is not leader)
        asked: list[str] = []
        cluster.network.watchers.append(
            lambda sender, _, message: asked.append(sender) if message["type"] == "pre_vote" else None
        )
        for _ in range(20):
            follower.sleep(0.8)
            await asyncio.sleep(1.0)
        assert asked == []
        assert leader.core.engine.is_leader

    simulate(scenario)


def test_a_leader_that_slept_less_than_others_wait_goes_on_leading() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        leader = await cluster.elected()
        term = leader.core.engine.term
        for number in range(20):
            write = asyncio.ensure_future(cluster.write(leader.id, b"w%d" % number))
            leader.sleep(0.25)
            await write
        assert leader.core.engine.term == term
        assert leader.core.leads()

    simulate(scenario)
