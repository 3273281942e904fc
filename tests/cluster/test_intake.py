"""What waits at the leader: one entry a turn, bounded, urgent first, every operation appended once or never."""

import asyncio

import pytest

from cluster.frames import Propose, Refused
from cluster.intake import ENTRY_BYTES, ENTRY_OPERATIONS, NO_ROOM, NOT_LEADER, WAITING_OPERATIONS, Room
from statemachine.entry import OPERATOR, Entry, decode_entry, decode_operation, encode_operation
from tests.simulation.lone import LoneNode, alone


def entries(node: LoneNode) -> list[Entry]:
    """Of the log after genesis, no-ops not counted."""
    records = [command for command, _, _ in node.journal.entries(2, 1 << 30)]
    return [decode_entry(command[1:]) for command in records if command[0] == 0x20]


def named(name: str) -> bytes:
    """An operation that the machine refuses, and that is told apart by its arguments."""
    return encode_operation("organizations.create", "", OPERATOR, 0, None, name.encode())


def names(entry: Entry) -> list[str]:
    return [decode_operation(operation).arguments.decode() for operation in entry.operations]


def sized(size: int) -> bytes:
    return next(op for op in (named("x" * (size - 60 + more)) for more in range(60)) if len(op) == size)


def proposal(term: int, *operations: tuple[int, bool, bytes], session: int = 5, floor: int = 0) -> Propose:
    return Propose(term, session, floor, list(operations))


async def refused(node: LoneNode, frame: Propose) -> list[Refused]:
    return [sent for _, sent in await node.tell("n3", frame) if isinstance(sent, Refused)]


def test_all_that_waits_in_one_turn_is_one_entry_and_urgent_operations_come_first() -> None:
    async def scenario(node: LoneNode) -> None:
        term = await node.lead()
        operations = [(number, number % 3 == 2, named(str(number))) for number in range(9)]
        node.give("n3", proposal(term, *operations[:5]))
        node.give("n3", proposal(term, *operations[5:]))
        node.core.intake.offer(0, True, named("own"))
        await node.turn()
        (entry,) = entries(node)
        assert names(entry) == ["2", "5", "8", "own", "0", "1", "3", "4", "6", "7"]
        assert entry.origins[0] == ("n3", 5, 2)
        assert entry.origins[3] == ("n1", node.core.intake._session, 0)

    alone(scenario)


def test_entries_are_bounded_and_a_large_operation_goes_alone() -> None:
    async def scenario(node: LoneNode) -> None:
        term = await node.lead()
        await node.tell("n3", proposal(term, *((number, False, named("x")) for number in range(ENTRY_OPERATIONS + 1))))
        assert [len(entry.operations) for entry in entries(node)] == [ENTRY_OPERATIONS, 1]
        node.acknowledge("n2")
        await node.turn()
        sizes = (ENTRY_BYTES + 1, 100, ENTRY_BYTES - 100, 99)
        await node.tell("n3", proposal(term, *((1000 + n, False, sized(size)) for n, size in enumerate(sizes))))
        node.acknowledge("n2")
        await node.turn()
        assert [[len(op) for op in e.operations] for e in entries(node)[2:]] == [
            [ENTRY_BYTES + 1],
            [100, ENTRY_BYTES - 100],
            [99],
        ]

    alone(scenario)


def test_two_entries_are_in_flight_and_the_next_waits_for_a_commit() -> None:
    async def scenario(node: LoneNode) -> None:
        term = await node.lead()
        for number in range(5):
            await node.tell("n3", proposal(term, (number, False, named(str(number)))))
        assert [names(entry) for entry in entries(node)] == [["0"], ["1"]]
        node.acknowledge("n2")
        await node.turn()
        assert [names(entry) for entry in entries(node)][2:] == [["2", "3", "4"]]

    alone(scenario)


def test_an_operation_that_is_sent_again_is_appended_once() -> None:
    async def scenario(node: LoneNode) -> None:
        term = await node.lead()
        await node.tell("n3", proposal(term, (0, False, named("a")), (1, False, named("b"))))
        assert (
            await refused(node, proposal(term, (0, False, named("a")), (1, False, named("b")), (2, False, named("c"))))
            == []
        )
        node.acknowledge("n2")
        await node.turn()
        assert await refused(node, proposal(term, (0, False, named("a")))) == []
        assert [name for entry in entries(node) for name in names(entry)] == ["a", "b", "c"]
        await node.tell("n3", proposal(term, (0, False, named("of another process")), session=6))
        node.acknowledge("n2")
        await node.turn()
        assert names(entries(node)[-1]) == ["of another process"]

    alone(scenario)


def test_what_is_refused_for_want_of_room_stays_refused_when_it_is_sent_again() -> None:
    async def scenario(node: LoneNode) -> None:
        term = await node.lead()
        node.core.intake.paused = True
        last = WAITING_OPERATIONS * 2 // 3 + 1
        many = [(number, False, named("x")) for number in range(last + 1)]
        assert [frame.sequences for frame in await refused(node, proposal(term, *many))] == [[last]]
        assert await refused(node, proposal(term, (last + 1, True, named("urgent")))) == []
        node.core.intake.paused = False
        (again,) = await refused(node, proposal(term, (last, False, named("x")), (last + 1, True, named("urgent"))))
        assert (again.sequences, again.reason, again.proposed_term) == ([last], NO_ROOM, term)
        for _ in range(100):
            node.acknowledge("n2")
            await node.turn()
        assert sum(len(entry.operations) for entry in entries(node)) == last + 1
        await node.tell("n3", proposal(term, (last + 2, False, named("y")), floor=last + 2))
        assert node.core.intake._sessions["n3", 5].refused == set()

    alone(scenario)


def test_whoever_does_not_lead_that_term_refuses_all_of_it() -> None:
    async def scenario(node: LoneNode) -> None:
        (frame,) = await refused(node, proposal(1, (3, False, named("a")), (4, True, named("b"))))
        assert (frame.sequences, frame.reason, frame.session) == ([3, 4], NOT_LEADER, 5)
        term = await node.lead()
        for other in (term - 1, term + 1):
            assert len(await refused(node, proposal(other, (5, False, named("a"))))) == 1
        assert entries(node) == []

    alone(scenario)


def test_what_waits_when_leadership_ends_is_given_back_and_never_appended() -> None:
    async def scenario(node: LoneNode) -> None:
        term = await node.lead()
        node.core.intake.paused = True
        mine = asyncio.ensure_future(node.replica.propose(named("own"), urgent=False, deadline=node.loop.now + 5))
        await node.tell("n3", proposal(term, (0, False, named("a"))))
        await node.tell("n3", proposal(term, (1, False, named("b")), session=6))
        sent = await node.tell("n2", node.append(term + 1, (2, term), [], commit=2))
        back = [
            (frame.session, frame.sequences, frame.proposed_term) for _, frame in sent if isinstance(frame, Refused)
        ]
        assert back == [(5, [0], term), (6, [1], term)]
        forwarded = [frame for to, frame in sent if to == "n2" and isinstance(frame, Propose)]
        assert [[op for _, _, op in frame.operations] for frame in forwarded] == [[named("own")]]
        assert entries(node) == []
        mine.cancel()

    alone(scenario)


@pytest.mark.parametrize(("urgent", "fits"), [(False, 6), (True, 9)])
def test_a_third_of_the_room_is_kept_for_what_is_urgent(urgent: bool, fits: int) -> None:
    room = Room(9, 1000)
    assert [room.take(1, urgent) for _ in range(10)] == [number < fits for number in range(10)]
    room = Room(1000, 9)
    assert [room.take(1, urgent) for _ in range(10)] == [number < fits for number in range(10)]


def test_an_empty_room_takes_what_is_larger_than_itself() -> None:
    room = Room(9, 9)
    assert room.take(100, False)
    assert not room.take(1, True)
    room.give(100)
    assert room.take(1, False)
    assert (room.operations, room.bytes) == (1, 1)
