"""A node whose disk was lost counts for nothing until it is admitted, and in full from then on."""

import asyncio
import json
from functools import partial

import pytest

from cluster.node import OutcomeUnknown
from statemachine.entry import OPERATOR, encode_operation
from tests.simulation.cluster import SimulatedCluster, SimulatedNode, simulate
from tests.simulation.disk import Disk


async def lose_disk(node: SimulatedNode, incarnation: int) -> None:
    node.crash()
    node.disk = Disk(node.disk.records[:1], 1, None, 1)
    node.incarnation = incarnation
    await node.start()


async def admit(cluster: SimulatedCluster, through: str, node: SimulatedNode) -> None:
    arguments = json.dumps({"nodeId": node.id, "incarnation": node.incarnation}).encode()
    operation = encode_operation("cluster.admit-node", "", OPERATOR, 0, None, arguments)
    outcome = await cluster[through].running.propose(operation, urgent=True, deadline=cluster.loop.now + 8)
    assert outcome.status < 300, outcome.body


def counts_everywhere(cluster: SimulatedCluster, node: SimulatedNode) -> bool:
    return all(each.running.machine.members().get(node.id) == node.incarnation for each in cluster.alive)


@pytest.mark.parametrize("seed", range(1, 6))
def test_disks_are_lost_one_after_the_other_and_nothing_with_them(seed: int) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        for number in range(6):
            await cluster.elected()
            lost = cluster[cluster.rng.choice(cluster.ids)]
            others = [node_id for node_id in cluster.ids if node_id != lost.id]
            for write in range(10):
                await cluster.write(cluster.rng.choice(cluster.ids), b"%d-%d" % (number, write))
            await lose_disk(lost, 5000 + number)
            await cluster.elected(among=others)
            await cluster.write(others[0], b"without it %d" % number)

            cluster[others[1]].crash()  # one of two that count: no majority
            with pytest.raises(OutcomeUnknown):
                await cluster.write(others[0], b"refused %d" % number, seconds=3.0)
            await cluster[others[1]].start()

            await admit(cluster, others[0], lost)
            await cluster.until(partial(counts_everywhere, cluster, lost), what=f"{lost.id} counts")
            await cluster.until(cluster.settled)
            cluster[cluster.rng.choice(others)].crash()  # now it counts
            await cluster.write(lost.id, b"with it %d" % number)
            for node in cluster.nodes.values():
                if node.replica is None:
                    await node.start()
            await cluster.until(cluster.settled)
        await asyncio.sleep(1)
        names = cluster.written("n1")
        assert set(cluster.acknowledged) <= set(names)
        assert len(names) == len(set(names))

    simulate(scenario, seed=seed)
