"""A replica as the layers above see it."""

import asyncio

import pytest

from cluster.engine import Role
from cluster.node import Replica, Unavailable
from statemachine.machine import Applied
from tests.simulation.cluster import SimulatedCluster, simulate
from tests.simulation.lone import LoneNode, alone


def test_status_says_who_leads_and_how_far_everybody_is() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        leader = await cluster.elected()
        await cluster.write(leader.id, b"x")
        await cluster.until(cluster.settled)
        for node in cluster.nodes.values():
            status = node.running.status()
            assert status.node_id == node.id
            assert status.role == ("leader" if node is leader else "follower")
            assert (status.leader_id, status.leader_url) == (leader.id, f"http://{leader.id}.test")
            assert (status.term, status.commit_index, status.applied_index, status.last_index) == (2, 3, 3, 3)
            assert [member.id for member in status.members] == cluster.ids
            assert [member.connected for member in status.members] == [True] * 3
            assert [member.match_index for member in status.members] == ([3] * 3 if node is leader else [None] * 3)

    simulate(scenario)


def test_incarnations_are_those_of_the_present_connections() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.elected()
        replica = cluster["n1"].running
        assert [replica.incarnation_of(node_id) for node_id in cluster.ids] == [1000, 1001, 1002]
        cluster["n3"].crash()
        await asyncio.sleep(0.1)
        assert replica.incarnation_of("n3") is None
        cluster["n3"].incarnation = 4711
        await cluster["n3"].start()
        await asyncio.sleep(0.1)
        assert replica.incarnation_of("n3") == 4711

    simulate(scenario)


def test_a_node_that_has_not_started_has_a_status_and_holds_its_callers() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        replica = Replica(cluster.config("n1"))
        assert not replica.ready
        assert replica.status().role == "follower"
        assert replica.status().members == []
        assert replica.lease_now_ms() == 0
        with pytest.raises(Unavailable):
            await replica.propose(b"x", urgent=False, deadline=cluster.loop.now + 0.5)
        reading = asyncio.ensure_future(replica.read(cluster.loop.now + 5))
        await asyncio.sleep(0.1)
        assert not reading.done()
        reading.cancel()
        await replica.stop(1.0)

    simulate(scenario, start=False)


def test_callers_from_before_the_start_are_served() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        node = cluster["n1"]
        starting = asyncio.ensure_future(cluster.start())
        await asyncio.sleep(0)
        assert (await cluster.write(node.id, b"x")).status == 201
        await starting

    simulate(scenario, start=False)


def test_ready_means_a_leader_and_what_was_committed_before() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        assert not any(node.running.ready for node in cluster.nodes.values())
        leader = await cluster.elected()
        await cluster.until(lambda: all(node.running.ready for node in cluster.nodes.values()))
        late = next(node for node in cluster.nodes.values() if node is not leader)
        late.crash()
        for number in range(50):
            await cluster.write(leader.id, b"w%d" % number)
        committed = leader.core.engine.commit_index
        await late.start()
        await cluster.until(lambda: late.running.ready)
        assert late.core.engine.applied_index >= committed
        cluster.network.isolate(late.id)
        await cluster.until(lambda: not late.running.ready)

    simulate(scenario)


def test_subscribers_see_every_entry_once_and_in_order_with_the_state_applied() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        node = cluster["n2"]
        seen: list[tuple[int, int]] = []

        def applied(index: int, applied: Applied) -> None:
            assert node.running.machine.index == index
            seen.append((index, len(applied.outcomes)))

        node.running.subscribe(applied)
        for number in range(10):
            await cluster.write(node.id, b"w%d" % number)
        assert [index for index, _ in seen] == sorted({index for index, _ in seen})
        assert sum(count for _, count in seen) == 10

    simulate(scenario)


def test_a_restart_replays_the_log_to_the_same_state() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.elected()
        for number in range(200):
            await cluster.write("n1", b"w%d" % number)
        await cluster.until(cluster.settled)
        chain = cluster["n1"].running.machine.chain
        index = cluster["n1"].running.machine.index
        for node in cluster.nodes.values():
            node.crash()
        await cluster["n1"].start()
        assert cluster["n1"].core.engine.role is Role.FOLLOWER
        await cluster.until(lambda: cluster["n1"].running.machine.index >= index - 1)  # the hint may lag behind
        await cluster["n2"].start()
        await cluster.elected()
        await cluster.until(lambda: cluster["n1"].running.machine.index >= index)
        assert cluster["n1"].running.machine.chain == chain

    simulate(scenario)


def test_lease_time_is_known_everywhere_and_goes_on_over_a_change_of_leader() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        leader = await cluster.elected()
        await asyncio.sleep(6)
        known = [node.running.lease_now_ms() for node in cluster.nodes.values()]
        assert max(known) - min(known) < 100
        assert 4_500 < min(known) < 5_500
        leader.crash()
        new = await cluster.elected()
        assert -60 <= new.running.lease_now_ms() - max(known) < 700
        standing = new.running.lease_now_ms()
        await asyncio.sleep(0.9)
        assert new.running.lease_now_ms() == standing
        await asyncio.sleep(2)
        assert new.running.lease_now_ms() > standing + 1_500

    simulate(scenario)


def test_wall_time_in_the_log_follows_the_majority_over_changes_of_leader() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        cluster["n1"].clocks.skew_ms = 75 * 365 * 86_400_000
        for number in range(6):
            leader = await cluster.elected()
            while leader.core.wall_clock.alarm:  # until two good clocks are heard
                await asyncio.sleep(0.001)
            await cluster.write(leader.id, b"w%d" % number)
            true_ms = cluster["n2"].clocks.wall_ms()
            assert abs(leader.running.machine.wall_now_ms - true_ms) < 2_000
            leader.crash()
            await cluster.elected()
            await leader.start()

    simulate(scenario)


def test_every_node_stops_in_bounded_time_also_without_a_majority() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.elected()
        for node in cluster.nodes.values():
            begun = cluster.loop.now
            await node.stop()
            assert cluster.loop.now - begun < 2.1

    simulate(scenario)


def test_a_stopped_node_refuses_at_once() -> None:
    async def scenario(node: LoneNode) -> None:
        await node.replica.stop(0.0)
        assert not node.replica.ready
        for call in (node.replica.read(node.loop.now + 5), node.replica.propose(b"x", urgent=False, deadline=9e9)):
            with pytest.raises(Unavailable):
                await call

    alone(scenario)
