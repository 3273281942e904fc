"""The faults of the Raft library that have to do with snapshots, one named test each (or a few).

The others are in `test_faults`. `DESIGN.md` has the table.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cluster.frames import Appended, Install, InstallChunk, RequestVote, Vote
from cluster.image_file import LmdbFile
from cluster.image_limits import ImageLimits
from cluster.image_records import ImageError
from cluster.node import OutcomeUnknown, Replica, Unavailable
from statemachine.image_state import record_name
from statemachine.machine import Outcome
from tests.cluster.imaged import same
from tests.cluster.loops import until
from tests.cluster.offered import Offer
from tests.cluster.test_ground import begin, configs, write
from tests.cluster.test_install import follow, pass_by, run_to, state
from tests.cluster.test_transfers import LIMITS, Leader, leading
from tests.simulation.cluster import SimulatedCluster, simulate
from tests.simulation.lone import INCARNATIONS, LoneNode, alone
from tests.simulation.test_installs import Load, settle, trimmed
from tests.simulation.test_random import EARLY

# ---------------------------------------------------------------------- F2: compaction rewrites the journal in place


def test_f2_trimming_changes_no_entry_that_stays() -> None:
    async def scenario(node: LoneNode) -> None:
        node.limits = ImageLimits(kept_entries=0)
        await node.restart()
        offer, seen = Offer(), []
        node.disk.passed = lambda what: seen.append((what, list(node.disk.records)))
        for at in range(2, 60):
            await node.tell("n2", follow(node, [offer.log[at - 1]]))
            await asyncio.sleep(0.05)
        assert node.disk.records[0][1] > 20
        for _, records in seen:
            assert records == offer.log[records[0][1] - 1 : records[-1][1]]

    alone(scenario)


def test_f2_a_trim_is_one_transaction() -> None:
    async def scenario(node: LoneNode) -> None:
        offer = Offer()
        await node.tell("n2", follow(node, offer.log[1:50]))
        before = node.disk.syncs
        node.core.engine.trim_to(40)
        assert len(node.disk.records) == 50
        node.core.kick()
        await node.turn()
        assert (node.disk.syncs, node.disk.records) == (before + 1, offer.log[39:50])

    alone(scenario)


def test_f2_an_image_that_does_not_match_leaves_the_journal_as_it_is() -> None:
    async def scenario(node: LoneNode) -> None:
        offer = Offer()
        await node.tell("n2", follow(node, offer.log[1:50]))
        await asyncio.sleep(0.6)
        assert node.core.imaging.writer.image.index == 50
        node.replica.crash()
        node.thread.kill()
        node.disk.records[40:] = [(data, at, 2) for data, at, _ in node.disk.records[40:]]
        before = list(node.disk.records)
        with pytest.raises(ImageError, match="they do not belong together"):
            await node.start()
        assert node.disk.records == before

    alone(scenario)


# ---------------------------------------------------------------------- F3: an unreadable snapshot is swallowed


@pytest.mark.parametrize("damage", ["cut", "a record", "current"])
def test_f3_a_node_whose_image_cannot_be_read_does_not_start(tmp_path: Path, damage: str) -> None:
    (config,) = configs(tmp_path, 1)
    images = config.data / "image"

    async def first() -> None:
        replica = Replica(config)
        await begin([replica])
        await write(replica, b"before")
        await until(lambda: replica.metrics.image_index == replica.machine.index)
        await replica.stop(1.0)

    async def second() -> None:
        replica = Replica(config)
        with pytest.raises(ImageError) as raised:
            await replica.start()
        assert "move the directory `image` in the data directory away" in str(raised.value)
        assert not replica.ready
        host, port = config.peers["n1"].split(":")
        with pytest.raises(ConnectionRefusedError):  # it neither votes nor answers
            await asyncio.open_connection(host, int(port))
        await replica.stop(1.0)

    async def third() -> None:
        """As the message says."""
        images.rename(tmp_path / "away")
        replica = Replica(config)
        await replica.start()
        await until(lambda: replica.ready)
        await write(replica, b"after")
        await replica.stop(1.0)

    asyncio.run(first())
    file = images / "image-1" / "data.mdb"
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:8192])
    elif damage == "current":
        (images / "CURRENT").write_bytes(b"image-9\n")
    else:
        opened = LmdbFile(str(file.parent))
        with opened.transaction() as transaction:
            name = record_name("cluster", "cluster")
            stored = transaction.pop(name)
            assert stored is not None
            transaction.replace(name, stored[:-1] + bytes([stored[-1] ^ 1]))
        opened.close()
    asyncio.run(second())
    asyncio.run(third())


# ---------------------------------------------------------------------- F4: snapshots and what was acknowledged


def test_f4_a_deposed_leader_never_reports_success_for_what_was_not_committed() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        old = await cluster.elected()
        others = [node_id for node_id in cluster.ids if node_id != old.id]
        await cluster.write(old.id, b"base")
        cluster.network.isolate(old.id)
        lost = [asyncio.ensure_future(cluster.write(old.id, b"lost%d" % number, 30.0)) for number in range(3)]
        await cluster.elected(among=others)
        load = Load(cluster, others)
        await cluster.until(lambda: all(cluster[i].core.engine.first_index > 10 for i in others), 60, "trimmed")
        assert old.core.engine.last_index > 3  # it has them in its log
        cluster.network.heal()
        await cluster.until(lambda: cluster.installs == 1, 30, "an image")
        await load.stop()
        outcomes = await asyncio.gather(*lost, return_exceptions=True)
        await settle(cluster)
        written = cluster.written(old.id) + [name for name in cluster.acknowledged if name.startswith(b"lost")]
        for number, outcome in enumerate(outcomes):
            if isinstance(outcome, Outcome):
                assert b"lost%d" % number in written
            else:
                assert isinstance(outcome, OutcomeUnknown | Unavailable)

    simulate(scenario, limits=EARLY)


def test_f4_a_late_image_takes_nothing_of_an_acknowledged_tail() -> None:
    async def scenario(node: LoneNode) -> None:
        offer = Offer(100, further=20)
        answer = await node.answer("n2", follow(node, offer.log[1:], commit=120), Appended)
        assert answer.match_index == 120
        for transfer in (1, 2):  # a second one, that a late answer had started, as well
            answer = await node.answer("n2", offer.install(transfer=transfer), Appended)
            assert answer.match_index == 120
            for chunk in offer.chunks(transfer=transfer):
                node.give("n2", chunk)
            await pass_by(node)
        assert state(node) == (1, 120, 120, 120)
        assert same(node.replica.machine, run_to(offer, 120))
        await asyncio.sleep(1.0)  # without a leader
        vote = await node.answer("n3", RequestVote(9, 100, 3, INCARNATIONS["n3"], 0), Vote)
        assert not vote.granted  # who lacks 101 to 120 may not lead

    alone(scenario)


def test_f4_a_late_refusal_below_match_starts_no_transfer_and_sends_nothing_again() -> None:
    async def scenario(leader: Leader) -> None:
        node = leader.node
        engine = node.core.engine
        before = node.core.replication.progress["n2"].next_index
        node.give("n2", Appended(engine.term, 1, INCARNATIONS["n2"], False, 0, 2, engine.last_index, 0))
        await leader.wait(0.3)
        sent = [frame for to, frame in node.take() if to == "n2"]
        assert not [frame for frame in sent if isinstance(frame, Install | InstallChunk)]
        assert node.core.replication.progress["n2"].next_index == before

    leading(scenario)


def test_f4_a_node_killed_and_caught_up_again_and_again_never_has_less() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.elected()
        load = Load(cluster, cluster.ids[:2])
        late, reached = cluster["n3"], 0
        for _ in range(4):
            behind = late.core.engine.last_index
            late.crash()
            await trimmed(cluster, behind)
            await late.start()
            await cluster.until(lambda: late.running.ready, 30, "ready")
            await asyncio.sleep(0.5)
            assert late.core.engine.commit_index > reached
            reached = late.core.engine.commit_index
        assert cluster.installs == 4
        await load.stop()
        await settle(cluster)

    simulate(scenario, limits=EARLY)


# ---------------------------------------------------------------------- F14: dumps that stall, transfers without end


def test_f14_what_changed_is_handed_over_and_not_copied() -> None:
    async def scenario(node: LoneNode) -> None:
        await node.tell("n2", follow(node, Offer().log[1:50]))
        store = node.replica.machine.store
        changed = store.dirty
        assert changed
        assert node.replica.machine.freeze().dirty is changed
        assert store.dirty == {}

    alone(scenario)


def test_f14_a_slow_image_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.simulation.cluster.JOB_TAKES_S", (2.0, 4.0))

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.elected()
        for number in range(200):
            began = cluster.loop.now
            await cluster.write(cluster.rng.choice(cluster.ids), b"w%d" % number, 1.0)
            assert cluster.loop.now - began < 0.1
            await asyncio.sleep(0.02)
        assert all(0 < node.running.metrics.images <= 3 for node in cluster.nodes.values())

    simulate(scenario)


def test_f14_a_receiver_that_stalls_costs_a_window_and_is_given_up() -> None:
    async def scenario(leader: Leader) -> None:
        install = await leader.offer()
        chunks = await leader.progress(install.transfer, 0)
        assert len(chunks) == LIMITS.window_chunks
        for _ in range(5):
            await leader.write(5)
            await leader.wait(0.2)
        sent = leader.sent()
        assert not [frame for frame in sent if isinstance(frame, InstallChunk)]
        assert leader.transfers.needed_index() == install.index  # and the log is kept for it
        await leader.wait(LIMITS.stalled_s)
        assert leader.transfers.needed_index() != install.index

    leading(scenario)


def test_f14_no_frame_has_to_hold_the_whole_state() -> None:
    async def scenario(node: LoneNode) -> None:
        offer = Offer(200)
        assert len(offer.chunks(size=3)) > 50
        await node.tell("n2", offer.install())
        for chunk in offer.chunks(size=3):
            node.give("n2", chunk)
        await pass_by(node, 200)
        assert same(node.replica.machine, run_to(offer, 200))

    alone(scenario)
