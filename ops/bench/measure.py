"""A closed loop: so many connections, each with one operation in flight, for a window of time.

A row is the median of its windows. CPU is what the processes used while the window ran, in cores.
"""

import asyncio
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psutil

from ops.bench.works import Operation

WINDOWS = 3
WARM_SECONDS = 0.3


@dataclass(frozen=True)
class Window:
    per_second: float
    p50_ms: float
    p99_ms: float
    nodes_cpu: float
    client_cpu: float


@dataclass(frozen=True)
class Row:
    """What one work gave at one number in flight; where: "leader" or "all nodes"."""

    work: str
    where: str
    in_flight: int
    per_second: float
    p50_ms: float
    p99_ms: float
    nodes_cpu: float
    client_cpu: float
    windows: Sequence[Window]


async def measure(
    work: str, where: str, operations: Sequence[Operation], node_pids: Sequence[int], window_seconds: float
) -> Row:
    """Run the operations at once for WINDOWS windows. Raises what an operation raises."""
    finished: list[tuple[float, float]] = []  # (when it ended, how long it took)
    stop = False

    async def loop(operation: Operation) -> None:
        clock = time.perf_counter
        while not stop:
            began = clock()
            await operation()
            ended = clock()
            finished.append((ended, ended - began))

    windows = []
    async with asyncio.TaskGroup() as group:
        for operation in operations:
            group.create_task(loop(operation))
        await asyncio.sleep(WARM_SECONDS)
        for _ in range(WINDOWS):
            finished.clear()
            nodes_before, client_before, began = _cpu_seconds(node_pids), time.process_time(), time.perf_counter()
            await asyncio.sleep(window_seconds)
            elapsed = time.perf_counter() - began
            took = sorted(seconds for _, seconds in finished)
            nodes_cpu = (_cpu_seconds(node_pids) - nodes_before) / elapsed
            client_cpu = (time.process_time() - client_before) / elapsed
            if not took:
                raise RuntimeError(f"{work}: no operation ended within {window_seconds:g} s")
            windows.append(
                Window(
                    len(took) / elapsed,
                    1000 * took[len(took) // 2],
                    1000 * took[min(len(took) - 1, int(0.99 * len(took)))],
                    nodes_cpu,
                    client_cpu,
                )
            )
        stop = True
    return Row(work, where, len(operations), *_medians(windows), windows)


def _medians(windows: Sequence[Window]) -> tuple[float, float, float, float, float]:
    def median(of: Callable[[Window], float]) -> float:
        return statistics.median(of(window) for window in windows)

    return (
        median(lambda window: window.per_second),
        median(lambda window: window.p50_ms),
        median(lambda window: window.p99_ms),
        median(lambda window: window.nodes_cpu),
        median(lambda window: window.client_cpu),
    )


def _cpu_seconds(pids: Sequence[int]) -> float:
    total = 0.0
    for pid in pids:
        times = psutil.Process(pid).cpu_times()
        total += times.user + times.system
    return total
