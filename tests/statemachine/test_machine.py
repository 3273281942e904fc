"""An entry in, one outcome an operation out, in a fixed order, and nothing of a refused one left."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from statemachine import events, idempotency, scopes
from statemachine.entry import SYSTEM, FormatError, encode_entry, encode_operation
from statemachine.events import EVENTS, IN_SPACE
from statemachine.machine import CHANGED_MAX, SWEPT_MAX, Machine
from tests.statemachine.driver import WALL_START_MS, Driver
from tests.statemachine.specimens import Specimen
from tests.statemachine.state import differences, snapshot


@pytest.fixture
def driver(specimens: SimpleNamespace) -> Driver:
    return Driver()


def runs(driver: Driver, specimens: SimpleNamespace) -> dict[str, int]:
    rows = driver.first.store.rows(specimens.table)
    return {key: record.runs for key, record in rows._records.items()}


# ---------------------------------------------------------------------- genesis


def test_genesis_says_who_the_cluster_is(driver: Driver) -> None:
    assert driver.first.cluster_id == "cls_test"
    assert driver.first.feature_level == 1
    assert driver.first.members() == {"n1": 101, "n2": 102, "n3": 103}


def test_before_genesis_there_is_no_cluster() -> None:
    machine = Machine()
    assert (machine.cluster_id, machine.feature_level, machine.members()) == ("", 0, {})
    assert machine.due_lease_ms is None
    assert machine.due_wall_ms is None


def test_a_second_genesis_is_undone(driver: Driver) -> None:
    arguments = {"cluster_id": "other", "members": {"x": 1}, "feature_level": 1}
    with driver.expecting_defects():
        result = driver.do("cluster.genesis", actor=SYSTEM, space="", **arguments)
    assert result.code == "INTERNAL"
    assert driver.first.cluster_id == "cls_test"


# ---------------------------------------------------------------------- outcomes


def test_one_outcome_an_operation_in_order_each_seeing_those_before(driver: Driver) -> None:
    first, second, third = driver.apply(
        [driver.operation("specimens.put", id="a"), driver.operation("specimens.put", id="a"),
         driver.operation("specimens.remove", id="a")]
    )  # fmt: skip
    assert [first.status, second.status, third.status] == [201, 200, 204]
    assert [first.position, second.position, third.position] == [0, 1, 2]
    assert first.index == second.index == driver.first.index
    assert third.body is None
    assert first["token"] != second["token"]


@pytest.mark.parametrize("fault", ["assertion", "key", "type", "value"])
def test_a_defect_is_undone_and_internal_on_all_replicas(
    driver: Driver, specimens: SimpleNamespace, fault: str
) -> None:
    defects = driver.first.defects
    with driver.expecting_defects() as met:
        before, bad, after = driver.apply(
            [driver.operation("specimens.put", id="a"), driver.operation("specimens.put", id="b", fault=fault),
             driver.operation("specimens.put", id="c")]
        )  # fmt: skip
    assert (before.status, after.status) == (201, 201)
    assert (bad.status, bad.code) == (500, "INTERNAL")
    assert type(met[0]).__name__ in bad.message
    assert driver.first.defects == defects + len(met) == 1
    assert sorted(runs(driver, specimens)) == ["a", "c"]


def test_the_class_of_a_defect_is_part_of_the_chain(driver: Driver) -> None:
    other = Driver()
    for each, fault in ((driver, "key"), (other, "value")):
        with each.expecting_defects():
            each.do("specimens.put", id="a", fault=fault)
    assert driver.first.chain != other.first.chain


@pytest.mark.parametrize(("fault", "error"), [("memory", MemoryError), ("recursion", RecursionError), ("os", OSError)])
def test_what_another_replica_may_not_have_ends_the_process(
    driver: Driver, fault: str, error: type[BaseException]
) -> None:
    with pytest.raises(error):
        driver.do("specimens.put", id="a", fault=fault)


def test_a_broken_rule_of_an_index_is_a_defect_like_any_other(driver: Driver) -> None:
    driver.do("specimens.put", id="a", alias="taken", group="g", rank=1)
    with driver.expecting_defects():
        assert driver.do("specimens.put", id="b", alias="taken", group="g").code == "INTERNAL"
        assert driver.do("specimens.put", id="b", alias="free", group="g", rank="z").code == "INTERNAL"
    assert driver.do("specimens.put", id="b", alias="free", group="g", rank=2).status == 201


def test_a_refusal_after_a_change_leaves_nothing(driver: Driver, specimens: SimpleNamespace) -> None:
    driver.do("specimens.put", id="a", amount=5, group="g")
    before = snapshot(driver.first.store)
    result = driver.do("specimens.put", id="a", amount=9, group="h", fault="refused")
    assert (result.status, result.code, result.details) == (409, "CONFLICT", {"id": "a"})
    assert driver.applied.touched == []
    assert not differences(before, snapshot(driver.first.store))


def test_an_unknown_operation_or_format_ends_the_process(driver: Driver) -> None:
    operation = encode_operation("specimens.unheard", driver.space, driver.actor, 0, None, b"{}")
    with pytest.raises(FormatError, match=r"specimens\.unheard"):
        driver.append(encode_entry(0, 0, bytes(16), [operation], [("n1", 1, 1)]))
    with pytest.raises(FormatError):
        driver.append(b"\x96\x02\x00\x00\xc4\x00\x90\x90")


def test_arguments_that_do_not_fit_are_refused_by_name(driver: Driver) -> None:
    cases = {
        b'{"id":7}': "$.id",
        b"{}": "id",
        b'{"id":"a","colour":1}': "colour",
        b'{"id":"a","amount":1.5}': "$.amount",
        b'{"id":"a","amount":true}': "$.amount",
        b"[]": "object",
        b"": "",
        b'{"id":"\\ud800"}': "",
    }
    for raw, named in cases.items():
        result = driver.do("specimens.put", raw=raw)
        assert result.code == "VALIDATION_FAILED", raw
        assert named in result.message, (raw, result.message)


def test_touched_topics_name_what_changed(driver: Driver) -> None:
    driver.do("specimens.put", id="a")
    assert ("specimens", "a") in driver.applied.touched
    assert ("events", driver.space) in driver.applied.touched
    driver.apply()
    assert driver.applied.touched == []


# ---------------------------------------------------------------------- clocks


def test_clocks_never_go_back(driver: Driver) -> None:
    driver.apply(lease_ms=5_000, wall_ms=WALL_START_MS + 9_000)
    driver.apply(lease_ms=4_000, wall_ms=WALL_START_MS + 10_000)
    assert (driver.first.lease_now_ms, driver.first.wall_now_ms) == (5_000, WALL_START_MS + 10_000)
    driver.apply(lease_ms=6_000, wall_ms=0)
    assert (driver.first.lease_now_ms, driver.first.wall_now_ms) == (6_000, WALL_START_MS + 10_000)


def test_an_index_never_goes_back(driver: Driver) -> None:
    with pytest.raises(AssertionError):
        driver.first.apply(driver.first.index, SimpleNamespace())  # type: ignore[arg-type]


def test_an_operation_past_its_deadline_is_not_applied(driver: Driver) -> None:
    late = driver.operation("specimens.put", id="a", deadline_ms=1_000)
    (on_time,) = driver.apply([late], lease_ms=1_000)
    (too_late,) = driver.apply([late], lease_ms=1_001)
    assert driver.do("specimens.put", id="a", deadline_ms=1).code == "UNAVAILABLE"
    assert driver.do("specimens.put", id="a", deadline_ms=0).status == 200, "0 is never"
    assert on_time.status == 201
    assert (too_late.status, too_late.code) == (503, "UNAVAILABLE")


# ---------------------------------------------------------------------- due work


def test_due_work_comes_before_operations_lease_clock_first_oldest_first(driver: Driver) -> None:
    wall_ms = driver.wall_ms
    driver.apply(
        [
            driver.operation("specimens.put", id="w1", wallAtMs=wall_ms + 10),
            driver.operation("specimens.put", id="l2", leaseAtMs=20),
            driver.operation("specimens.put", id="l1", leaseAtMs=10),
            driver.operation("specimens.put", id="l0", leaseAtMs=20),
        ]
    )
    (outcome,) = driver.apply([driver.operation("specimens.put", id="x")], advance_ms=50)
    newest = list(driver.first.store.rows(EVENTS).ordered(IN_SPACE, driver.space))[-5:]
    assert [event.aggregate_id for event in newest] == ["l1", "l0", "l2", "w1", "x"]
    assert outcome.status == 201


def test_due_at_now_is_due(driver: Driver, specimens: SimpleNamespace) -> None:
    driver.do("specimens.put", id="a", leaseAtMs=10)
    driver.apply(lease_ms=9)
    assert runs(driver, specimens) == {"a": 0}
    assert driver.first.due_lease_ms == 10
    driver.apply(lease_ms=10)
    assert runs(driver, specimens) == {"a": 1}
    assert driver.first.due_lease_ms is None


def test_a_sweep_is_bounded_and_the_rest_comes_next(driver: Driver, specimens: SimpleNamespace) -> None:
    count = SWEPT_MAX + 3
    for number in range(count):
        driver.write(specimens.table, Specimen(id=f"s{number:04}", space=driver.space, lease_at_ms=10))
    driver.apply(lease_ms=10)
    assert sum(runs(driver, specimens).values()) == SWEPT_MAX
    assert driver.first.due_lease_ms == 10
    driver.apply()
    assert sum(runs(driver, specimens).values()) == count
    assert driver.first.due_lease_ms is None


def test_a_sweep_stops_early_when_it_changes_much(
    driver: Driver, specimens: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert CHANGED_MAX > SWEPT_MAX
    monkeypatch.setattr("statemachine.machine.CHANGED_MAX", 4)
    for number in range(5):
        driver.write(specimens.table, Specimen(id=f"s{number}", space=driver.space, lease_at_ms=10))
    driver.apply(lease_ms=10)  # each rings and emits: two changes
    assert sum(runs(driver, specimens).values()) == 2
    driver.settle_due()
    assert sum(runs(driver, specimens).values()) == 5


def test_each_clock_has_its_own_measure_of_changes(
    driver: Driver, specimens: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("statemachine.machine.CHANGED_MAX", 4)
    for number in range(3):
        driver.write(specimens.table, Specimen(id=f"l{number}", space=driver.space, lease_at_ms=10))
        driver.write(specimens.table, Specimen(id=f"w{number}", space=driver.space, wall_at_ms=WALL_START_MS + 10))
    driver.apply(advance_ms=10)
    assert runs(driver, specimens) == {"l0": 1, "l1": 1, "l2": 0, "w0": 1, "w1": 1, "w2": 0}


@pytest.mark.parametrize("fault", ["assertion", "key", "stays"])
def test_a_due_item_with_a_defect_is_undone_and_does_not_stop_the_others(
    driver: Driver, specimens: SimpleNamespace, fault: str
) -> None:
    driver.write(specimens.table, Specimen(id="a", space=driver.space, lease_at_ms=10, fault=fault))
    driver.write(specimens.table, Specimen(id="b", space=driver.space, lease_at_ms=11))
    with driver.expecting_defects() as met:
        driver.apply(lease_ms=20)
        assert runs(driver, specimens) == {"a": 0, "b": 1}
        assert driver.first.due_lease_ms == 10
        driver.apply(lease_ms=21)
    assert driver.first.defects == len(met) == 2
    assert runs(driver, specimens) == {"a": 0, "b": 1}


def test_a_due_item_with_a_defect_whose_record_another_one_removes_is_gone(
    driver: Driver, specimens: SimpleNamespace
) -> None:
    driver.write(specimens.table, Specimen(id="a", space=driver.space, lease_at_ms=10, fault="key"))
    driver.write(specimens.table, Specimen(id="b", space=driver.space, lease_at_ms=11, fault="remove:a"))
    with driver.expecting_defects():
        driver.apply(lease_ms=20)
        driver.apply(lease_ms=21)
    assert runs(driver, specimens) == {"b": 1}
    assert driver.first.due_lease_ms is None


# ---------------------------------------------------------------------- space bounds


def test_new_work_in_a_full_space_is_refused_and_hand_backs_go_on(driver: Driver) -> None:
    small = driver.new_space("small", max_records=3)
    actor = driver.key("small-key", "work", space=small)
    envelope = {"space": small, "actor": actor}
    assert driver.do("specimens.put", id="a", **envelope).status == 201
    assert driver.do("specimens.put", id="b", **envelope).status == 201
    full = driver.do("specimens.put", id="c", **envelope)
    assert (full.status, full.code) == (507, "RESOURCE_EXHAUSTED")
    assert driver.ask("specimens.look", id="a", **envelope)["note"] == "seen"
    assert driver.do("specimens.remove", id="a", **envelope).status == 204
    assert driver.do("specimens.put", id="c", **envelope).status == 201


# ---------------------------------------------------------------------- numbers


def test_numbers_that_outcomes_follow_from_are_those_of_this_feature_level() -> None:
    """Another number makes other outcomes: a node of another build must not have it before the level is raised."""
    assert (SWEPT_MAX, CHANGED_MAX) == (256, 16_384)
    assert (idempotency.KEPT_MS, idempotency.KEPT_AT_LEAST_MS, idempotency.BYTES_MAX) == (900_000, 120_000, 2**28)
    assert (events.TRIM, scopes.DEPTH_MAX, scopes.KEPT_MS) == (256, 64, 604_800_000)


# ---------------------------------------------------------------------- chain


def test_the_chain_goes_over_every_entry_and_outcome(driver: Driver) -> None:
    seen = {driver.first.chain}
    for arguments in ({}, {"id": "a"}, {"id": "a"}, {"id": "b", "fault": "refused"}):
        if arguments:
            driver.do("specimens.put", **arguments)
        else:
            driver.apply()
        assert driver.first.chain not in seen
        seen.add(driver.first.chain)


def test_the_chain_goes_over_clocks_and_due_work(specimens: SimpleNamespace) -> None:
    chains = set()
    for lease_ms, wall_ms, lease_at_ms in ((5, 5, None), (6, 5, None), (5, 6, None), (5, 5, 5)):
        driver = Driver()
        driver.write(specimens.table, Specimen(id="a", space=driver.space, lease_at_ms=lease_at_ms))
        driver.apply(lease_ms=lease_ms, wall_ms=WALL_START_MS + wall_ms)
        assert len(driver.first.chain) == 32
        chains.add(driver.first.chain)
    assert len(chains) == 4
