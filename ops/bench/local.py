"""`make bench`: what a local cluster of durable nodes does a second, how long a dead leader is missed, and how soon a
node with many records is ready again.

    python -m ops.bench.local [--nodes 3] [--seconds 1] [--in-flight 1,16,64] [--kills 10] [--records N] [--json FILE]

One process makes the load. Nodes and load share the machine's cores, so the figures are a floor. Every row is the
median of three windows; a shared machine is noisy, so compare only rows of one run.
"""

import argparse
import asyncio
import dataclasses
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

import uvloop

from api.cli.table import table
from ops.bench import images, machine
from ops.bench.cluster import BenchCluster, Node, local_cluster
from ops.bench.connection import Connection
from ops.bench.failover import failover_seconds
from ops.bench.measure import Row, measure
from ops.bench.works import WORKS, Place

# A run that takes longer hangs.
MOST_SECONDS = 900.0


async def run(cluster: BenchCluster, arguments: argparse.Namespace) -> tuple[list[Row], list[float]]:
    """All rows, and the seconds that each failover took."""
    async with asyncio.timeout(MOST_SECONDS):
        first = await Connection.connect(cluster.nodes[0].host, cluster.nodes[0].port, cluster.api_key)
        made = await first.request("PUT", f"{cluster.space_path}/runs/bench", b"{}")
        first.close()
        place = Place(cluster.space_path, json.loads(made.body)["id"])
        rows = []
        for work in arguments.works.split(","):
            for where in ("leader", "all nodes") if arguments.nodes > 1 else ("leader",):
                for in_flight in map(int, arguments.in_flight.split(",")):
                    nodes = [cluster.leader()] if where == "leader" else cluster.nodes
                    rows.append(await _row(cluster, place, work, where, nodes, in_flight, arguments.seconds))
                    print(_line(rows[-1]), file=sys.stderr)
        failovers = []
        for _ in range(arguments.kills if arguments.nodes > 1 else 0):
            failovers.append(await failover_seconds(cluster, place.scope_id))
            print(f"failover {failovers[-1]:.3f} s", file=sys.stderr)
    return rows, failovers


async def _row(
    cluster: BenchCluster, place: Place, work: str, where: str, nodes: Sequence[Node], in_flight: int, seconds: float
) -> Row:
    connections = [
        await Connection.connect(nodes[number % len(nodes)].host, nodes[number % len(nodes)].port, cluster.api_key)
        for number in range(in_flight)
    ]
    try:
        operations = [WORKS[work](connection, place) for connection in connections]
        return await measure(work, where, operations, cluster.pids(), seconds)
    finally:
        for connection in connections:
            connection.close()


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.work,
        row.where,
        str(row.in_flight),
        f"{row.per_second:,.0f}",
        f"{row.p50_ms:.2f}",
        f"{row.p99_ms:.2f}",
        f"{row.nodes_cpu:.2f}",
        f"{row.client_cpu:.2f}",
    )


def _line(row: Row) -> str:
    return "  ".join(_cells(row))


def report(about: dict[str, object], rows: Sequence[Row], failovers: Sequence[float]) -> str:
    """All of it as text."""
    lines = [f"{name}: {value}" for name, value in about.items()]
    heads = ("WORK", "AT", "IN FLIGHT", "OPS/S", "P50 MS", "P99 MS", "NODES CPU", "CLIENT CPU")
    lines += ["", table(heads, [_cells(row) for row in rows])]
    if failovers:
        lines += [
            "",
            f"SIGKILL of the leader to the next acknowledged write, {len(failovers)} times: "
            f"median {statistics.median(failovers):.2f} s, {min(failovers):.2f} to {max(failovers):.2f} s",
        ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="ops.bench.local", description="Measure a local cluster.")
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="length of a window; three make a row")
    parser.add_argument("--in-flight", default="1,16,64", help="operations at once")
    parser.add_argument("--works", default=",".join(WORKS), help="which, separated by commas")
    parser.add_argument("--kills", type=int, default=10, help="how often the leader is killed")
    parser.add_argument("--records", type=int, default=1_000_000, help="of a node that is restarted; 0: none is")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything there too")
    given = parser.parse_args(arguments)
    build = Path(__file__).resolve().parents[2] / "build"
    build.mkdir(exist_ok=True)
    about = {**machine.describe(build), "nodes": given.nodes}
    with local_cluster(given.nodes) as cluster, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        rows, failovers = runner.run(run(cluster, given))
    starts = images.starts(given.records) if given.records else None
    print(report(about, rows, failovers))
    if starts is not None:
        print(images.line(starts))
    if given.json:
        result = {
            "about": about,
            "rows": [dataclasses.asdict(row) for row in rows],
            "failoverSeconds": failovers,
            "starts": None if starts is None else dataclasses.asdict(starts),
        }
        given.json.write_text(json.dumps(result, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
