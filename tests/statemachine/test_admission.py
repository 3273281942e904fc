"""Which members count: a replaced disk takes two entries, and a cluster goes on from its last copy."""

from __future__ import annotations

import pytest

from statemachine.admission import list_node_operation, recover_operation
from statemachine.cluster_record import GENERATION_SHIFT, Awaited
from statemachine.declare import OPERATIONS
from statemachine.entry import OPERATOR
from tests.statemachine.driver import Driver

ALL = {"n1": 101, "n2": 102, "n3": 103}


def admit(driver: Driver, node_id: str, incarnation: int) -> tuple[int, object]:
    admitted = driver.do("cluster.admit-node", node_id=node_id, incarnation=incarnation)
    return admitted.status, admitted.code or admitted["counts"]


def listed(driver: Driver, node_id: str, incarnation: int) -> object:
    (answer,) = driver.apply([list_node_operation(node_id, incarnation)])
    return answer.body["counts"]


def audited(driver: Driver) -> list[str]:
    rows = driver.ask("audit.list")["audit"]
    return [row["operation"] for row in rows if row["operation"].startswith("cluster.")]


# ------------------------------------------------------------------ a disk that was lost


def test_the_old_disk_counts_no_more_before_the_new_one_does(driver: Driver) -> None:
    assert OPERATIONS["cluster.admit-node"].front_fields == ("incarnation",)
    fresh = (1 << 63) - 1
    admitted = driver.do("cluster.admit-node", node_id="n2", incarnation=fresh)
    assert (admitted.status, admitted.body) == (200, {"nodeId": "n2", "incarnation": str(fresh), "counts": False})
    assert driver.first.members() == {"n1": 101, "n3": 103}
    assert driver.first.awaited() == {"n2": Awaited(fresh, driver.first.index)}
    assert driver.first.member_ids() == ["n1", "n2", "n3"]
    assert listed(driver, "n2", fresh) is True
    assert driver.first.members() == {"n1": 101, "n2": fresh, "n3": 103}
    assert driver.first.awaited() == {}
    assert audited(driver) == ["cluster.admit-node"]


def test_admitting_what_counts_changes_nothing(driver: Driver) -> None:
    assert admit(driver, "n2", 102) == (200, True)
    assert driver.first.members() == ALL
    assert audited(driver) == []


def test_admitting_it_again_changes_nothing(driver: Driver) -> None:
    assert admit(driver, "n2", 7) == (200, False)
    since = driver.first.awaited()
    assert admit(driver, "n2", 7) == (200, False)
    assert driver.first.awaited() == since
    assert audited(driver) == ["cluster.admit-node"]


def test_a_disk_that_was_lost_once_more_meanwhile_is_replaced_by_the_next(driver: Driver) -> None:
    admit(driver, "n2", 7)
    assert admit(driver, "n2", 8) == (200, False)
    assert listed(driver, "n2", 7) is False
    assert driver.first.members() == {"n1": 101, "n3": 103}
    assert listed(driver, "n2", 8) is True


def test_the_old_disk_can_be_taken_back(driver: Driver) -> None:
    admit(driver, "n2", 7)
    assert admit(driver, "n2", 102) == (200, False)
    assert listed(driver, "n2", 102) is True
    assert driver.first.members() == ALL


def test_one_member_at_a_time(driver: Driver) -> None:
    admit(driver, "n2", 7)
    refused = driver.do("cluster.admit-node", node_id="n3", incarnation=9)
    assert refused.code == "CONFLICT"
    assert "n2 does not count yet, and only one member at a time" in refused.message
    assert driver.first.members() == {"n1": 101, "n3": 103}
    listed(driver, "n2", 7)
    assert admit(driver, "n3", 9) == (200, False)


def test_only_members_are_admitted_by_the_operator_with_an_incarnation(driver: Driver) -> None:
    unknown = driver.do("cluster.admit-node", node_id="n4", incarnation=7)
    assert unknown.code == "NOT_FOUND"
    assert "the members are n1, n2, n3" in unknown.message
    assert driver.do("cluster.admit-node", node_id="n2").code == "VALIDATION_FAILED"
    assert driver.do("cluster.admit-node", node_id="n2", incarnation=7, actor=driver.actor).code == "FORBIDDEN"
    assert driver.first.members() == ALL


def test_nobody_is_listed_who_is_not_awaited(driver: Driver) -> None:
    assert listed(driver, "n2", 7) is False
    assert listed(driver, "n2", 102) is True  # as it is
    assert listed(driver, "n9", 7) is False
    assert driver.first.members() == ALL


@pytest.mark.parametrize("name", ["cluster.list-node", "cluster.recover"])
def test_what_the_cluster_does_by_itself_nobody_can_call(driver: Driver, name: str) -> None:
    assert not OPERATIONS[name].path
    arguments = {"cluster_id": "c"} if name == "cluster.recover" else {}
    refused = driver.do(name, actor=OPERATOR, node_id="n1", incarnation=1, **arguments)
    assert refused.code == "UNAUTHENTICATED"
    assert driver.first.members() == ALL


# ------------------------------------------------------------------ the last copy


def test_the_last_copy_is_a_new_cluster_of_one_that_awaits_the_others(driver: Driver) -> None:
    (recovered,) = driver.apply([recover_operation("cls_new", "n2", 77)])
    assert (recovered.status, recovered.body) == (200, {"clusterId": "cls_new", "awaited": ["n1", "n3"]})
    assert driver.first.cluster_id == "cls_new"
    assert driver.first.members() == {"n2": 77}
    since = driver.first.index
    assert driver.first.awaited() == {"n1": Awaited(0, since), "n3": Awaited(0, since)}
    assert listed(driver, "n3", 5) is True  # whichever disk it comes with
    assert listed(driver, "n1", 6) is True
    assert driver.first.members() == {"n1": 6, "n2": 77, "n3": 5}


def test_an_operator_may_name_the_disk_that_is_awaited(driver: Driver) -> None:
    driver.apply([recover_operation("cls_new", "n2", 77)])
    assert admit(driver, "n1", 6) == (200, False)
    assert listed(driver, "n1", 5) is False
    assert listed(driver, "n1", 6) is True


def test_the_only_member_that_counts_is_not_taken_off(driver: Driver) -> None:
    driver.apply([recover_operation("cls_new", "n2", 77)])
    assert admit(driver, "n2", 78) == (409, "CONFLICT")
    assert driver.first.members() == {"n2": 77}


def test_a_member_that_was_awaited_is_awaited_after_it_too(driver: Driver) -> None:
    admit(driver, "n3", 9)
    driver.apply([recover_operation("cls_new", "n2", 77)])
    assert list(driver.first.awaited()) == ["n1", "n3"]


def test_no_generation_is_given_twice_over_a_recovery(driver: Driver) -> None:
    """What was lost may have had owners of its own, with generations that guard something outside."""
    run = driver.do("runs.join", name="r")["id"]
    first = driver.do("claims.acquire", key="k", scope_id=run, holder="h", holder_session="s")
    assert first["generation"] == 1
    assert driver.do("claims.release", key="k", token=first["token"]).status == 200
    driver.apply([recover_operation("cls_new", "n2", 77)])
    for key in ("k", "another"):
        taken = driver.do("claims.acquire", key=key, scope_id=run, holder="h", holder_session="s")
        assert taken["generation"] == (1 << GENERATION_SHIFT) + 1
        assert taken["token"].split(".")[1] == str(taken["generation"])


def test_ids_and_cursors_of_what_was_lost_are_of_nobody(driver: Driver) -> None:
    before = driver.ask("events.list")
    kept = driver.do("runs.join", name="kept")["id"]
    driver.apply([recover_operation("cls_new", "n2", 77)])
    made = driver.do("runs.join", name="made")["id"]
    assert made > kept
    assert int(made.split("_")[1], 16) >> 28 > driver.first.index
    cursor = before["nextCursor"]
    assert [event["type"] for event in driver.ask("events.list", cursor=cursor)["events"]] == ["scope.created"] * 2
    of_a_lost_entry = f"evt_{(driver.first.index << 28) | 5:020x}"
    assert driver.ask("events.list", cursor=of_a_lost_entry).code == "CURSOR_EXPIRED"
