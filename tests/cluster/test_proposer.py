"""Every caller learns the outcome that its own node computed, or that there is none, or that it cannot be known."""

import asyncio
import time
from typing import Any

import pytest

from cluster.frames import AppendEntries, Propose, Refused
from cluster.intake import NO_ROOM, NOT_LEADER, WAITING_OPERATIONS
from cluster.node import OutcomeUnknown, Unavailable
from cluster.ports import Message
from cluster.proposer import HELD_OPERATIONS, OPERATION_BYTES, SENT_BYTES
from cluster.transport import BUFFER_MAX_BYTES
from statemachine.entry import decode_entry, encode_entry
from statemachine.machine import Outcome
from tests.simulation.cluster import SimulatedCluster, attempt, simulate
from tests.simulation.lone import LoneNode, alone

OPERATION = SimulatedCluster.operation(b"x")


def propose(node: LoneNode, seconds: float = 5.0) -> asyncio.Task[Outcome]:
    deadline = node.loop.now + seconds
    return asyncio.ensure_future(node.replica.propose(OPERATION, urgent=False, deadline=deadline))


async def follow(node: LoneNode, leader: str = "n2", term: int = 3) -> None:
    await node.tell(leader, node.append(term, (1, 1), [(term, b"\x01")], commit=2))


def proposals(node: LoneNode, leader: str = "n2") -> list[tuple[int, list[int]]]:
    """(term, sequences) of the frames that went to the leader."""
    sent = [frame for to, frame in node.take() if to == leader and isinstance(frame, Propose)]
    return [(frame.term, [sequence for sequence, _, _ in frame.operations]) for frame in sent]


def entry_of(node: LoneNode, sequence: int, wall_now_ms: int = 1) -> bytes:
    origins = [("n1", node.core.proposer._session, sequence)]
    return b"\x20" + encode_entry(0, wall_now_ms, bytes(16), [OPERATION], origins)


def test_what_waits_in_one_turn_goes_in_one_frame_and_its_own_apply_settles_it() -> None:
    async def scenario(node: LoneNode) -> None:
        await follow(node)
        waiting = [propose(node) for _ in range(3)]
        await node.turn()
        assert proposals(node) == [(3, [0, 1, 2])]
        await node.tell("n2", node.append(3, (2, 3), [(3, entry_of(node, 1))], commit=2))
        assert not waiting[1].done()
        await node.tell("n2", node.append(3, (3, 3), [], commit=3))
        assert (await waiting[1]).index == 3
        assert not waiting[0].done()
        for task in waiting:
            task.cancel()

    alone(scenario)


def test_without_a_leader_it_waits_and_is_definitely_not_applied_at_its_deadline() -> None:
    async def scenario(node: LoneNode) -> None:
        waiting = propose(node, 2.0)
        begun = node.loop.now
        with pytest.raises(Unavailable):
            await waiting
        assert 2.0 <= node.loop.now - begun < 2.1

    alone(scenario)


def test_what_was_sent_may_yet_be_applied_after_its_deadline() -> None:
    async def scenario(node: LoneNode) -> None:
        await follow(node)
        with pytest.raises(OutcomeUnknown):
            await propose(node, 0.2)

    alone(scenario)


def test_an_entry_of_a_later_term_tells_that_it_was_not_applied() -> None:
    async def scenario(node: LoneNode) -> None:
        await follow(node)
        waiting = propose(node)
        await node.turn()
        assert proposals(node) == [(3, [0])]
        await node.tell("n3", node.append(4, (2, 3), [], commit=2))
        assert proposals(node, "n3") == []  # it may still be in an entry of term 3 that is on its way
        await node.tell("n3", node.append(4, (2, 3), [(4, b"\x01")], commit=2))
        await node.turn()
        assert proposals(node, "n3") == []  # not applied yet
        node.give("n3", node.append(4, (3, 4), [], commit=3))
        await node.turn()
        node.core.kick()
        await node.turn()
        assert proposals(node, "n3") == [(4, [1])]
        await node.tell("n3", node.append(4, (3, 4), [(4, entry_of(node, 1))], commit=4))
        assert (await waiting).index == 4

    alone(scenario)


def test_an_entry_of_the_old_term_that_the_new_leader_kept_settles_it() -> None:
    async def scenario(node: LoneNode) -> None:
        await follow(node)
        waiting = propose(node)
        await node.turn()
        await node.tell("n3", node.append(4, (2, 3), [(3, entry_of(node, 0)), (4, b"\x01")], commit=4))
        assert (await waiting).index == 3
        assert proposals(node, "n3") == []

    alone(scenario)


def test_what_is_refused_waits_again_and_is_not_sent_to_the_same_leadership() -> None:
    async def scenario(node: LoneNode) -> None:
        await follow(node)
        waiting = propose(node, 1.0)
        await node.turn()
        node.take()
        session = node.core.proposer._session
        await node.tell("n2", Refused(4, 3, session, [0], NOT_LEADER))
        await asyncio.sleep(0.5)
        assert proposals(node) == []
        with pytest.raises(Unavailable):
            await waiting

    alone(scenario)


def test_what_is_refused_for_want_of_room_is_tried_again_with_the_next_tick() -> None:
    async def scenario(node: LoneNode) -> None:
        await follow(node)
        waiting = propose(node)
        await node.turn()
        node.take()
        await node.tell("n2", Refused(3, 3, node.core.proposer._session, [0], NO_ROOM))
        assert proposals(node) == []
        await asyncio.sleep(0.06)
        assert proposals(node) == [(3, [1])]
        waiting.cancel()

    alone(scenario)


def test_after_a_reconnection_all_is_sent_again_in_order_and_once() -> None:
    async def scenario(node: LoneNode) -> None:
        await follow(node)
        waiting = [propose(node) for _ in range(2)]
        await node.turn()
        assert proposals(node) == [(3, [0, 1])]
        node.transport.disconnect("n2")
        waiting.append(propose(node))
        await node.turn()
        assert proposals(node) == []
        node.transport.connect("n2")
        await node.turn()
        assert proposals(node) == [(3, [0, 1, 2])]
        node.core.kick()
        await node.turn()
        assert proposals(node) == []
        for task in waiting:
            task.cancel()

    alone(scenario)


def test_a_refusal_of_the_second_copy_says_nothing_of_the_first() -> None:
    """The leader took the first copy, lost its leadership, and refuses the one that was sent again."""

    async def scenario(node: LoneNode) -> None:
        await follow(node)
        waiting = propose(node)
        await node.turn()
        node.transport.disconnect("n2")
        node.transport.connect("n2")
        await node.turn()
        assert proposals(node) == [(3, [0]), (3, [0])]
        await node.tell("n2", Refused(4, 3, node.core.proposer._session, [0], NOT_LEADER))
        await node.tell("n3", node.append(4, (2, 3), [], commit=2))
        assert proposals(node, "n3") == []
        await node.tell("n3", node.append(4, (2, 3), [(3, entry_of(node, 0)), (4, b"\x01")], commit=4))
        assert (await waiting).index == 3

    alone(scenario)


def test_refusals_for_another_process_or_an_older_tag_are_ignored() -> None:
    async def scenario(node: LoneNode) -> None:
        await follow(node)
        waiting = propose(node, 0.3)
        await node.turn()
        session = node.core.proposer._session
        await node.tell("n2", Refused(3, 3, session + 1, [0], NO_ROOM))
        await node.tell("n2", Refused(3, 2, session, [0], NO_ROOM))
        await node.tell("n2", Refused(3, 3, session, [7], NO_ROOM))
        with pytest.raises(OutcomeUnknown):
            await waiting

    alone(scenario)


def test_operations_of_an_earlier_life_settle_nobody() -> None:
    async def scenario(node: LoneNode) -> None:
        await follow(node)
        old = entry_of(node, 0)
        await node.restart()
        await node.tell("n2", node.append(3, (2, 3), []))
        waiting = propose(node, 0.3)
        await node.turn()
        await node.tell("n2", node.append(3, (2, 3), [(3, old)], commit=3))
        assert node.core.engine.applied_index == 3
        with pytest.raises(OutcomeUnknown):
            await waiting

    alone(scenario)


def test_a_caller_that_gave_up_is_not_sent_if_it_was_not_yet() -> None:
    async def scenario(node: LoneNode) -> None:
        waiting = propose(node)
        await node.turn()
        waiting.cancel()
        await follow(node)
        await node.turn()
        assert proposals(node) == []
        assert node.core.proposer._room.operations == 0

    alone(scenario)


def test_at_the_leader_what_waits_past_its_deadline_is_taken_back() -> None:
    async def scenario(node: LoneNode) -> None:
        await node.lead()
        node.core.intake.paused = True
        with pytest.raises(Unavailable):
            await propose(node, 0.1)
        node.core.intake.paused = False
        last = node.core.engine.last_index
        node.core.kick()
        await node.turn()
        assert node.core.engine.last_index == last

    alone(scenario)


def fill_the_leader(node: LoneNode, term: int) -> None:
    """As much new work of n3 as there is room for."""
    node.core.intake.paused = True
    usual = [(number, False, OPERATION) for number in range(WAITING_OPERATIONS * 2 // 3 + 1)]
    node.give("n3", Propose(term, 5, 0, usual))


def test_at_the_leader_no_new_work_without_room_stands_before_a_renewal() -> None:
    async def scenario(node: LoneNode) -> None:
        fill_the_leader(node, await node.lead())
        usual = propose(node)
        await node.turn()
        assert node.core.proposer._paused
        urgent = asyncio.ensure_future(node.replica.propose(OPERATION, urgent=True, deadline=node.loop.now + 5))
        await asyncio.sleep(0.1)
        node.core.intake.paused = False
        node.core.kick()
        await node.turn()
        (entry,) = [decode_entry(command[1:]) for command, _, _ in node.journal.entries(3, 1)]
        assert entry.origins[0][0] == "n1"
        node.acknowledge("n2")
        await node.turn()
        assert urgent.done()
        assert not usual.done()
        usual.cancel()

    alone(scenario)


def test_many_that_expire_together_at_the_leader_are_taken_back_in_one_go() -> None:
    async def scenario(node: LoneNode) -> None:
        term = await node.lead()
        node.core.intake.paused = True
        waiting = [propose(node, 0.2) for _ in range(2000)]
        node.give("n3", Propose(term, 5, 0, [(number, False, OPERATION) for number in range(19_000)]))
        await node.turn()
        assert node.core.proposer._pending
        begun = time.perf_counter()
        await asyncio.wait(waiting)
        assert {str(task.exception()) for task in waiting} == {"the operation waited at the leader until its deadline"}
        assert node.core.intake._room.operations == 19_000
        assert time.perf_counter() - begun < 0.6  # one by one: several times as long

    alone(scenario)


def test_what_is_on_its_way_fits_into_a_connection_also_after_it_broke() -> None:
    """All that a node may hold would not: the connection would be cut as too slow, over and over."""

    async def scenario(node: LoneNode) -> None:
        large = OPERATION + bytes(1 << 20)
        waiting = [
            asyncio.ensure_future(node.replica.propose(large, urgent=False, deadline=node.loop.now + 5))
            for _ in range(42)
        ]

        def sent() -> list[int]:
            frames = [frame for to, frame in node.take() if to == "n2" and isinstance(frame, Propose)]
            operations = [operation for frame in frames for operation in frame.operations]
            assert sum(len(data) for _, _, data in operations) <= SENT_BYTES < BUFFER_MAX_BYTES * 2 // 3
            return [sequence for sequence, _, _ in operations]

        await node.turn()
        node.give("n2", node.append(3, (1, 1), [(3, b"\x01")], commit=2))
        await node.turn()
        first = sent()
        assert len(first) > 10
        node.transport.disconnect("n2")
        node.transport.connect("n2")
        await node.turn()
        assert sent() == first
        node.give("n2", node.append(3, (2, 3), [(3, entry_of(node, 0)), (3, entry_of(node, 1))], commit=4))
        await node.turn()
        assert [task.done() for task in waiting[:3]] == [True, True, False]
        await node.turn()
        assert sent() == [first[-1] + 1, first[-1] + 2]
        for task in waiting:
            task.cancel()

    alone(scenario)


def test_what_is_held_is_bounded() -> None:
    async def scenario(node: LoneNode) -> None:
        waiting = [propose(node) for _ in range(HELD_OPERATIONS)]
        await node.turn()
        turned_away = [task for task in waiting if task.done()]
        assert len(turned_away) == HELD_OPERATIONS - (HELD_OPERATIONS * 2 // 3 + 1)
        assert all(isinstance(task.exception(), Unavailable) for task in turned_away)
        urgent = node.replica.propose(OPERATION, urgent=True, deadline=node.loop.now + 5)
        waiting.append(asyncio.ensure_future(urgent))
        await node.turn()
        assert not waiting[-1].done()
        for task in waiting:
            task.cancel()
        with pytest.raises(ValueError, match="at most"):
            await node.replica.propose(bytes(OPERATION_BYTES + 1), urgent=True, deadline=node.loop.now + 5)

    alone(scenario)


def test_the_largest_operations_pass_in_numbers() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.elected()
        big = bytes(OPERATION_BYTES - 200)

        async def write(node_id: str) -> Outcome:
            from statemachine.entry import OPERATOR, encode_operation

            operation = encode_operation("organizations.create", "", OPERATOR, 0, None, b'"' + big + b'"')
            return await cluster[node_id].running.propose(operation, urgent=False, deadline=cluster.loop.now + 30)

        outcomes = await asyncio.gather(*(write(node_id) for node_id in cluster.ids * 20))
        assert {outcome.code for outcome in outcomes} == {"VALIDATION_FAILED"}

    simulate(scenario)


def test_a_write_is_visible_at_the_node_that_took_it() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.elected()
        for number in range(30):
            node = cluster[cluster.ids[number % 3]]
            outcome = await cluster.write(node.id, b"w%d" % number)
            assert node.running.machine.index >= outcome.index

    simulate(scenario)


def test_a_node_that_stops_tells_everybody_who_waits() -> None:
    async def scenario(node: LoneNode) -> None:
        await follow(node)
        sent = propose(node)
        await node.turn()
        node.core.proposer._barred_term = 3
        unsent = propose(node)
        await node.turn()
        node.replica.crash()
        with pytest.raises(OutcomeUnknown):
            await sent
        with pytest.raises(Unavailable):
            await unsent

    alone(scenario)


def test_a_leader_killed_at_any_moment_leaves_no_caller_in_doubt_for_long() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        sent = 0

        def kill(sender: str, receiver: str, message: object) -> None:
            """The leader dies right after its first entry of a term went to one follower."""
            nonlocal sent
            leader = cluster.leader()
            if leader is not None and sender == leader.id and isinstance(message, dict) and message.get("entries"):
                sent += 1
                if sent % 40 == 0:
                    cluster.loop.call_soon(leader.crash)

        cluster.network.watchers.append(kill)
        for number in range(120):
            await cluster.elected()
            alive = [node.id for node in cluster.alive]
            await asyncio.gather(
                *(attempt(cluster.write(node_id, b"%s-%d" % (node_id.encode(), number))) for node_id in alive)
            )
            for node in cluster.nodes.values():
                if node.replica is None:
                    await node.start()
        cluster.network.watchers.remove(kill)
        await cluster.until(cluster.settled)
        cluster.check_log()
        assert len(cluster.acknowledged) > 300

    simulate(scenario)


def test_append_entries_leave_before_the_leaders_own_sync() -> None:
    async def scenario(node: LoneNode) -> None:
        await node.lead()
        durable: list[int] = []
        original = node.transport.send

        def send(peer: Any, message: Message) -> bool:
            if message["type"] == "append_entries" and message["entries"]:
                durable.append(node.disk.records[-1][1])
            return original(peer, message)

        node.transport.send = send  # type: ignore[method-assign,assignment]
        waiting = propose(node, 0.1)
        await node.turn()
        assert durable == [node.core.engine.last_index - 1]
        assert node.disk.records[-1][1] == node.core.engine.last_index
        assert [frame for _, frame in node.take() if isinstance(frame, AppendEntries)]
        with pytest.raises(OutcomeUnknown):
            await waiting

    alone(scenario)
