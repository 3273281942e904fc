"""What the state says of the cluster itself, and how numbers of two epochs are kept apart."""

from __future__ import annotations

from statemachine.admission import recover_operation
from statemachine.cluster_record import (
    CLUSTER,
    GENERATION_SHIFT,
    LOST_ENTRIES_MAX,
    generation_floor,
    numbered,
    was_lost,
)
from statemachine.store import Store
from statemachine.types import COUNT_MAX
from tests.statemachine.driver import Driver


def test_before_genesis_there_is_no_cluster() -> None:
    store = Store()
    assert generation_floor(store) == 0
    assert numbered(store, 7) == 7
    assert not was_lost(store, 7)


def test_the_first_epoch_counts_from_nothing(driver: Driver) -> None:
    store = driver.first.store
    assert driver.first.store.rows(CLUSTER)["cluster"].epoch == 0
    assert generation_floor(store) == 0
    assert numbered(store, 7) == 7
    assert not any(was_lost(store, index) for index in (0, 1, 7, 1 << 40))


def test_each_further_epoch_is_above_all_that_the_one_before_can_have_had(driver: Driver) -> None:
    for epoch in (1, 2, 3):
        driver.apply([recover_operation(f"cls_{epoch}", "n1", epoch)])
        store, index = driver.first.store, driver.first.index
        assert generation_floor(store) == epoch << GENERATION_SHIFT
        first = numbered(store, index)
        assert first == index + epoch * LOST_ENTRIES_MAX
        before = first - LOST_ENTRIES_MAX
        assert [was_lost(store, at) for at in (before, before + 1, first - 1, first)] == [False, True, True, False]


def test_generations_have_room_for_eight_thousand_epochs() -> None:
    assert (8191 << GENERATION_SHIFT) + (1 << GENERATION_SHIFT) - 1 <= COUNT_MAX
