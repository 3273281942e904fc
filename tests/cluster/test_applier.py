"""Committed commands reach the machine in order and in slices."""

import asyncio
from itertools import pairwise

import pytest

from cluster.applier import SLICE_S
from cluster.frames import Appended
from statemachine.entry import Entry
from statemachine.machine import Applied, Machine
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
        assert len(answers) > 0.4 / SLICE_S / 2

    alone(scenario)


def test_commands_are_applied_in_order_and_once_in_slices() -> None:
    async def scenario(node: LoneNode) -> None:
        seen: list[int] = []
        node.replica.subscribe(lambda index, applied: seen.append(index))
        await node.tell("n2", node.append(3, (1, 1), [(3, command(f"o{n}")) for n in range(300)], commit=301))
        await node.turn()
        assert seen == list(range(2, 302))

    alone(scenario)
