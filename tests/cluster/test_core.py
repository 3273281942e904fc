"""What a turn does and in which order; what is dropped; what is counted."""

import asyncio
from itertools import pairwise

import pytest

from cluster.core import APPLY_SLICE_S
from cluster.frames import Appended, AppendEntries, RequestVote
from statemachine.entry import Entry
from statemachine.machine import Applied, Machine
from tests.simulation.cluster import SimulatedCluster, simulate
from tests.simulation.lone import LoneNode, alone, command


def test_a_long_log_is_applied_in_slices_and_others_are_answered_between(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(node: LoneNode) -> None:
        original, cost_s = Machine.apply, 0.004

        def slow(machine: Machine, index: int, entry: Entry) -> Applied:
            node.loop.now += cost_s
            return original(machine, index, entry)

        monkeypatch.setattr(Machine, "apply", slow)
        await asyncio.sleep(0.01)
        node.give("n2", node.append(3, (1, 1), [(3, command(f"o{n}")) for n in range(100)], commit=101))
        begun, applied = node.loop.now, []
        while node.core.engine.applied_index < 101:
            await asyncio.sleep(0)
            applied.append(node.core.engine.applied_index)
            node.give("n2", node.append(3, (101, 3), [], round=len(applied)))
        # A slice is five entries; a kicked turn and one of the timer may fall into one pass of the loop.
        assert max(later - earlier for earlier, later in pairwise(applied)) <= 12
        assert node.loop.now - begun == pytest.approx(0.4)
        assert node.replica.metrics.long_turns == 0
        answers = [frame for _, frame in node.take() if isinstance(frame, Appended)]
        assert len(answers) > 0.4 / APPLY_SLICE_S / 2

    alone(scenario)


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
