"""What a turn does and in which order; what is dropped; what is counted."""

import asyncio

import pytest

from cluster.frames import AppendEntries, RequestVote
from tests.simulation.cluster import SimulatedCluster, simulate
from tests.simulation.lone import LoneNode, alone, command


def test_what_arrives_after_the_end_is_ignored() -> None:
    async def scenario(node: LoneNode) -> None:
        node.core.close()
        node.give("n2", RequestVote(9, 9, 9, 1002, 0))
        node.transport.connect("n2")
        node.transport.disconnect("n2")
        await asyncio.sleep(5)
        assert node.take() == []
        assert node.core.engine.term == 1

    alone(scenario)


def test_a_turn_that_takes_long_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(node: LoneNode) -> None:
        sync = node.journal.sync

        def slow() -> None:
            node.loop.now += 0.2
            sync()

        monkeypatch.setattr(node.journal, "sync", slow)
        await node.tell("n2", node.append(3, (1, 1), [(3, command("x"))]))
        assert node.replica.metrics.long_turns == 1

    alone(scenario)


def test_the_commit_travels_with_the_next_entries_or_alone() -> None:
    async def scenario(node: LoneNode) -> None:
        await node.lead()
        node.acknowledge("n3")
        await node.turn()
        node.take()
        waiting = [
            asyncio.ensure_future(
                node.replica.propose(SimulatedCluster.operation(b"x"), urgent=False, deadline=node.loop.now + 5)
            )
        ]
        await node.turn()
        node.take()
        index = node.core.engine.last_index
        node.acknowledge("n2")
        await node.turn()
        news = [frame for to, frame in node.take() if to == "n3" and isinstance(frame, AppendEntries)]
        assert [(frame.quiet, frame.commit_index, frame.entries) for frame in news] == [(True, index, [])]
        await asyncio.gather(*waiting)

    alone(scenario)


def test_gauges_follow_the_node() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        leader = await cluster.elected()
        for number in range(5):
            await cluster.write(leader.id, b"w%d" % number)
        await cluster.until(cluster.settled)
        await asyncio.sleep(0.1)
        metrics = leader.running.metrics
        assert (metrics.is_leader, metrics.term, metrics.elections, metrics.leaderships) == (1, 2, 1, 1)
        assert metrics.commit_index == metrics.applied_index == metrics.last_index == 7
        assert metrics.follower_lag == {node_id: 0 for node_id in cluster.ids if node_id != leader.id}
        assert (metrics.entries_proposed, metrics.operations_proposed, metrics.operations_applied) == (5, 5, 6)
        assert metrics.commit_seconds.count == 5
        assert metrics.syncs == metrics.sync_seconds.count > 5
        assert (metrics.operations_waiting, metrics.operations_pending) == (0, 0)

    simulate(scenario)
