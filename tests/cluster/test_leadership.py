"""What a leader keeps is forgotten with its leadership, and its clocks go on from the log."""

import asyncio

from tests.simulation.cluster import SimulatedCluster, simulate
from tests.simulation.lone import LoneNode, alone, command


def test_clocks_go_on_from_the_last_entry_of_the_log_applied_or_not() -> None:
    async def scenario(node: LoneNode) -> None:
        entries = [(3, command("applied", 4_000)), (3, command("not yet", 9_000)), (3, b"\x01")]
        await node.tell("n2", node.append(3, (1, 1), entries, commit=2))
        assert node.replica.machine.lease_now_ms == 4_000
        await node.lead()
        assert node.core.lease_clock.stamp(node.loop.now) == 9_000
        assert node.replica.machine.lease_now_ms == 9_000

    alone(scenario)


def test_a_later_leadership_knows_nothing_of_an_earlier_one() -> None:
    async def scenario(node: LoneNode) -> None:
        term = await node.lead()
        node.core.intake.paused = True
        assert node.core.replication.progress["n2"].match_index > 0
        await node.tell("n2", node.append(term + 1, (2, term), [], commit=2))
        assert node.core.replication.progress == {}
        assert not node.core.intake.paused
        assert node.core.intake.is_idle
        node.core.election.deadline = 0.0
        later = await node.lead()
        assert later > term + 1
        assert node.core.replication.progress["n3"].match_index == 0

    alone(scenario)


def test_no_lease_runs_out_while_all_nodes_stand_still() -> None:
    """Nobody could renew one meanwhile, whoever leads afterwards."""

    async def scenario(cluster: SimulatedCluster) -> None:
        for number in range(5):
            await cluster.elected()
            before = (await cluster.write("n1", b"before-%d" % number)).index
            lease_ms = cluster["n1"].running.machine.lease_now_ms
            begun = cluster.loop.now
            for node_id in cluster.ids:
                cluster[node_id].sleep(30.0)
            await asyncio.sleep(30.0)
            await cluster.elected()
            assert (await cluster.write("n1", b"after-%d" % number)).index > before
            awake_ms = 1000 * (cluster.loop.now - begun - 30.0)
            assert cluster["n1"].running.machine.lease_now_ms - lease_ms <= awake_ms

    simulate(scenario)
