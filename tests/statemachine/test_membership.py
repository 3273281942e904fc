"""Members of the cluster as replicated state."""

from __future__ import annotations

from statemachine.declare import OPERATIONS
from statemachine.entry import OPERATOR
from statemachine.membership import IMAGE_HERE
from tests.statemachine.driver import Driver


def test_genesis_lists_the_members(driver: Driver) -> None:
    assert driver.first.cluster_id == "cls_test"
    assert driver.first.feature_level == 1
    assert driver.first.members() == {"n1": 101, "n2": 102, "n3": 103}


def test_a_second_genesis_changes_nothing(driver: Driver) -> None:
    with driver.expecting_defects():
        again = driver.do("cluster.genesis", cluster_id="cls_other", members={}, feature_level=1)
    assert again.code == "INTERNAL"
    assert driver.first.cluster_id == "cls_test"


def test_the_mark_for_an_image_changes_nothing_and_comes_from_the_cluster_alone(driver: Driver) -> None:
    before = driver.first.store.dump()
    (marked,) = driver.apply([IMAGE_HERE])
    assert (marked.status, marked.body) == (200, {"index": driver.first.index})
    assert not OPERATIONS["cluster.image-here"].path  # nobody can call it
    assert driver.do("cluster.image-here", actor=OPERATOR).code == "UNAUTHENTICATED"
    assert driver.first.store.dump() == before
