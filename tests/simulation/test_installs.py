"""Followers that are too far behind for the log get an image, whatever happens meanwhile, and nothing is lost by it."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from cluster.node import OutcomeUnknown, Unavailable
from tests.simulation.cluster import SimulatedCluster, SimulatedNode, simulate
from tests.simulation.disk import Disk
from tests.simulation.test_random import EARLY
from tests.simulation.virtual_loop import NodeEnded


class Load:
    """Writers at some nodes, one write after the other each, until they are stopped."""

    def __init__(self, cluster: SimulatedCluster, node_ids: list[str], pause_s: float = 0.005) -> None:
        self._cluster = cluster
        self._pause_s = pause_s
        self._going = True
        self._writers = [asyncio.ensure_future(self._write(node_id)) for node_id in node_ids]

    async def _write(self, node_id: str) -> None:
        number = 0
        while self._going:
            number += 1
            if self._cluster[node_id].replica is not None:
                with contextlib.suppress(Unavailable, OutcomeUnknown):
                    await self._cluster.write(node_id, b"%s-%d-%d" % (node_id.encode(), id(self), number), 2.0)
            await asyncio.sleep(self._pause_s)

    async def stop(self) -> None:
        self._going = False
        await asyncio.gather(*self._writers)


async def trimmed(cluster: SimulatedCluster, beyond: int) -> None:
    """Wait until no running node has the log up to this index any more."""
    await cluster.until(
        lambda: all(n.core.engine.first_index > beyond + 1 for n in cluster.alive), 60, "the log is trimmed"
    )


async def settle(cluster: SimulatedCluster) -> None:
    await cluster.until(cluster.settled, 30, "all nodes are equal")
    cluster.check_log()


def follower(cluster: SimulatedCluster) -> SimulatedNode:
    leader = cluster.leader()
    return cluster[cluster.rng.choice([i for i in cluster.ids if leader is None or i != leader.id])]


@pytest.mark.parametrize("seed", range(1, 6))
def test_a_node_that_was_away_for_long_is_caught_up_under_load(seed: int) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.elected()
        late = follower(cluster)
        load = Load(cluster, cluster.ids)
        await asyncio.sleep(1)
        behind = late.core.engine.last_index
        late.crash()
        await trimmed(cluster, behind)
        await late.start()
        await cluster.until(lambda: late.running.ready and cluster.installs > 0, 30, "it is ready again")
        await cluster.write(late.id, b"through it")
        await load.stop()
        await settle(cluster)
        assert late.core.engine.first_index > behind

    simulate(scenario, seed=seed, limits=EARLY)


@pytest.mark.parametrize("seed", range(1, 4))
def test_an_empty_node_is_caught_up_under_load(seed: int) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.elected()
        load = Load(cluster, cluster.ids)
        late = follower(cluster)
        await trimmed(cluster, 30)
        late.crash()
        late.disk = Disk(late.disk.records[:1], 1, None, 1)
        late.disk.records = [record for record in cluster.history.values() if record[1] == 1]
        late.incarnation = 5000
        await late.start()
        await cluster.until(lambda: late.running.ready, 30, "it is ready")
        assert cluster.installs == 1
        await load.stop()
        await settle(cluster)

    simulate(scenario, seed=seed, limits=EARLY)


@pytest.mark.parametrize("seed", range(1, 4))
def test_all_nodes_restart_from_their_images(seed: int) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        for _ in range(3):
            await cluster.elected()
            load = Load(cluster, cluster.ids)
            await trimmed(cluster, max(n.core.engine.first_index for n in cluster.alive))
            for node in cluster.nodes.values():
                node.crash()
            for node in cluster.nodes.values():
                await node.start()
                assert node.core.engine.applied_index >= node.core.engine.first_index > 1
            await load.stop()
            await settle(cluster)
        assert cluster.installs == 0

    simulate(scenario, seed=seed, limits=EARLY)


def test_a_follower_that_is_cut_off_and_comes_back_gets_an_image_while_it_serves() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.elected()
        late = follower(cluster)
        others = [i for i in cluster.ids if i != late.id]
        load = Load(cluster, others)
        await asyncio.sleep(0.5)
        behind = late.core.engine.last_index
        cluster.network.isolate(late.id)
        await asyncio.sleep(3)  # its connections are given up
        await cluster.until(lambda: all(cluster[i].core.engine.first_index > behind + 1 for i in others), 60)
        cluster.network.heal()
        await cluster.until(lambda: cluster.installs == 1, 30, "an install")
        assert late.starts == 1
        await load.stop()
        await settle(cluster)

    simulate(scenario, limits=EARLY)


# ---------------------------------------------------------------------- killed at every step


class Killer:
    """Kills the node the n-th time it makes something durable, before or after."""

    def __init__(self, node: SimulatedNode, at: int) -> None:
        self.node = node
        self.left = at
        self.where: str | None = None
        node.disk.passed = self._passed

    def _passed(self, what: str) -> None:
        self.left -= 1
        if self.left == 0:
            self.where = what
            self.node.ended = "killed"
            self.node.crash()
            raise NodeEnded(what)


async def start(node: SimulatedNode) -> bool:
    """Returns whether the node lived through its start."""
    starting = asyncio.ensure_future(node.start())
    while not starting.done():
        await asyncio.sleep(0.001)
        if node.replica is None:
            starting.cancel()
            await asyncio.wait([starting])
    return node.replica is not None


def kill_while_it_catches_up(at: int) -> str | None:
    """A follower needs an image and is killed at its at-th durable step; returns which one, None behind the last."""

    async def scenario(cluster: SimulatedCluster) -> str | None:
        await cluster.elected()
        late = cluster["n3"] if cluster.leader() is not cluster["n3"] else cluster["n2"]
        load = Load(cluster, [i for i in cluster.ids if i != late.id], 0.05)
        await asyncio.sleep(0.5)
        behind = late.core.engine.last_index
        late.crash()
        await trimmed(cluster, behind)
        killer = Killer(late, at)
        with contextlib.suppress(NodeEnded):
            await start(late)
        await cluster.until(
            lambda: killer.where is not None or (cluster.installs == 1 and late.thread_idle and late.running.ready), 30
        )
        late.disk.passed = lambda what: None
        if late.replica is None:
            assert await start(late)
        await cluster.until(lambda: late.running.ready, 30, "it is ready")
        await load.stop()
        await settle(cluster)
        assert late.disk.mark is None
        assert list(late.disk.images) == [late.disk.current_image]
        return killer.where

    return simulate(scenario, limits=EARLY)


def test_killed_at_every_step_of_an_install_a_node_catches_up_and_loses_nothing() -> None:
    met = []
    for at in range(1, 200):
        where = kill_while_it_catches_up(at)
        if where is None:
            break
        met.append(where)
    assert {"before switch", "after switch", "before flush", "after flush", "before remove", "after remove"} <= set(met)
    assert met.index("after switch") < len(met) - 1
    assert met[met.index("after switch") + 1] == "before journal"


def test_killed_at_every_step_of_a_save_a_node_goes_on_from_the_one_before_or_the_new_one() -> None:
    async def scenario(cluster: SimulatedCluster, at: int) -> str | None:
        await cluster.elected()
        load = Load(cluster, cluster.ids, 0.1)
        node = cluster["n2"]
        await asyncio.sleep(1)
        killer = Killer(node, at)
        ends_at = cluster.loop.now + 2
        await cluster.until(lambda: killer.where is not None or cluster.loop.now > ends_at, 30)
        node.disk.passed = lambda what: None
        if node.replica is None:
            await node.start()
        await load.stop()
        await settle(cluster)
        return killer.where

    met = {simulate(lambda cluster, at=at: scenario(cluster, at), limits=EARLY) for at in range(1, 60)}  # type: ignore[misc]
    assert {"before image", "after image", "before journal", "after journal"} <= met
