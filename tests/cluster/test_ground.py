"""A node on a real disk and real sockets: LMDB, loopback, both loops."""

import asyncio
import os
from pathlib import Path

import msgspec
import pytest

from cluster.archive import read_archive
from cluster.bootstrap import bootstrap
from cluster.config import NodeConfig
from cluster.ground import open_ground
from cluster.identity import DataDirectoryError
from cluster.journal import Journal
from cluster.node import Replica
from tests.cluster.loops import LOOPS, LoopFactory, free_addresses, run, until
from tests.simulation.cluster import SimulatedCluster


def configs(tmp_path: Path, count: int) -> list[NodeConfig]:
    peers = {f"n{place + 1}": address for place, address in enumerate(free_addresses(count))}
    return [
        NodeConfig(
            id=name,
            listen="127.0.0.1:1",
            advertise=f"http://{name}.test",
            peers=peers,
            data=tmp_path / name,
            local=True,
            election_timeout_ms=(300, 600),
        )
        for name in peers
    ]


async def begin(replicas: list[Replica]) -> None:
    starting = [asyncio.ensure_future(replica.start()) for replica in replicas]
    await bootstrap(replicas[0].config.peers)
    await asyncio.gather(*starting)
    await until(lambda: all(replica.ready for replica in replicas))


async def write(replica: Replica, name: bytes) -> int:
    deadline = asyncio.get_running_loop().time() + 10
    outcome = await replica.propose(SimulatedCluster.operation(name), urgent=False, deadline=deadline)
    assert outcome.status == 201
    return outcome.index


@pytest.mark.parametrize("loop_factory", LOOPS)
def test_a_single_node_keeps_what_it_acknowledged(loop_factory: LoopFactory, tmp_path: Path) -> None:
    async def work() -> None:
        (config,) = configs(tmp_path, 1)
        replica = Replica(config)
        await begin([replica])
        index = [await write(replica, b"w%d" % number) for number in range(50)][-1]
        chain = replica.machine.chain
        await replica.stop(1.0)
        again = Replica(config)
        await again.start()
        await until(lambda: again.ready)
        assert (again.machine.index, again.machine.chain) == (index, chain)
        await again.stop(1.0)

    run(loop_factory, work())


@pytest.mark.parametrize("loop_factory", LOOPS)
def test_three_nodes_write_and_read_through_each_other(loop_factory: LoopFactory, tmp_path: Path) -> None:
    async def work() -> None:
        replicas = [Replica(config) for config in configs(tmp_path, 3)]
        await begin(replicas)
        indexes = await asyncio.gather(*(write(replicas[n % 3], b"w%d" % n) for n in range(100)))
        for replica in replicas:
            assert await replica.read(asyncio.get_running_loop().time() + 10) >= max(indexes)
        status = replicas[0].status()
        assert status.leader_pid == os.getpid()
        assert status.leader_url == f"http://{status.leader_id}.test"
        await until(lambda: len({replica.machine.chain for replica in replicas}) == 1)
        for replica in replicas:
            await replica.stop(1.0)

    run(loop_factory, work())


def test_an_archive_gets_what_is_in_the_log(tmp_path: Path) -> None:
    async def work() -> None:
        (config,) = configs(tmp_path, 1)
        replica = Replica(msgspec.structs.replace(config, journal_archive=tmp_path / "archive"))
        await begin([replica])
        for number in range(5):
            await write(replica, b"w%d" % number)
        await replica.stop(1.0)
        journal = Journal(str(tmp_path / "n1" / "journal"))
        assert list(read_archive(tmp_path / "archive" / "n1.log")) == journal.entries(1, 100)
        journal.close()

    run(asyncio.new_event_loop, work())


def test_a_directory_has_one_node(tmp_path: Path) -> None:
    async def work() -> None:
        (config,) = configs(tmp_path, 1)
        replica = Replica(config)
        await begin([replica])
        with pytest.raises(DataDirectoryError, match="in use"):
            await open_ground(config)
        await replica.stop(0.0)

    run(asyncio.new_event_loop, work())


def test_a_start_that_is_given_up_gives_up_the_directory(tmp_path: Path) -> None:
    async def work() -> None:
        (config,) = configs(tmp_path, 1)
        starting = asyncio.ensure_future(open_ground(config))
        await until(lambda: (tmp_path / "n1" / "identity.json").exists())
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        replica = Replica(config)
        await begin([replica])
        await replica.stop(0.0)

    run(asyncio.new_event_loop, work())
