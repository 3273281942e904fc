"""From the death of a leader to the next write that a client gets acknowledged, through the nodes that live on."""

import asyncio
import time

from ops.bench.cluster import BenchCluster, Node
from ops.bench.connection import Connection
from ops.bench.works import Place, put_run

FAILOVER_SECONDS = 30.0


async def failover_seconds(cluster: BenchCluster, scope_id: str) -> float:
    """Kill the leader once and wait for the first acknowledged write that began after that. Returns the time between.

    The cluster is whole again afterwards. Raises TimeoutError when there is no such write in time.
    """
    await asyncio.to_thread(cluster.wait_all_ready)
    leader = await asyncio.to_thread(cluster.leader)
    killed_at = 0.0
    first: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    async def write(node: Node, working: asyncio.Event) -> None:
        connection = await Connection.connect(node.host, node.port, cluster.api_key)
        operation = put_run(connection, Place(cluster.space_path, scope_id))
        while not first.done():
            began = time.perf_counter()
            await operation()
            working.set()
            if killed_at and began > killed_at and not first.done():
                first.set_result(time.perf_counter())
        connection.close()

    survivors = [node for node in cluster.nodes if node != leader]
    working = [asyncio.Event() for _ in survivors]
    async with asyncio.timeout(FAILOVER_SECONDS), asyncio.TaskGroup() as group:
        for node, event in zip(survivors, working, strict=True):
            group.create_task(write(node, event))
        for event in working:
            await event.wait()
        killed_at = await asyncio.to_thread(cluster.kill_leader)
        took = await first - killed_at
    await asyncio.to_thread(cluster.wait_all_ready)
    return took
