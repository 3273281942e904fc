"""A disk that was lost is replaced in two steps: at no moment can its old and its new one both help to a majority."""

import asyncio
import json

import pytest

from cluster.frames import Appended, PreVote, PreVoteAnswer, RequestVote
from statemachine.admission import list_node_operation
from statemachine.entry import OPERATOR, decode_entry, encode_entry, encode_operation
from tests.simulation.cluster import ELECTION_TIMEOUT_MS, WALL_MS
from tests.simulation.lone import INCARNATIONS, LoneNode, alone, command

OLD, NEW = INCARNATIONS["n3"], 5003
LONGEST_S = ELECTION_TIMEOUT_MS[1] / 1000


def admission(node_id: str = "n3", incarnation: int = NEW) -> bytes:
    arguments = json.dumps({"nodeId": node_id, "incarnation": incarnation}).encode()
    return encode_operation("cluster.admit-node", "", OPERATOR, 0, None, arguments)


def entry(operation: bytes) -> bytes:
    return b"\x20" + encode_entry(0, WALL_MS, bytes(16), [operation], [("", 0, 0)])


def acknowledge(node: LoneNode, index: int, incarnation: int) -> None:
    """n3 acknowledges the log up to index, with this disk."""
    engine, round_ = node.core.engine, node.core.replication.round
    frame = Appended(engine.term, round_, incarnation, True, index, index + 1, index, node.clocks.wall_ms())
    node.give("n3", frame)


async def admitted(node: LoneNode) -> int:
    """n1 leads with n2, and the admission of n3's new disk is committed. Returns its index."""
    await node.lead()
    proposal = asyncio.ensure_future(node.replica.propose(admission(), urgent=True, deadline=node.loop.now + 5))
    await node.turn()
    node.acknowledge("n2")
    outcome = await proposal
    assert json.loads(outcome.body)["counts"] is False
    return outcome.index


def proposed(node: LoneNode) -> list[bytes]:
    """The operations in the last entry of the log."""
    engine = node.core.engine
    ((last, _, _),) = engine.records(engine.last_index, 1, 1 << 20)
    return list(decode_entry(last[1:]).operations)


# ------------------------------------------------------------------ at the leader


def test_it_is_listed_once_it_has_what_the_others_had(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(node: LoneNode) -> None:
        index = await admitted(node)
        for behind in (1, index - 1):
            acknowledge(node, behind, NEW)
            await asyncio.sleep(0.1)
            assert node.core.engine.last_index == index
        acknowledge(node, index, NEW)
        await node.turn()
        assert node.core.engine.last_index == index + 1
        assert proposed(node) == [list_node_operation("n3", NEW)]
        await asyncio.sleep(0.1)
        assert node.core.engine.last_index == index + 1  # once, while it is on its way
        assert "n3" not in node.replica.machine.members()
        node.acknowledge("n2")
        await node.turn()
        assert node.replica.machine.members() == {**INCARNATIONS, "n3": NEW}

    alone(scenario)


def test_neither_disk_counts_in_between() -> None:
    async def scenario(node: LoneNode) -> None:
        index = await admitted(node)
        writing = asyncio.ensure_future(node.core._loop.create_task(_write(node)))
        await node.turn()
        last = node.core.engine.last_index
        assert last > index
        for incarnation in (OLD, NEW):
            acknowledge(node, last, incarnation)
            await node.turn()
            assert node.core.engine.commit_index == index
        node.acknowledge("n2")
        await node.turn()
        assert (await writing).status == 201

    alone(scenario)


async def _write(node: LoneNode) -> object:
    operation = encode_operation("organizations.create", "", OPERATOR, 0, None, b'{"name":"x"}')
    return await node.replica.propose(operation, urgent=False, deadline=node.loop.now + 5)


def test_the_old_disk_is_not_listed_again_by_itself() -> None:
    async def scenario(node: LoneNode) -> None:
        index = await admitted(node)
        acknowledge(node, index, OLD)
        await asyncio.sleep(0.2)
        assert node.core.engine.last_index == index

    alone(scenario)


def test_the_next_leader_lists_it_if_the_first_one_did_not() -> None:
    async def scenario(node: LoneNode) -> None:
        await node.tell("n2", node.append(2, (1, 1), [(2, entry(admission()))], commit=2))
        assert node.replica.machine.awaited().keys() == {"n3"}
        await node.lead()
        acknowledge(node, node.core.engine.last_index, NEW)
        await node.turn()
        assert proposed(node) == [list_node_operation("n3", NEW)]

    alone(scenario)


# ------------------------------------------------------------------ at a node that did not hear of it


async def supported_by(node: LoneNode, incarnation: int) -> bool:
    """Whether the support of n3 with this disk, and nobody else's, makes this node stand for election."""
    node.take()
    ends_at = node.loop.now + 4 * LONGEST_S
    while node.loop.now < ends_at:
        await asyncio.sleep(0.01)
        for to, frame in node.take():
            if to == "n3" and isinstance(frame, PreVote):
                node.give("n3", PreVoteAnswer(frame.term - 1, frame.nonce, True, incarnation))
            if isinstance(frame, RequestVote):
                return True
    return False


@pytest.mark.parametrize("knows", [False, True])
def test_who_has_the_second_entry_asks_the_old_disk_no_more(knows: bool) -> None:
    """Also over a restart, and without having heard that the second entry is committed.

    Else this node and the old disk, which still runs where nobody looks, would be a majority of the old list, beside
    the new disk and the third node, which are one of the new list.
    """

    async def scenario(node: LoneNode) -> None:
        entries = [(2, entry(admission()))]
        await node.tell("n2", node.append(2, (1, 1), entries, commit=1))
        if knows:
            frame = node.append(2, (2, 2), [(2, entry(list_node_operation("n3", NEW)))], commit=2, round=2)
            await node.tell("n2", frame)
        await node.restart()
        assert node.core.engine.last_index == (3 if knows else 2)
        assert await supported_by(node, OLD) is not knows

    alone(scenario)


def test_nobody_stands_before_it_has_applied_what_it_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its list of members may be an old one until then."""

    async def scenario(node: LoneNode) -> None:
        await node.tell("n2", node.append(2, (1, 1), [(2, command("a")), (2, command("b"))], commit=1))
        slices = node.core.applier.apply_slice
        monkeypatch.setattr(node.core.applier, "apply_slice", lambda: False)
        await node.tell("n2", node.append(2, (3, 2), [], commit=3, round=2))
        assert (node.core.engine.applied_index, node.core.engine.commit_index) == (1, 3)
        assert not await supported_by(node, OLD)
        monkeypatch.setattr(node.core.applier, "apply_slice", slices)
        assert await supported_by(node, OLD)

    alone(scenario)
