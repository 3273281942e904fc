"""Nothing that promises durability leaves before it is durable, and no promise of a term that has passed."""

import pytest

from cluster.fatal import InvariantBroken
from cluster.frames import Appended, RequestVote, Vote
from cluster.outbox import barrier
from tests.simulation.lone import LoneNode, alone, command


def acknowledgement(term: int, match_index: int, round: int = 1, success: bool = True) -> Appended:
    return Appended(term, round, 1, success, match_index, 0, match_index, 0)


def test_the_last_acknowledgement_of_a_turn_stands_for_those_before() -> None:
    async def scenario(node: LoneNode) -> None:
        outbox = node.core.outbox
        refusal = acknowledgement(1, 0, round=2, success=False)
        outbox.put("n2", acknowledgement(1, 1, round=1))
        outbox.put("n2", refusal)
        outbox.put("n2", acknowledgement(1, 1, round=3))
        outbox.put("n3", acknowledgement(1, 1, round=1))
        outbox.put("n2", acknowledgement(1, 1, round=4))
        outbox.flush()
        assert node.take() == [
            ("n2", acknowledgement(1, 1, round=1)),
            ("n2", refusal),
            ("n2", acknowledgement(1, 1, round=4)),
            ("n3", acknowledgement(1, 1, round=1)),
        ]

    alone(scenario)


def test_a_heartbeat_behind_the_end_of_an_install_takes_nothing_back() -> None:
    async def scenario(node: LoneNode) -> None:
        await node.tell("n2", node.append(1, (1, 1), [(1, command("x"))] * 4))
        node.take()
        node.core.outbox.put("n2", acknowledgement(1, 5, round=1))
        node.core.outbox.put("n2", acknowledgement(1, 0, round=3))
        node.core.outbox.flush()
        ((_, sent),) = node.take()
        assert isinstance(sent, Appended)
        assert (sent.match_index, sent.round) == (5, 3)

    alone(scenario)


def test_a_promise_of_a_term_that_has_passed_is_dropped() -> None:
    async def scenario(node: LoneNode) -> None:
        node.core.outbox.put("n2", acknowledgement(1, 1))
        node.core.outbox.put("n3", Vote(1, True, 1, 0))
        node.core.engine.adopt_term(2)
        node.journal.sync()
        node.core.outbox.flush()
        assert node.take() == []

    alone(scenario)


@pytest.mark.parametrize(
    ("to", "frame"),
    [("n2", acknowledgement(1, 2)), ("n2", Vote(1, True, 1, 0)), ("n2", RequestVote(1, 1, 1, 1, 0))],
)
def test_a_promise_that_is_not_durable_ends_the_node(to: str, frame: Appended | Vote | RequestVote) -> None:
    async def scenario(node: LoneNode) -> None:
        node.core.outbox.put(to, frame)
        with pytest.raises(InvariantBroken, match="more than is durable"):
            node.core.outbox.flush()

    alone(scenario)


def test_the_barrier_stands_before_whoever_sends() -> None:
    async def scenario(node: LoneNode) -> None:
        engine = node.core.engine
        engine.store(2, 1, command("x"))
        barrier(engine, {"type": "append_entries"})
        barrier(engine, {"type": "pre_vote"})
        for kind in ("appended", "vote", "propose", "read_answer"):
            with pytest.raises(InvariantBroken, match=f"a {kind} frame"):
                barrier(engine, {"type": kind})
        node.journal.sync()
        barrier(engine, {"type": "vote"})
        assert node.transport.before_send({"type": "vote"}) is None

    alone(scenario)
