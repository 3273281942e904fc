"""Who counts is a set of listed nodes with their listed incarnations, never a number of answers."""

from cluster.quorum import Quorum

MEMBERS = {"n1": 1, "n2": 2, "n3": 3}


def test_only_listed_incarnations_count() -> None:
    quorum = Quorum(lambda: MEMBERS, "n1", 1)
    assert quorum.lists_me
    assert quorum.lists("n2", 2)
    assert not quorum.lists("n2", 3)
    assert not quorum.lists("n9", 0)
    assert not Quorum(lambda: MEMBERS, "n1", 9).lists_me


def test_a_majority_is_a_set() -> None:
    quorum = Quorum(lambda: MEMBERS, "n1", 1)
    assert quorum.size == 2
    assert quorum.is_majority(["n1", "n3"])
    assert not quorum.is_majority(["n1", "n1", "n9"])
    assert Quorum(lambda: {"n1": 1}, "n1", 1).is_majority(["n1"])


def test_nobody_is_a_majority_before_genesis_is_applied() -> None:
    quorum = Quorum(dict, "n1", 1)
    assert not quorum.is_majority(["n1", "n2", "n3"])
    assert quorum.reached_by_majority({"n1": 7}) == 0


def test_what_a_majority_has_reached() -> None:
    quorum = Quorum(lambda: MEMBERS, "n1", 1)
    assert quorum.reached_by_majority({"n1": 9, "n2": 5, "n3": 7}) == 7
    assert quorum.reached_by_majority({"n1": 9, "n3": 3}) == 3
    assert quorum.reached_by_majority({"n1": 9}) == 0
    assert quorum.reached_by_majority({"n1": 9, "n9": 9}) == 0


def test_the_list_is_that_of_the_moment() -> None:
    members = dict(MEMBERS)
    quorum = Quorum(lambda: members, "n1", 1)
    members["n3"] = 33
    assert not quorum.lists("n3", 3)
    assert quorum.lists("n3", 33)
