"""Replicas that computed something else are found within a heartbeat, and stop."""

from typing import NoReturn

import pytest

from cluster.digests import REMEMBERED, Digests
from cluster.frames import Diverged
from cluster.quorum import Quorum
from statemachine.entry import Entry
from statemachine.machine import Applied, Machine
from tests.simulation.cluster import SimulatedCluster, simulate

ONE, OTHER = b"1" * 32, b"2" * 32


class _Ended(Exception):
    pass


def _end(reason: str, error: BaseException | None = None) -> NoReturn:
    raise _Ended(reason)


class Told:
    def __init__(self) -> None:
        self.calls: list[tuple[str, int, bytes]] = []
        quorum = Quorum(lambda: {"n1": 1, "n2": 2, "n3": 3}, "n1", 1)
        self.digests = Digests(quorum, _end, lambda *call: self.calls.append(call[:3]))


def test_equal_digests_at_equal_index_disturb_nobody() -> None:
    told = Told()
    for index in range(1, 10):
        told.digests.on_leader_digest("n2", index, ONE)
        told.digests.on_applied(index, ONE)
        told.digests.on_leader_digest("n2", index, ONE)
    assert told.calls == []


@pytest.mark.parametrize("ahead", [True, False])
def test_a_difference_is_found_whoever_is_ahead(ahead: bool) -> None:
    told = Told()
    if ahead:
        told.digests.on_leader_digest("n2", 5, OTHER)
    for index in range(1, 10):
        told.digests.on_applied(index, ONE)
    if not ahead:
        told.digests.on_leader_digest("n2", 5, OTHER)
    assert told.calls == [("n2", 5, ONE)]


def test_what_is_too_old_is_not_compared() -> None:
    told = Told()
    for index in range(1, REMEMBERED + 2):
        told.digests.on_applied(index, ONE)
    told.digests.on_leader_digest("n2", 1, OTHER)
    assert told.calls == []
    told.digests.on_leader_digest("n2", 2, OTHER)
    assert told.calls == [("n2", 2, ONE)]


def test_behind_an_image_only_what_came_since_is_compared() -> None:
    told = Told()
    for index in range(1, 10):
        told.digests.on_applied(index, ONE)
    told.digests.on_restored(50, ONE)
    assert told.digests.latest == (50, ONE)
    told.digests.on_leader_digest("n2", 5, OTHER)
    assert told.calls == []
    told.digests.on_leader_digest("n2", 50, OTHER)
    assert told.calls == [("n2", 50, ONE)]


def test_a_leader_stops_when_a_majority_has_another_digest() -> None:
    told = Told()
    told.digests.on_applied(5, ONE)
    told.digests.on_diverged("n2", Diverged(2, 5, ONE))
    told.digests.on_diverged("n2", Diverged(2, 5, OTHER))
    told.digests.on_diverged("n2", Diverged(2, 5, OTHER))
    told.digests.on_diverged("n3", Diverged(2, 5, b"3" * 32))
    with pytest.raises(_Ended, match="n2, n3 agree"):
        told.digests.on_diverged("n3", Diverged(2, 5, OTHER))


def test_a_replica_that_computes_something_else_stops_and_computes_it_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        leader = await cluster.elected()
        wrong = next(node for node in cluster.nodes.values() if node is not leader)
        cluster.may_end = {wrong.id}
        machine, original = wrong.running.machine, Machine.apply

        def apply(self: Machine, index: int, entry: Entry) -> Applied:
            applied = original(self, index, entry)
            if self is machine:
                self.chain = OTHER
            return applied

        monkeypatch.setattr(Machine, "apply", apply)
        wrong.running._subscribers.clear()  # the simulation would notice it first
        await cluster.write(leader.id, b"x")
        await cluster.until(lambda: wrong.ended is not None, 1.0)
        assert "differ after entry 3" in (wrong.ended or "")
        await cluster.write(leader.id, b"the others go on")
        await wrong.start()
        await cluster.until(cluster.settled)
        cluster.check_log()

    simulate(scenario)
