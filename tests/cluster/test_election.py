"""Elections: nobody who was cut off disturbs, nobody votes twice, a leader without a majority gives up."""

import asyncio

import pytest

from cluster.engine import Role
from cluster.frames import Appended, PreVote, PreVoteAnswer, RequestVote, Transfer, Vote
from tests.simulation.cluster import ELECTION_TIMEOUT_MS, SimulatedCluster, simulate
from tests.simulation.lone import INCARNATIONS, LoneNode, alone, command

SHORTEST_S, LONGEST_S = (ms / 1000 for ms in ELECTION_TIMEOUT_MS)


def request(term: int, last_index: int = 99, last_term: int = 9, transfer: int = 0) -> RequestVote:
    return RequestVote(term, last_index, last_term, INCARNATIONS["n2"], transfer)


def support(term: int, last_index: int = 99, last_term: int = 9, incarnation: int = INCARNATIONS["n2"]) -> PreVote:
    return PreVote(term, 77, last_index, last_term, incarnation)


# ---------------------------------------------------------------------- pre-vote


def test_a_pre_vote_changes_no_state() -> None:
    async def scenario(node: LoneNode) -> None:
        engine, deadline, syncs = node.core.engine, node.core.election.deadline, node.disk.syncs
        answer = await node.answer("n2", support(50), PreVoteAnswer)
        assert (answer.term, answer.nonce, answer.granted) == (1, 77, True)
        assert (engine.term, engine.voted_for, node.core.election.deadline) == (1, None, deadline)
        assert node.disk.syncs == syncs

    alone(scenario)


@pytest.mark.parametrize(
    ("frame", "granted"),
    [
        (support(4), True),
        (support(3), False),  # not above this node's term
        (support(4, last_index=1, last_term=3), False),  # a shorter log
        (support(4, last_index=99, last_term=2), False),  # a log that ends in an earlier term
        (support(4, last_index=2, last_term=3), True),
        (support(4, incarnation=4711), False),  # a disk that is not listed
    ],
)
def test_support_is_given_as_a_vote_would_be(frame: PreVote, granted: bool) -> None:
    async def scenario(node: LoneNode) -> None:
        await node.tell("n3", node.append(3, (1, 1), [(3, command("x"))]))
        node.core.election._heard_at = float("-inf")
        assert (await node.answer("n2", frame, PreVoteAnswer)).granted is granted

    alone(scenario)


def test_a_follower_that_hears_its_leader_refuses_and_keeps_its_term() -> None:
    async def scenario(node: LoneNode) -> None:
        await node.tell("n3", node.append(3, (1, 1), []))
        await asyncio.sleep(SHORTEST_S * 0.9)
        node.take()
        assert not (await node.answer("n2", support(9), PreVoteAnswer)).granted
        vote = await node.answer("n2", request(9), Vote)
        assert (vote.granted, vote.term, node.core.engine.leader_id) == (False, 3, "n3")
        assert (await node.answer("n2", request(9, transfer=5), Vote)).granted

    alone(scenario)


def test_a_leader_that_a_majority_answers_refuses_and_keeps_its_term() -> None:
    async def scenario(node: LoneNode) -> None:
        term = await node.lead()
        assert not (await node.answer("n3", PreVote(term + 5, 7, 99, 99, 1003), PreVoteAnswer)).granted
        assert not (await node.answer("n3", RequestVote(term + 5, 99, 99, 1003, 0), Vote)).granted
        assert node.core.engine.is_leader
        assert (await node.answer("n3", RequestVote(term + 5, 99, 99, 1003, 8), Vote)).granted
        assert not node.core.engine.is_leader

    alone(scenario)


def test_answers_to_an_earlier_attempt_count_for_nothing() -> None:
    async def scenario(node: LoneNode) -> None:
        election = node.core.election
        while not election._attempt:
            await asyncio.sleep(0.01)
        node.give("n2", PreVoteAnswer(1, election._attempt + 1, True, INCARNATIONS["n2"]))
        node.give("n2", PreVoteAnswer(1, election._attempt, False, INCARNATIONS["n2"]))
        assert node.core.engine.term == 1
        node.give("n2", PreVoteAnswer(1, election._attempt, True, INCARNATIONS["n2"]))
        assert (node.core.engine.term, node.core.engine.role) == (2, Role.CANDIDATE)

    alone(scenario)


def test_a_node_that_was_cut_off_disturbs_nobody_when_it_returns() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        leader = await cluster.elected()
        term = leader.core.engine.term
        away = next(node for node in cluster.nodes.values() if node is not leader)
        cluster.network.isolate(away.id)
        await asyncio.sleep(10)
        assert away.core.engine.term == term
        cluster.network.heal()
        await cluster.write(away.id, b"x")
        await cluster.until(cluster.settled)
        assert leader.core.engine.is_leader
        assert leader.core.engine.term == term

    simulate(scenario)


def test_a_node_that_sees_the_leader_only_through_others_disturbs_nobody() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        leader = await cluster.elected()
        away = next(node for node in cluster.nodes.values() if node is not leader)
        cluster.network.block(leader.id, away.id)
        cluster.network.block(away.id, leader.id)
        term = leader.core.engine.term
        for number in range(20):
            await cluster.write(leader.id, b"w%d" % number)
            await asyncio.sleep(0.3)
        assert leader.core.engine.term == term

    simulate(scenario)


# ---------------------------------------------------------------------- votes and leaders


def test_a_vote_goes_to_one_candidate_a_term() -> None:
    async def scenario(node: LoneNode) -> None:
        assert (await node.answer("n2", request(5), Vote)).granted
        assert (await node.answer("n2", request(5), Vote)).granted
        assert not (await node.answer("n3", RequestVote(5, 99, 9, 1003, 0), Vote)).granted
        assert (await node.answer("n3", RequestVote(6, 99, 9, 1003, 0), Vote)).granted

    alone(scenario)


def test_a_request_for_votes_leaves_after_the_own_vote_is_durable() -> None:
    async def scenario(node: LoneNode) -> None:
        while not node.core.election._attempt:
            await asyncio.sleep(0.01)
        node.take()
        node.give("n2", PreVoteAnswer(1, node.core.election._attempt, True, INCARNATIONS["n2"]))
        assert node.take() == []
        await node.turn()
        assert (node.disk.term, node.disk.vote) == (2, "n1")
        assert [(to, frame.term) for to, frame in node.take() if isinstance(frame, RequestVote)] == [
            ("n2", 2),
            ("n3", 2),
        ]

    alone(scenario)


def test_a_leader_that_no_majority_answers_steps_down_in_one_election_timeout() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        leader = await cluster.elected()
        await asyncio.sleep(2)
        cluster.network.isolate(leader.id)
        begun = cluster.loop.now
        await cluster.until(lambda: not leader.core.engine.is_leader)
        assert SHORTEST_S < cluster.loop.now - begun < LONGEST_S + 0.2
        assert leader.core.engine.leader_id is None

    simulate(scenario)


def test_a_leader_goes_on_with_one_of_two_followers() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        leader = await cluster.elected()
        next(node for node in cluster.nodes.values() if node is not leader).crash()
        for number in range(20):
            await cluster.write(leader.id, b"w%d" % number)
            await asyncio.sleep(0.3)
        assert leader.core.leads()

    simulate(scenario)


def test_a_single_node_elects_itself_at_once() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        begun = cluster.loop.now
        await cluster.write("n1", b"x")
        assert cluster.loop.now - begun < 0.01
        assert await cluster.read("n1") == 3

    simulate(scenario, size=1)


def test_a_node_whose_disk_is_not_listed_follows_and_counts_for_nothing() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        cluster["n3"].crash()
        cluster["n3"].incarnation = 4711
        await cluster["n3"].start()
        await cluster.elected(among=["n1", "n2"])
        await cluster.write("n1", b"x")
        await cluster.write("n3", b"through it")
        await cluster.until(cluster.settled)
        cluster["n2"].crash()
        begun = cluster.loop.now
        with pytest.raises(Exception, match="deadline"):
            await cluster.write("n1", b"no majority", seconds=5.0)
        assert cluster.loop.now > begun + 4.9
        assert not cluster["n3"].core.leads()

    simulate(scenario)


# ---------------------------------------------------------------------- wall clocks


def test_a_node_with_a_bad_clock_lets_the_others_stand_first() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        leader = await cluster.elected()
        off, good = (node for node in cluster.nodes.values() if node is not leader)
        off.clocks.skew_ms = 3_600_000
        await asyncio.sleep(1)
        leader.crash()
        assert await cluster.elected() is good
        good.crash()
        await leader.start()
        leader.clocks.skew_ms = -3_600_000
        await cluster.elected()  # when there is nobody else, it stands

    for seed in range(1, 6):
        simulate(scenario, seed=seed)


# ---------------------------------------------------------------------- transfer, at the target


def test_only_the_leader_of_the_term_can_ask_for_an_election_and_only_once() -> None:
    async def scenario(node: LoneNode) -> None:
        await node.tell("n2", node.append(3, (1, 1), [(3, command("x"))]))
        for sender, frame in [
            ("n3", Transfer(3, 8, 2)),  # not the leader
            ("n2", Transfer(2, 8, 2)),  # of an earlier term
            ("n2", Transfer(3, 8, 3)),  # this log is shorter
        ]:
            assert await node.tell(sender, frame) == []
        sent = await node.tell("n2", Transfer(3, 9, 2))
        assert [(to, frame.transfer) for to, frame in sent if isinstance(frame, RequestVote)] == [("n2", 9), ("n3", 9)]
        assert node.core.engine.term == 4
        assert await node.tell("n2", Transfer(3, 9, 2)) == []

    alone(scenario)


def test_a_higher_term_in_an_answer_ends_a_candidacy() -> None:
    async def scenario(node: LoneNode) -> None:
        while not node.core.election._attempt:
            await asyncio.sleep(0.01)
        node.give("n2", PreVoteAnswer(1, node.core.election._attempt, True, INCARNATIONS["n2"]))
        node.give("n3", Vote(8, False, INCARNATIONS["n3"], 0))
        assert (node.core.engine.term, node.core.engine.role) == (8, Role.FOLLOWER)
        node.give("n2", Vote(2, True, INCARNATIONS["n2"], 0))
        await node.turn()
        assert not node.core.engine.is_leader
        node.give("n2", Appended(7, 1, INCARNATIONS["n2"], True, 1, 2, 1, 0))
        assert node.core.engine.term == 8

    alone(scenario)
