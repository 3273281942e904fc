"""Leadership is handed over without a pause that clients would notice, or taken back."""

import asyncio

from cluster.frames import Transfer
from tests.simulation.cluster import ELECTION_TIMEOUT_MS, SimulatedCluster, simulate
from tests.simulation.lone import LoneNode, alone


def test_a_leader_that_stops_hands_over_first() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        for number in range(10):
            leader = await cluster.elected()
            others = [node_id for node_id in cluster.ids if node_id != leader.id]
            writes = [
                asyncio.ensure_future(cluster.write(others[place % 2], b"%d-%d" % (number, place)))
                for place in range(20)
            ]
            begun = cluster.loop.now
            await leader.stop()
            await cluster.elected(among=others)
            await asyncio.gather(*writes)
            assert cluster.loop.now - begun < 0.1
            await leader.start()
            await cluster.until(cluster.settled)
        cluster.check_log()

    simulate(scenario)


def test_writes_at_the_leader_itself_survive_its_stop() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        leader = await cluster.elected()
        writes = [asyncio.ensure_future(cluster.write(leader.id, b"%d" % number)) for number in range(2000)]
        await asyncio.sleep(0)
        await leader.stop()
        await asyncio.gather(*writes)
        await leader.start()
        await cluster.until(cluster.settled)
        cluster.check_log()

    simulate(scenario)


def test_requests_wait_while_it_is_under_way_and_go_on_when_it_is_undone() -> None:
    async def scenario(node: LoneNode) -> None:
        term = await node.lead()
        ended: list[bool] = []
        assert node.core.handover.begin(node.loop.now, ended.append)
        assert not node.core.handover.begin(node.loop.now, ended.append)  # one at a time
        node.core.kick()
        await node.turn()
        asked = [frame for to, frame in node.take() if to == "n2" and isinstance(frame, Transfer)]
        assert [(frame.term, frame.last_index) for frame in asked] == [(term, node.core.engine.last_index)]
        last = node.core.engine.last_index
        operation = SimulatedCluster.operation(b"x")
        write = asyncio.ensure_future(node.replica.propose(operation, urgent=False, deadline=node.loop.now + 5))
        begun = node.loop.now
        while not ended:
            assert node.core.engine.last_index == last
            node.acknowledge("n2")
            await asyncio.sleep(0.01)
        assert ended == [False]
        assert node.loop.now - begun < ELECTION_TIMEOUT_MS[1] / 1000 + 0.1
        await node.turn()
        node.acknowledge("n2")
        assert (await write).index == last + 1
        assert node.core.engine.is_leader

    alone(scenario)


def test_the_target_is_asked_once_it_has_everything() -> None:
    async def scenario(node: LoneNode) -> None:
        await node.lead()
        node.core.engine.append(b"entry")
        assert node.core.handover.begin(node.loop.now, lambda _: None)
        await node.turn()
        assert not [frame for _, frame in node.take() if isinstance(frame, Transfer)]
        node.core.replication.progress["n2"].match_index = node.core.engine.last_index
        node.core.handover.turn()
        node.core.handover.turn()
        node.journal.sync()
        node.core.outbox.flush()
        assert len([frame for _, frame in node.take() if isinstance(frame, Transfer)]) == 1

    alone(scenario)


def test_there_is_nobody_to_hand_over_to() -> None:
    async def scenario(node: LoneNode) -> None:
        assert not node.core.handover.begin(node.loop.now, lambda _: None)
        await node.lead()
        node.core.replication.progress["n2"].answered_at = float("-inf")
        assert not node.core.handover.begin(node.loop.now, lambda _: None)

    alone(scenario)


def test_a_target_that_is_gone_is_not_waited_for() -> None:
    async def scenario(node: LoneNode) -> None:
        await node.lead()
        ended: list[bool] = []
        assert node.core.handover.begin(node.loop.now, ended.append)
        node.transport.disconnect("n2")
        await asyncio.sleep(0.06)
        assert ended == [False]
        assert not node.core.intake.paused
        assert not node.core.handover.begin(node.loop.now, ended.append)

    alone(scenario)
