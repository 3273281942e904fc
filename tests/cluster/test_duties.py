"""The leader proposes due work at its time, one entry at once, and backs off when nothing comes of it."""

import asyncio
from typing import Any

from cluster.clock import STANDSTILL_S
from statemachine.entry import Entry
from statemachine.machine import Applied, Machine
from tests.simulation.cluster import SimulatedCluster, simulate


class Due:
    """Gives a machine work of lease time: `per_entry` items go with each entry."""

    def __init__(self, monkeypatch: Any, at_ms: int, items: int, per_entry: int) -> None:
        self.at_ms = at_ms
        self.left: dict[int, int] = {}
        self.items = items
        self.per_entry = per_entry
        self.entries: list[int] = []
        original = Machine.apply
        due = self

        def apply(machine: Machine, index: int, entry: Entry) -> Applied:
            applied = original(machine, index, entry)
            left = due.left.get(id(machine), due.items)
            if entry.lease_now_ms >= due.at_ms and left:
                done = min(due.per_entry, left)
                due.left[id(machine)] = left - done
                applied = Applied(applied.outcomes, [*applied.touched, *([("due", 1)] if done else [])])
            return applied

        monkeypatch.setattr(Machine, "apply", apply)
        monkeypatch.setattr(
            Machine, "due_lease_ms", property(lambda m: due.at_ms if due.left.get(id(m), due.items) else None)
        )


def test_due_work_is_proposed_at_its_time_with_no_client_asking(monkeypatch: Any) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        leader = await cluster.elected()
        led_at = leader.core.election._led_since
        reached = led_at + STANDSTILL_S + 3.0
        due = Due(monkeypatch, 3000, 1, 1)
        await asyncio.sleep(reached - cluster.loop.now - 0.001)
        assert leader.core.engine.last_index == 2
        await asyncio.sleep(0.01)
        assert leader.core.engine.last_index == 3
        assert due.left[id(leader.running.machine)] == 0
        await asyncio.sleep(5)
        assert leader.core.engine.last_index == 3
        assert leader.running.metrics.due_stalls == 0

    simulate(scenario)


def test_what_is_left_is_proposed_at_once_one_entry_after_the_other(monkeypatch: Any) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        leader = await cluster.elected()
        Due(monkeypatch, 3000, 100, 10)
        await cluster.until(lambda: leader.core.engine.last_index >= 3)
        begun = cluster.loop.now
        await cluster.until(lambda: leader.running.machine.due_lease_ms is None)
        assert cluster.loop.now - begun < 0.1
        assert leader.core.engine.last_index == 12
        await cluster.until(cluster.settled)

    simulate(scenario)


def test_work_that_makes_no_progress_is_tried_with_a_growing_pause(monkeypatch: Any) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        leader = await cluster.elected()
        Due(monkeypatch, 0, 1, 0)
        cluster.loop.call_soon(leader.core.kick)
        await asyncio.sleep(20)
        entries = leader.core.engine.last_index - 2
        assert 20 <= entries <= 30
        assert entries - 1 <= leader.running.metrics.due_stalls <= entries

    simulate(scenario)


def test_a_new_leader_takes_the_duties_over(monkeypatch: Any) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        old = await cluster.elected()
        Due(monkeypatch, 2000, 1, 1)
        old.crash()
        new = await cluster.elected()
        await cluster.until(lambda: new.running.machine.due_lease_ms is None)
        assert new.running.machine.lease_now_ms >= 2000

    simulate(scenario)
