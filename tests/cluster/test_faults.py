"""The faults of the Raft library that must not reach us, one named test each (or a few).

F2, F3, F14 and the part of F4 that is about snapshots are in `test_faults_images`, F9 is the transport's, F13 the
bootstrap's.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from cluster.engine import ENTRY, NO_OP
from cluster.frames import Appended, AppendEntries, PreVote, PreVoteAnswer, Propose, RequestVote, Vote
from cluster.node import OutcomeUnknown, Unavailable
from statemachine.machine import Applied, Machine, Outcome
from tests.simulation.cluster import SimulatedCluster, SimulatedNode, attempt, simulate
from tests.simulation.lone import INCARNATIONS, LoneNode, alone, command

# ---------------------------------------------------------------------- F1: nothing is ever synced


def test_f1_an_acknowledgement_says_only_what_a_power_loss_leaves() -> None:
    async def scenario(node: LoneNode) -> None:
        entries = [(3, command(f"o{number}")) for number in range(3)]
        node.give("n2", node.append(3, (1, 1), entries))
        assert node.disk.records[-1][1] == 1  # nothing is durable before the turn,
        assert not [m for _, m in node.transport.sent if m["type"] == "appended"]  # and nothing is said
        await node.turn()
        acknowledged = [m for _, m in node.transport.sent if m["type"] == "appended"]
        assert [m["match_index"] for m in acknowledged] == [4]
        await node.restart()
        assert (node.core.engine.last_index, node.core.engine.term) == (4, 3)

    alone(scenario)


def test_f1_a_vote_survives_a_power_loss() -> None:
    async def scenario(node: LoneNode) -> None:
        first = await node.answer("n2", RequestVote(5, 9, 4, INCARNATIONS["n2"], 0), Vote)
        assert (first.term, first.granted) == (5, True)
        await node.restart()
        second = await node.answer("n3", RequestVote(5, 9, 4, INCARNATIONS["n3"], 0), Vote)
        assert (second.term, second.granted) == (5, False)
        again = await node.answer("n2", RequestVote(5, 9, 4, INCARNATIONS["n2"], 0), Vote)
        assert again.granted

    alone(scenario)


def test_f1_one_sync_a_turn_however_much_arrived() -> None:
    async def scenario(node: LoneNode) -> None:
        before = node.disk.syncs
        for number in range(10):
            node.give("n2", node.append(3, (1 + number, 3 if number else 1), [(3, command("o"))], round=number + 1))
        await node.turn()
        assert node.disk.syncs == before + 1
        answers = [m for _, m in node.transport.sent if m["type"] == "appended"]
        assert [(m["match_index"], m["round"]) for m in answers] == [(11, 10)]

    alone(scenario)


def test_f1_a_failed_sync_ends_the_node_before_anything_leaves() -> None:
    def broken() -> None:
        raise OSError("no space left on device")

    async def scenario(node: LoneNode) -> None:
        node.disk.fault = broken
        sent = await node.tell("n2", node.append(3, (1, 1), [(3, command("o"))]))
        assert node.ended is not None
        assert "no space left" in node.ended
        assert sent == []

    alone(scenario, may_end=True)


def test_f1_what_was_acknowledged_survives_the_loss_of_power_everywhere() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.elected()
        for number in range(20):
            await cluster.write(cluster.ids[number % 3], b"w%d" % number)
            for node in cluster.nodes.values():
                node.crash()
            await cluster.start()
        await cluster.write("n1", b"last")
        await cluster.until(cluster.settled)
        cluster.check_log()

    simulate(scenario)


# ---------------------------------------------------------------------- F4: false success, late resets


def test_f4_a_deposed_leader_reports_no_success_for_what_never_committed() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        old = await cluster.elected()
        others = [node_id for node_id in cluster.ids if node_id != old.id]
        await cluster.write(old.id, b"base")
        cluster.network.isolate(old.id)
        lost = [asyncio.ensure_future(cluster.write(old.id, b"lost%d" % n, seconds=0.2)) for n in range(3)]
        kept = [asyncio.ensure_future(cluster.write(old.id, b"kept%d" % n, seconds=20.0)) for n in range(3)]
        await cluster.elected(among=others)
        for number in range(50):
            await cluster.write(others[0], b"new%d" % number)
        cluster.network.heal()
        results = await asyncio.gather(*lost, return_exceptions=True)
        assert all(isinstance(result, OutcomeUnknown) for result in results)
        assert all(isinstance(result, Outcome) for result in await asyncio.gather(*kept))
        await cluster.until(cluster.settled)
        cluster.check_log()
        assert not {b"lost0", b"lost1", b"lost2"} & set(cluster.written(old.id))

    simulate(scenario)


def test_f4_a_late_refusal_below_match_is_ignored() -> None:
    async def scenario(node: LoneNode) -> None:
        term = await node.lead()
        last = node.core.engine.last_index
        progress = node.core.replication.progress["n2"]
        assert progress.match_index == last
        late = Appended(term, progress.match_round - 1, INCARNATIONS["n2"], False, 0, 1, 0, 0)
        node.give("n2", late)
        await node.turn()
        assert progress.match_index == last
        assert progress.next_index == last + 1
        sent = await node.tell("n2", late)
        assert all(frame.prev_index == last for _, frame in sent if isinstance(frame, AppendEntries))

    alone(scenario)


@pytest.mark.parametrize(
    "snapshot",
    [
        {"type": "append_entries", "term": 9, "commit_index": 99, "serialized": [b"x", True, False]},
        {"type": "append_entries", "term": 9, "commit_index": 99, "transmission": "start", "data": b"x"},
        {"type": "install_snapshot", "term": 9, "index": 99, "data": b"x"},
    ],
)
def test_f4_a_snapshot_drops_no_acknowledged_tail(snapshot: dict[str, Any]) -> None:
    async def scenario(node: LoneNode) -> None:
        await node.tell("n2", node.append(3, (1, 1), [(3, command(f"o{n}")) for n in range(20)], commit=11))
        assert await node.tell("n2", snapshot) == []
        engine = node.core.engine
        assert (engine.term, engine.commit_index, engine.last_index) == (3, 11, 21)
        assert node.replica.metrics.malformed_frames == 1
        shorter = await node.answer("n3", RequestVote(9, 15, 3, INCARNATIONS["n3"], 1), Vote)
        assert not shorter.granted

    alone(scenario)


# ---------------------------------------------------------------------- F5: any append-entries truncates what follows


def test_f5_a_late_frame_cuts_nothing_off() -> None:
    async def scenario(node: LoneNode) -> None:
        entries = [(3, command(f"o{number}")) for number in range(9)]
        await node.tell("n2", node.append(3, (1, 1), entries, round=5))
        late = await node.answer("n2", node.append(3, (1, 1), entries[:2], round=2), Appended)
        assert late.success
        assert late.match_index == 3
        heartbeat = await node.answer("n2", node.append(3, (2, 3), [], round=6), Appended)
        assert heartbeat.success
        assert node.core.engine.last_index == 10

    alone(scenario)


def test_f5_a_real_conflict_is_cut_off_and_replaced() -> None:
    async def scenario(node: LoneNode) -> None:
        await node.tell("n2", node.append(3, (1, 1), [(3, command(f"o{n}")) for n in range(9)], commit=4))
        refused = await node.answer("n3", node.append(5, (12, 5), []), Appended)
        assert (refused.success, refused.hint) == (False, 11)
        refused = await node.answer("n3", node.append(5, (10, 4), []), Appended)
        assert (refused.success, refused.hint) == (False, 5)  # the whole term that does not fit, above the commit
        taken = await node.answer("n3", node.append(5, (5, 3), [(4, command("x")), (5, command("y"))]), Appended)
        assert (taken.success, taken.match_index) == (True, 7)
        assert [term for _, _, term in node.disk.records] == [1, 3, 3, 3, 3, 4, 5]

    alone(scenario)


def test_f5_a_conflict_with_what_is_committed_ends_the_node() -> None:
    async def scenario(node: LoneNode) -> None:
        await node.tell("n2", node.append(3, (1, 1), [(3, command(f"o{n}")) for n in range(9)], commit=8))
        assert await node.tell("n3", node.append(5, (4, 3), [(5, command("x"))])) == []
        assert node.ended is not None
        assert "entry 5 would be cut off, but 8 is committed" in node.ended
        assert node.disk.records[-1][1] == 10

    alone(scenario, may_end=True)


def test_f5_an_acknowledged_write_survives_late_frames_of_a_replaced_connection() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        leader = await cluster.elected()
        for number in range(100):
            writes = [asyncio.ensure_future(cluster.write(leader.id, b"%d-%d" % (number, n))) for n in range(5)]
            await asyncio.sleep(cluster.rng.uniform(0, 0.002))
            cluster.network.break_link(leader.id, cluster.rng.choice([i for i in cluster.ids if i != leader.id]))
            await asyncio.gather(*writes)
        await cluster.until(cluster.settled)
        cluster.check_log()

    simulate(scenario)


# ---------------------------------------------------------------------- F6: answers carry no term, votes no voter


def test_f6_a_lower_term_is_answered_with_the_own_one() -> None:
    async def scenario(node: LoneNode) -> None:
        await node.tell("n2", node.append(9, (1, 1), []))
        answer = await node.answer("n3", node.append(4, (1, 1), []), Appended)
        assert (answer.term, answer.success) == (9, False)
        vote = await node.answer("n3", RequestVote(4, 99, 4, INCARNATIONS["n3"], 0), Vote)
        assert (vote.term, vote.granted) == (9, False)
        support = await node.answer("n3", PreVote(4, 7, 99, 4, INCARNATIONS["n3"]), PreVoteAnswer)
        assert (support.term, support.granted) == (9, False)
        refused = await node.tell("n3", Propose(4, 1, 0, [(0, False, b"x")]))
        assert refused[0][1].term == 9

    alone(scenario)


def test_f6_a_leader_that_sees_a_higher_term_steps_down() -> None:
    async def scenario(node: LoneNode) -> None:
        term = await node.lead()
        node.give("n3", Appended(term + 4, 1, INCARNATIONS["n3"], False, 0, 0, 1, 0))
        assert not node.core.engine.is_leader
        assert node.core.engine.term == term + 4

    alone(scenario)


def test_f6_one_voter_is_one_vote_and_an_unlisted_disk_none() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        """Of five nodes one answers for all, twice and with another disk."""
        node = cluster["n1"]
        await node.start()
        election, engine = node.core.election, node.core.engine
        await cluster.until(lambda: bool(election._attempt))
        for incarnation in (1001, 1001, 1001, 7, 8):
            election.on_pre_vote_answer("n2", PreVoteAnswer(1, election._attempt, True, incarnation), cluster.loop.now)
        for unlisted in ("n3", "n4", "n5"):
            election.on_pre_vote_answer(unlisted, PreVoteAnswer(1, election._attempt, True, 7), cluster.loop.now)
        assert engine.term == 1  # two of five is no majority
        election.on_pre_vote_answer("n3", PreVoteAnswer(1, election._attempt, True, 1002), cluster.loop.now)
        assert engine.term == 2
        for incarnation in (1001, 1001, 1001, 7, 8):
            election.on_vote("n2", Vote(2, True, incarnation, 0), cluster.loop.now)
        for unlisted in ("n3", "n4", "n5"):
            election.on_vote(unlisted, Vote(2, True, 7, 0), cluster.loop.now)
        node.core.kick()
        await asyncio.sleep(0.001)
        assert not engine.is_leader
        election.on_vote("n3", Vote(2, True, 1002, 0), cluster.loop.now)
        node.core.kick()
        await asyncio.sleep(0.001)
        assert engine.is_leader

    simulate(scenario, size=5, start=False)


def test_f6_an_acknowledgement_of_an_earlier_term_or_an_unlisted_disk_commits_nothing() -> None:
    async def scenario(node: LoneNode) -> None:
        term = await node.lead()
        committed, last = node.core.engine.commit_index, node.core.engine.last_index
        write = asyncio.ensure_future(propose(node, 0.3))
        await node.turn()
        assert node.core.engine.last_index == last + 1
        round_ = node.core.replication.round
        await node.tell("n3", Appended(term - 1, round_, INCARNATIONS["n3"], True, last + 1, last + 2, last + 1, 0))
        await node.tell("n3", Appended(term, round_, 4711, True, last + 1, last + 2, last + 1, 0))
        assert node.core.engine.commit_index == committed
        with pytest.raises(OutcomeUnknown):
            await write

    alone(scenario)


def test_f6_a_node_with_a_higher_term_comes_back_in() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.elected()
        late = next(node for node in cluster.nodes.values() if not node.core.leads())
        late.crash()
        late.disk.term, late.disk.vote = 40, late.id
        await cluster.write(cluster.alive[0].id, b"meanwhile")
        await late.start()
        await cluster.until(cluster.settled, 5.0)
        await cluster.write(late.id, b"through it")
        await cluster.until(cluster.settled)
        cluster.check_log()
        assert late.core.engine.term > 40

    simulate(scenario)


# ---------------------------------------------------------------------- F7: exceptions are retried, or applied twice


class _Dies(Exception):
    pass


async def _dies_and_recovers(cluster: SimulatedCluster, leader: SimulatedNode) -> None:
    """The leader ended by itself, once; restarted, it has everything, once."""
    cluster.may_end = {leader.id}
    await cluster.until(lambda: leader.ended is not None)
    assert "_Dies" in (leader.ended or "")
    assert len(cluster.ends) == 1
    await leader.start()
    await cluster.until(cluster.settled)
    cluster.check_log()


def test_f7_an_exception_out_of_apply_ends_the_node_and_is_not_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        leader = await cluster.elected()
        tries = 0

        def apply(machine: Machine, index: int, entry: Any) -> Applied:
            nonlocal tries
            if machine is leader.running.machine:
                tries += 1
                raise _Dies
            return original(machine, index, entry)

        original = Machine.apply
        monkeypatch.setattr(Machine, "apply", apply)
        assert await attempt(cluster.write(leader.id, b"x")) is None
        monkeypatch.setattr(Machine, "apply", original)
        assert tries == 1
        await _dies_and_recovers(cluster, leader)
        assert cluster.written(leader.id).count(b"x") == 1

    simulate(scenario)


def test_f7_an_exception_out_of_a_subscriber_ends_the_node_and_nothing_is_applied_twice() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        leader = await cluster.elected()

        def fail(index: int, applied: Applied) -> None:
            raise _Dies

        leader.running.subscribe(fail)
        await attempt(cluster.write(leader.id, b"x"))
        await _dies_and_recovers(cluster, leader)
        assert cluster.written(leader.id).count(b"x") == 1

    simulate(scenario)


# ---------------------------------------------------------------------- F8: command ids are positions in a sorted list


def test_f8_the_log_has_one_command_type_of_ours_and_an_unknown_one_ends_the_node() -> None:
    async def scenario(node: LoneNode) -> None:
        entries = [(3, bytes((NO_OP,))), (3, command("x"))]
        await node.tell("n2", node.append(3, (1, 1), entries, commit=3))
        assert {data[0] for data, _, _ in node.disk.records} == {ENTRY, NO_OP}
        assert node.core.engine.applied_index == 3
        await node.tell("n2", node.append(3, (3, 3), [(3, b"\x00" + b"a pickle")], commit=4))
        assert node.ended is not None
        assert "command of type 0" in node.ended

    alone(scenario, may_end=True)


# ---------------------------------------------------------------------- F11: a waiting call can hang for ever


async def propose(node: LoneNode, seconds: float) -> Outcome:
    deadline = node.loop.now + seconds
    return await node.replica.propose(SimulatedCluster.operation(b"x"), urgent=False, deadline=deadline)


def test_f11_every_call_ends_by_its_deadline_whatever_happens() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        old = await cluster.elected()
        cluster.network.isolate(old.id)
        begun = cluster.loop.now
        calls: list[Coroutine[Any, Any, Any]] = []
        for seconds in (0.1, 0.3, 1.0, 3.0):
            calls += [cluster.write(old.id, b"w%d" % (seconds * 10), seconds), cluster.read(old.id, seconds)]
        await asyncio.sleep(0)
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(result, Unavailable | OutcomeUnknown) for result in results)
        assert all(isinstance(result, Unavailable) for result in results[1::2])
        assert cluster.loop.now < begun + 3.1

    simulate(scenario)


def test_f11_a_call_that_waits_over_a_change_of_leader_is_settled_by_it() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        old = await cluster.elected()
        others = [node_id for node_id in cluster.ids if node_id != old.id]
        cluster.network.isolate(old.id)
        waiting = [asyncio.ensure_future(cluster.write(old.id, b"w%d" % n, seconds=60.0)) for n in range(10)]
        await cluster.elected(among=others)
        cluster.network.heal()
        await asyncio.wait_for(asyncio.gather(*waiting), 3.0)
        await cluster.until(cluster.settled)
        cluster.check_log()

    simulate(scenario)


def test_f11_the_library_s_own_queue_and_forwarding_are_closed() -> None:
    async def scenario(node: LoneNode) -> None:
        raft = node.core.engine._raft
        with pytest.raises(RuntimeError):
            raft._applyCommand(b"x", None, 0)
        with pytest.raises(RuntimeError):
            raft.doTick()
        assert await node.tell("n2", {"type": "apply_command", "command": b"\x00x", "request_id": 1}) == []
        assert await node.tell("n2", {"type": "timeout_now", "term": 9}) == []
        assert node.core.engine.last_index == 1

    alone(scenario)


# ---------------------------------------------------------------------- F12: reads are local


def test_f12_a_leader_that_was_cut_off_answers_no_read() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        old = await cluster.elected()
        others = [node_id for node_id in cluster.ids if node_id != old.id]
        cluster.network.isolate(old.id)
        early = asyncio.ensure_future(cluster.read(old.id, seconds=30.0))
        assert old.core.engine.is_leader
        await cluster.elected(among=others)
        for number in range(10):
            await cluster.write(others[0], b"new%d" % number)
        late = asyncio.ensure_future(cluster.read(old.id, seconds=30.0))
        await asyncio.sleep(0.3)
        assert not early.done()
        assert not late.done()
        cluster.network.heal()
        assert await late >= cluster.acknowledged_index
        await early

    simulate(scenario)


def test_f12_a_new_leader_answers_no_read_before_its_own_entry_is_applied() -> None:
    async def behind(node: LoneNode) -> None:
        engine = node.core.engine
        await node.tell("n3", node.append(4, (1, 1), [(4, command("committed, as far as n3 knew"))], commit=1))
        while not engine.is_leader:
            await asyncio.sleep(0.01)
            for to, frame in node.take():
                if to == "n2" and isinstance(frame, PreVote):
                    node.give("n2", PreVoteAnswer(frame.term - 1, frame.nonce, True, 1002))
                elif to == "n2" and isinstance(frame, RequestVote):
                    node.give("n2", Vote(frame.term, True, 1002, 0))
        read = asyncio.ensure_future(node.replica.read(node.loop.now + 5))
        await node.turn()
        node.acknowledge("n2", 2)  # it answers the round, but does not have the no-op yet
        await node.turn()
        assert not read.done()
        assert engine.commit_index == 1
        node.acknowledge("n2")
        await node.turn()
        assert await read == 3

    alone(behind)


def test_f12_reads_of_one_moment_share_a_round() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        leader = await cluster.elected()
        follower = next(node for node in cluster.nodes.values() if node is not leader)
        before = leader.running.metrics.read_rounds
        await asyncio.gather(*(cluster.read(follower.id) for _ in range(50)))
        assert leader.running.metrics.read_rounds == before + 1

    simulate(scenario)
