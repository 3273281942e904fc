"""Nodes whose records differ are found within a minute; who is the odd one out stops."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NoReturn, cast

import msgspec
import pytest

from cluster.contents import REMEMBERED, Contents
from cluster.frames import AnyFrame, Content, Differs
from cluster.quorum import Quorum
from statemachine.membership import IMAGE_HERE
from statemachine.organizations import ORGANIZATIONS
from tests.simulation.cluster import SimulatedCluster, SimulatedNode, simulate
from tests.simulation.test_random import EARLY

ONE, OTHER, THIRD = b"1" * 16, b"2" * 16, b"3" * 16


class _Ended(Exception):
    pass


class Node:
    """n1 with its Contents; what it sends and proposes is kept."""

    def __init__(self, leader_id: str | None = "n1") -> None:
        self.sent: list[tuple[str, AnyFrame]] = []
        self.proposed: list[bytes] = []
        self.connected = {"n2", "n3"}
        self.last_words: tuple[list[str], Differs, str] | None = None
        self.engine = SimpleNamespace(
            node_id="n1",
            term=4,
            is_leader=leader_id == "n1",
            leader_id=leader_id,
            is_connected=lambda node_id: node_id in self.connected,
        )
        self.intake = SimpleNamespace(paused=False, append_alone=self.proposed.append)
        self.contents = Contents(
            cast(Any, self.engine),
            cast(Any, SimpleNamespace(put=lambda *sent: self.sent.append(sent))),
            Quorum(lambda: {"n1": 1, "n2": 2, "n3": 3}, "n1", 1),
            cast(Any, self.intake),
            self.end,
            lambda: bool(self.engine.is_leader),
            self.tell_and_end,
            60.0,
            1000.0,
        )

    def end(self, reason: str, error: BaseException | None = None) -> NoReturn:
        raise _Ended(reason)

    def tell_and_end(self, *words: Any) -> None:
        self.last_words = words  # type: ignore[assignment]

    def hears(self, node_id: str, digest: bytes, index: int = 9, incarnation: int | None = None) -> None:
        self.contents.on_content(node_id, Content(4, index, digest, incarnation or int(node_id[1])))


# ---------------------------------------------------------------------- the mark


def test_a_leader_marks_once_a_minute_whoever_marked_before() -> None:
    node = Node()
    for now in (1000.0, 1059.9):
        node.contents.turn(now)
    assert node.proposed == []
    node.contents.turn(1060.0)
    node.contents.turn(1060.1)
    assert node.proposed == [IMAGE_HERE]
    node.contents.on_mark(1100.0)
    node.contents.turn(1159.0)
    assert len(node.proposed) == 1
    node.intake.paused = True  # leadership is being handed over
    node.contents.turn(1160.0)
    assert len(node.proposed) == 1
    node.intake.paused = False
    node.contents.turn(1160.0)
    assert len(node.proposed) == 2


def test_nobody_else_marks() -> None:
    node = Node(leader_id="n2")
    node.contents.turn(5000.0)
    assert node.proposed == []


# ---------------------------------------------------------------------- who differs


def test_equal_digests_disturb_nobody() -> None:
    node = Node()
    node.hears("n2", ONE)
    node.contents.on_digest(9, ONE)
    node.hears("n3", ONE)
    assert node.sent == []
    assert node.last_words is None


def test_a_follower_that_differs_from_the_majority_is_told() -> None:
    node = Node()
    node.hears("n3", OTHER)
    node.contents.on_digest(9, ONE)
    assert node.sent == []  # one against one
    node.hears("n2", ONE)
    assert node.sent == [("n3", Differs(4, 9, ONE))]


def test_a_leader_that_differs_from_the_majority_stops() -> None:
    node = Node()
    node.contents.on_digest(9, ONE)
    node.hears("n2", OTHER)
    with pytest.raises(_Ended, match="this leader keeps other records than the majority after entry 9"):
        node.hears("n3", OTHER)


def test_without_a_majority_all_stop() -> None:
    node = Node()
    node.contents.on_digest(9, ONE)
    node.hears("n2", OTHER)
    node.hears("n3", THIRD)
    assert node.last_words is not None
    to, frame, reason = node.last_words
    assert (to, frame) == (["n2", "n3"], Differs(4, 9, b""))
    assert "nobody knows who is right" in reason


def test_digests_of_other_marks_and_of_disks_that_do_not_count_are_not_compared() -> None:
    node = Node()
    node.contents.on_digest(9, ONE)
    node.hears("n2", OTHER, incarnation=77)
    node.hears("n3", OTHER, index=8)
    node.hears("n3", OTHER, index=10)
    assert node.sent == []


def test_what_is_remembered_is_bounded() -> None:
    node = Node()
    for index in range(1, 5 * REMEMBERED):
        node.hears("n2", ONE, index)
    assert len(node.contents._told) == REMEMBERED


# ---------------------------------------------------------------------- a follower


def test_a_follower_tells_the_leader_as_soon_as_there_is_one() -> None:
    node = Node(leader_id=None)
    node.contents.on_digest(9, ONE)
    node.contents.tick()
    assert node.sent == []
    node.engine.leader_id = "n2"
    node.connected.clear()
    node.contents.tick()
    assert node.sent == []
    node.connected.add("n2")
    node.contents.tick()
    node.contents.tick()
    assert node.sent == [("n2", Content(4, 9, ONE, 1))]


@pytest.mark.parametrize(("right", "said"), [(ONE, "than the majority"), (b"", "nobody knows who is right")])
def test_a_follower_that_is_told_stops(right: bytes, said: str) -> None:
    node = Node(leader_id="n2")
    node.contents.on_differs("n3", Differs(4, 9, right))
    node.contents.on_differs("n2", Differs(3, 9, right))
    with pytest.raises(_Ended, match=said):
        node.contents.on_differs("n2", Differs(4, 9, right))


# ---------------------------------------------------------------------- a whole cluster


def spoil(node: SimulatedNode, note: str = "") -> None:
    """Change a record past the log, as broken memory or a defect would: no outcome shows it."""
    rows = node.running.machine.store.rows(ORGANIZATIONS)
    key = next(iter(rows._records))
    rows._records[key] = spoiled = msgspec.structs.replace(rows[key], name=f"spoiled{note}")
    dirty = node.running.machine.store.dirty
    assert dirty is not None
    dirty[(ORGANIZATIONS.name, key)] = spoiled


@pytest.mark.parametrize("who", ["follower", "leader", "all"])
def test_records_that_differ_are_found_by_the_next_mark(who: str) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        leader = await cluster.elected()
        await cluster.write(leader.id, b"one")
        others = [node for node in cluster.nodes.values() if node is not leader]
        wrong = {"follower": others[:1], "leader": [leader], "all": [leader, others[0]]}[who]
        for number, node in enumerate(wrong):
            spoil(node, str(number))
        stopping = {node.id for node in (cluster.nodes.values() if who == "all" else wrong)}
        cluster.may_end = stopping
        await cluster.until(lambda: {node_id for node_id, _ in cluster.ends} == stopping, 5.0)
        assert all("the data director" in reason for _, reason in cluster.ends)
        if who != "all":
            await cluster.elected()
            await cluster.write(others[1].id, b"the others go on")

    simulate(scenario, limits=EARLY)
