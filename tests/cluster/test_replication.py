"""The leader's side: what is on its way is bounded, what is committed is on a majority's disks, losses are noticed."""

import asyncio

from cluster.frames import Appended, AppendEntries, Expelled
from cluster.intake import IN_FLIGHT
from cluster.replication import WINDOW_BYTES, WINDOW_FRAMES, Progress
from tests.simulation.cluster import SimulatedCluster, simulate
from tests.simulation.lone import INCARNATIONS, LoneNode, alone, command


def refuse(node: LoneNode, peer: str, round: int, last_index: int, hint: int) -> None:
    node.give(peer, Appended(node.core.engine.term, round, INCARNATIONS[peer], False, 0, hint, last_index, 0))


def progress(node: LoneNode, peer: str) -> Progress:
    return node.core.replication.progress[peer]


def log_of(node: LoneNode, count: int, size: int) -> None:
    """Entries of term 1 that this node has before it leads."""
    for index in range(2, count + 2):
        node.disk.records.append((command("x" * size), index, 1))


def test_a_follower_that_does_not_answer_costs_a_bounded_window() -> None:
    async def scenario(node: LoneNode) -> None:
        log_of(node, 3000, 4000)
        await node.restart()
        await node.lead()
        for peer in ("n2", "n3"):
            node.acknowledge(peer, 1)  # it has nothing but genesis
        refuse(node, "n3", node.core.replication.round, 1, 2)
        await node.turn()
        node.acknowledge("n3", 2)
        await node.turn()
        assert WINDOW_BYTES <= progress(node, "n3").unanswered_bytes < WINDOW_BYTES + (1 << 20)
        assert len(progress(node, "n3").unanswered) <= WINDOW_FRAMES
        node.take()
        for _ in range(10):
            await asyncio.sleep(0.05)
            node.acknowledge("n2")
        sent = [frame for to, frame in node.take() if to == "n3" and isinstance(frame, AppendEntries)]
        assert len(sent) >= 9
        assert not any(frame.entries for frame in sent)

    alone(scenario)


def test_small_frames_are_bounded_by_their_number() -> None:
    async def scenario(node: LoneNode) -> None:
        await node.lead()
        node.acknowledge("n3", node.core.engine.last_index)
        for number in range(3 * WINDOW_FRAMES):
            node.core.engine.append(b"entry %d" % number)
            node.core.replication.send(node.loop.now)
        assert len(progress(node, "n3").unanswered) == WINDOW_FRAMES
        node.replica.crash()

    alone(scenario)


def test_a_follower_that_is_behind_is_found_in_a_few_probes_and_caught_up() -> None:
    async def scenario(node: LoneNode) -> None:
        log_of(node, 500, 10)
        await node.restart()
        await node.lead()
        refuse(node, "n3", node.core.replication.round, 100, 101)
        await node.turn()
        (probe,) = [f for to, f in node.take() if to == "n3" and isinstance(f, AppendEntries)]
        assert (probe.prev_index, len(probe.entries)) == (100, 402)
        refuse(node, "n3", probe.round - 1, 100, 101)  # of a frame before the probe: nothing new
        await node.turn()
        assert [f for to, f in node.take() if to == "n3"] == []

    alone(scenario)


def test_commit_needs_a_majority_and_the_own_disk() -> None:
    async def scenario(node: LoneNode) -> None:
        await node.lead()
        engine = node.core.engine
        index = engine.append(b"entry")
        assert node.journal.dirty
        node.acknowledge("n2", index)
        assert not node.core.replication.advance_commit()
        node.journal.sync()
        assert node.core.replication.advance_commit()
        assert engine.commit_index == index
        node.replica.crash()

    alone(scenario)


def test_entries_of_an_earlier_term_are_committed_only_with_one_of_the_own_term() -> None:
    async def scenario(node: LoneNode) -> None:
        log_of(node, 5, 1)
        await node.restart()
        engine = node.core.engine
        assert engine.commit_index == 1
        await node.lead()
        assert engine.commit_index == 7
        node.replica.crash()

    alone(scenario)

    async def older_only(node: LoneNode) -> None:
        log_of(node, 5, 1)
        await node.restart()
        replication, engine = node.core.replication, node.core.engine
        engine.become_candidate()
        engine.journal.sync()
        engine.become_leader()
        node.core.leadership.begin(node.loop.now)
        engine.journal.sync()
        node.acknowledge("n2", 6, round=1)  # all of term 1, but not the no-op
        assert not replication.advance_commit()
        assert engine.commit_index == 1
        node.acknowledge("n2", 7, round=2)
        assert replication.advance_commit()
        assert engine.commit_index == 7
        node.replica.crash()

    alone(older_only)


def test_a_follower_whose_disk_lost_what_it_acknowledged_is_refused_and_counts_no_more() -> None:
    async def scenario(node: LoneNode) -> None:
        log_of(node, 5, 1)
        await node.restart()
        term = await node.lead()
        last = node.core.engine.last_index
        node.transport.disconnect("n2")
        node.transport.connect("n2")
        await node.turn()
        refuse(node, "n2", node.core.replication.round, 3, 4)
        await node.turn()
        told = [frame for to, frame in node.take() if to == "n2" and isinstance(frame, Expelled)]
        assert len(told) == 1
        assert told[0].term == term
        assert f"acknowledged {last}" in told[0].reason
        index = node.core.engine.append(b"entry")
        node.journal.sync()
        node.acknowledge("n2", index)
        assert not node.core.replication.advance_commit()
        node.replica.crash()

    alone(scenario)


def test_an_expelled_node_stops_and_says_why() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        leader = await cluster.elected()
        follower = next(node for node in cluster.nodes.values() if node is not leader)
        for number in range(5):
            await cluster.write(leader.id, b"w%d" % number)
        await cluster.until(cluster.settled)
        follower.crash()
        del follower.disk.records[-3:]  # the disk of yesterday
        cluster.may_end = {follower.id}
        await follower.start()
        await cluster.until(lambda: follower.ended is not None)
        assert "its disk lost what it had promised" in (follower.ended or "")
        await cluster.write(leader.id, b"the others go on")

    simulate(scenario)


def test_a_node_that_came_back_with_another_disk_starts_anew() -> None:
    async def scenario(node: LoneNode) -> None:
        log_of(node, 5, 1)
        await node.restart()
        term = await node.lead()
        assert progress(node, "n2").match_index == 7
        node.give("n2", Appended(term, node.core.replication.round, 4711, False, 0, 2, 1, 0))
        assert progress(node, "n2").match_index == 0
        assert not progress(node, "n2").expelled
        assert node.core.replication.answered_since(0.0) == set()

    alone(scenario)


def test_followers_learn_of_a_commit_at_once() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        leader = await cluster.elected()
        await asyncio.sleep(1)
        for number in range(5):
            await cluster.write(leader.id, b"w%d" % number)
            begun = cluster.loop.now
            await cluster.until(cluster.settled)
            assert cluster.loop.now - begun < 0.005

    simulate(scenario)


def test_entries_in_flight_are_two_and_frames_may_be_lost_at_any_time() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        leader = await cluster.elected()
        deepest = 0

        def watch(sender: str, receiver: str, message: object) -> None:
            nonlocal deepest
            engine = leader.core.engine
            deepest = max(deepest, engine.last_index - engine.commit_index)

        cluster.network.watchers.append(watch)
        writes = [asyncio.ensure_future(cluster.write(leader.id, b"w%d" % number)) for number in range(5000)]
        await asyncio.gather(*writes)
        assert deepest == IN_FLIGHT
        assert leader.running.metrics.entries_proposed <= 12

    simulate(scenario)
