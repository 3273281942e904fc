"""An image takes the place of a node's state in four steps, or not at all; what the node has never becomes less."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from cluster.frames import Appended, AppendEntries, InstallChunk, InstallProgress
from cluster.image_limits import ImageLimits
from cluster.node import OutcomeUnknown
from cluster.ports import LogRecord
from statemachine.machine import Machine
from tests.cluster.imaged import same
from tests.cluster.offered import Offer, run
from tests.simulation.lone import LoneNode, alone, command


async def pass_by(node: LoneNode, turns: int = 20) -> None:
    """Let the image thread and what follows it run, without time passing."""
    for _ in range(turns):
        await node.turn()


async def offered(node: LoneNode, offer: Offer, **how: Any) -> None:
    progress = await node.answer("n2", offer.install(**how), InstallProgress)
    assert (progress.received, progress.loaded) == (0, 0)


async def installed(node: LoneNode, offer: Offer, **how: Any) -> Appended:
    """Have it take the image; returns the acknowledgement."""
    await offered(node, offer, **how)
    term, transfer = how.get("term", 4), how.get("transfer", 1)
    for number, chunk in enumerate(offer.chunks(term, transfer), start=1):
        node.give("n2", chunk)
        await pass_by(node)
        sent = [frame for to, frame in node.take() if to == "n2"]
        assert any(isinstance(f, InstallProgress) and (f.transfer, f.received) == (transfer, number) for f in sent)
    (acknowledged,) = [frame for frame in sent if isinstance(frame, Appended)]
    return acknowledged


def state(node: LoneNode) -> tuple[int, int, int, int]:
    engine = node.core.engine
    return engine.first_index, engine.last_index, engine.commit_index, engine.applied_index


def follow(node: LoneNode, log: list[LogRecord], term: int = 4, commit: int | None = None) -> AppendEntries:
    """These entries, which follow each other, from the leader."""
    index = log[0][1]
    previous = (index - 1, 1 if index == 2 else log[0][2])
    return node.append(term, previous, [(entry[2], entry[0]) for entry in log], commit or log[-1][1])


def test_an_image_takes_the_place_and_the_log_goes_on_from_it() -> None:
    async def scenario(node: LoneNode) -> None:
        offer = Offer()
        acknowledged = await installed(node, offer)
        assert (acknowledged.success, acknowledged.match_index, acknowledged.round) == (True, 50, 7)
        assert state(node) == (50, 50, 50, 50)
        assert same(node.replica.machine, run_to(offer, 50))
        assert node.disk.records == [offer.log[49]]
        assert node.disk.mark is None
        assert list(node.disk.images) == [node.disk.current_image] == ["image-2"]
        answer = await node.answer("n2", follow(node, offer.log[50:]), Appended)
        assert answer.match_index == 60
        assert same(node.replica.machine, run_to(offer, 60))
        await node.restart()
        assert state(node)[:2] == (50, 60)
        assert node.replica.machine.index >= 50

    alone(scenario)


def run_to(offer: Offer, index: int) -> Machine:
    return run(Machine(), offer.log[:index])


def test_nothing_is_sent_before_the_install_is_marked() -> None:
    async def scenario(node: LoneNode) -> None:
        offer = Offer()
        node.give("n2", offer.install())
        assert node.disk.mark is None
        assert node.transport.sent == []
        await node.turn()
        mark = node.disk.mark
        assert mark is not None
        assert (mark.index, mark.term, mark.content, mark.folder) == (50, 3, offer.meta.content, "image-2")
        assert "image-2" not in node.disk.images

    alone(scenario)


def test_what_it_serves_is_the_old_state_until_it_is_the_new_one() -> None:
    async def scenario(node: LoneNode) -> None:
        offer = Offer()
        await node.tell("n2", follow(node, offer.log[1:10]))
        await offered(node, offer)
        chunks = offer.chunks()
        assert len(chunks) > 3
        for chunk in chunks[:-1]:
            node.give("n2", chunk)
            await pass_by(node)
            assert state(node) == (1, 10, 10, 10)
            assert same(node.replica.machine, run_to(offer, 10))
        node.give("n2", chunks[-1])
        await pass_by(node)
        assert state(node) == (50, 50, 50, 50)

    alone(scenario)


# ---------------------------------------------------------------------- what is not taken


def test_an_image_at_or_below_the_commit_index_is_answered_with_what_it_has() -> None:
    async def scenario(node: LoneNode) -> None:
        offer = Offer()
        await node.tell("n2", follow(node, offer.log[1:60], commit=55))
        answer = await node.answer("n2", offer.install(), Appended)
        assert (answer.success, answer.match_index) == (True, 55)
        assert state(node) == (1, 60, 55, 55)
        assert node.disk.mark is None

    alone(scenario)


def test_a_log_that_holds_the_last_entry_of_the_image_keeps_everything() -> None:
    async def scenario(node: LoneNode) -> None:
        offer = Offer()
        await node.tell("n2", follow(node, offer.log[1:60], commit=20))
        answer = await node.answer("n2", offer.install(), Appended)
        assert (answer.success, answer.match_index) == (True, 50)
        assert state(node) == (1, 60, 20, 20)

    alone(scenario)


def test_the_log_of_another_leader_gives_way_where_it_differs() -> None:
    async def scenario(node: LoneNode) -> None:
        offer = Offer()
        other = [(command(f"never-{at}"), at, 2) for at in range(2, 70)]
        await node.tell("n3", follow(node, other, term=2, commit=1))
        assert state(node) == (1, 69, 1, 1)
        await installed(node, offer)
        assert state(node) == (50, 50, 50, 50)
        assert node.disk.records == [offer.log[49]]

    alone(scenario)


def test_a_leader_of_an_earlier_term_learns_of_it() -> None:
    async def scenario(node: LoneNode) -> None:
        offer = Offer()
        await node.tell("n3", node.append(5, (1, 1), []))
        answer = await node.answer("n2", offer.install(term=4), InstallProgress)
        assert (answer.term, answer.received) == (5, -1)
        await node.tell("n2", offer.chunks(term=4)[0])
        assert node.disk.mark is None

    alone(scenario)


def test_an_image_that_is_not_what_it_says_is_not_taken() -> None:
    async def scenario(node: LoneNode) -> None:
        offer = Offer()
        name = max(offer.records)
        offer.records[name] = offer.records[name][:-1] + bytes([offer.records[name][-1] ^ 1])
        await offered(node, offer)
        for chunk in offer.chunks():
            node.give("n2", chunk)
        await pass_by(node)
        refusals = [f for _, f in node.take() if isinstance(f, InstallProgress) and f.received < 0]
        assert len(refusals) == 1
        assert state(node) == (1, 1, 1, 1)
        assert (node.disk.mark, list(node.disk.images), node.disk.current_image) == (None, ["image-1"], "image-1")
        assert (await installed(node, Offer(), transfer=2)).match_index == 50

    alone(scenario)


def test_a_description_that_cannot_be_read_is_answered_and_changes_nothing() -> None:
    async def scenario(node: LoneNode) -> None:
        install = msgspec.structs.replace(Offer().install(), meta=b"what is this")
        assert (await node.answer("n2", install, InstallProgress)).received == -1
        assert node.disk.mark is None

    alone(scenario)


def test_another_clusters_image_ends_the_node() -> None:
    async def scenario(node: LoneNode) -> None:
        offer = Offer()
        offer.meta = msgspec.structs.replace(
            offer.meta, owner=msgspec.structs.replace(offer.meta.owner, cluster_id="another")
        )
        await node.tell("n2", offer.install())
        assert node.ended is not None
        assert "the image of another cluster or entry" in node.ended

    alone(scenario, may_end=True)


def test_an_image_against_what_was_acknowledged_ends_the_node() -> None:
    async def scenario(node: LoneNode) -> None:
        offer = Offer()
        await offered(node, offer)
        *chunks, last = offer.chunks()
        for chunk in chunks:
            node.give("n2", chunk)
        await pass_by(node)
        # The same leader has this node acknowledge another entry 50 meanwhile: two things that cannot both be.
        others = [(command(f"x{at}"), at, 4) for at in range(2, 60)]
        await node.tell("n2", follow(node, others, commit=1))
        node.give("n2", last)
        await pass_by(node)
        assert node.ended is not None
        assert "acknowledged another one there" in node.ended

    alone(scenario, may_end=True)


# ---------------------------------------------------------------------- late, doubled, superseded, given up


def test_doubled_and_late_chunks_are_passed_over() -> None:
    async def scenario(node: LoneNode) -> None:
        offer = Offer()
        await offered(node, offer, transfer=2)
        chunks = offer.chunks(transfer=2)
        node.give("n2", offer.chunks(transfer=1)[0])  # of a transfer that was given up
        node.give("n3", msgspec.structs.replace(chunks[0], term=3))  # of a leader of the past
        node.give("n2", chunks[1])  # out of order
        for chunk in chunks:
            node.give("n2", chunk)
            node.give("n2", chunk)
        node.give("n2", InstallChunk(4, 2, len(chunks), b"\x90", True))
        await pass_by(node)
        assert state(node) == (50, 50, 50, 50)
        assert same(node.replica.machine, run_to(offer, 50))

    alone(scenario)


def test_a_newer_offer_takes_the_place_of_one_that_is_not_complete() -> None:
    async def scenario(node: LoneNode) -> None:
        early, late = Offer(40), Offer(50)
        await offered(node, early)
        node.give("n2", early.chunks()[0])
        await pass_by(node)
        node.take()
        await installed(node, late, transfer=2)
        assert state(node) == (50, 50, 50, 50)
        assert list(node.disk.images) == [node.disk.current_image]

    alone(scenario)


def test_an_offer_while_one_is_complete_waits_for_the_outcome() -> None:
    async def scenario(node: LoneNode) -> None:
        offer = Offer()
        await offered(node, offer)
        for chunk in offer.chunks():
            node.give("n2", chunk)
        node.give("n2", Offer(55).install(transfer=2))
        await pass_by(node)
        assert state(node) == (50, 50, 50, 50)
        answer = await node.answer("n2", follow(node, offer.log[50:55]), Appended)
        assert answer.match_index == 55

    alone(scenario)


def test_the_answer_to_another_leader_counts_no_round_of_the_one_before() -> None:
    async def scenario(node: LoneNode) -> None:
        offer = Offer()
        await offered(node, offer)
        for chunk in offer.chunks():
            node.give("n2", chunk)
        await node.turn()
        await node.tell("n3", node.append(5, (200, 4), [], round=1))
        node.take()
        await pass_by(node)
        told = [(to, f.term, f.round, f.match_index) for to, f in node.take() if isinstance(f, Appended)]
        assert told == [("n3", 5, 0, 50)]

    alone(scenario)


@pytest.mark.parametrize("how", ["stalled", "connection", "log"])
def test_an_install_that_is_given_up_leaves_nothing(how: str) -> None:
    async def scenario(node: LoneNode) -> None:
        node.limits = ImageLimits(stalled_s=0.4)
        await node.restart()
        offer = Offer()
        await offered(node, offer)
        *chunks, last = offer.chunks()
        for chunk in chunks:
            node.give("n2", chunk)
        await pass_by(node)
        assert set(node.disk.images) == {"image-1", "image-2"}
        if how == "connection":
            node.transport.disconnect("n2")
        elif how == "log":  # the leader of the next term has all the entries
            node.give("n2", last)
            await node.tell("n3", follow(node, offer.log[1:], term=5))
        else:
            for _ in range(20):
                await node.tell("n2", node.append(4, (1, 1), []))
                await asyncio.sleep(0.05)
        await pass_by(node)
        assert (node.disk.mark, list(node.disk.images), node.disk.current_image) == (None, ["image-1"], "image-1")
        assert state(node) == ((1, 60, 60, 60) if how == "log" else (1, 1, 1, 1))
        if how != "log":
            node.transport.connect("n2")
            await installed(node, offer, transfer=2)
            assert state(node) == (50, 50, 50, 50)

    alone(scenario)


# ---------------------------------------------------------------------- who waits at this node


def test_what_was_on_its_way_ends_unknown_and_what_was_not_waits_on() -> None:
    async def scenario(node: LoneNode) -> None:
        offer = Offer()
        await node.tell("n2", node.append(3, (1, 1), []))
        operation = b"an operation of this node"
        deadline = node.loop.now + 60
        sent = asyncio.ensure_future(node.replica.propose(operation, urgent=False, deadline=deadline))
        await node.turn()
        await node.tell("n2", node.append(4, (1, 1), []))  # the next leader, of whom it asks the same again
        later = node.core.proposer._pending
        assert [proposal.term for proposal in later.values()] == [3]
        of_this_term = asyncio.ensure_future(node.replica.propose(operation, urgent=False, deadline=deadline))
        await node.turn()
        jumps: list[int] = []
        node.replica.subscribe_jumps(jumps.append)
        await installed(node, offer)
        assert jumps == [50]
        with pytest.raises(OutcomeUnknown, match="by an image"):
            await sent
        assert not of_this_term.done()  # entries of term 4 are behind the image: its outcome will be met
        assert not node.replica.ready  # 60 was committed when the image was offered
        await node.tell("n2", follow(node, offer.log[50:]))
        assert node.replica.ready
        of_this_term.cancel()

    alone(scenario)
