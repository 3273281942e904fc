"""Who may talk with whom, and what both are told when they may not."""

import msgspec
import pytest

from cluster.hello import (
    HelloError,
    PeerInfo,
    hello_frame,
    judge_hello,
    read_hello,
    refusal_frame,
    refusal_reason,
)

ME = PeerInfo(1, "cluster-a", "n1", 11, 1, 1, "http://127.0.0.1:7070", 1234)
OTHER = PeerInfo(1, "cluster-a", "n2", 2**63 - 1, 1, 1, "http://127.0.0.1:7071", None)


def _judge(info: PeerInfo, certified: set[str] | None = None) -> PeerInfo:
    return judge_hello(hello_frame(info), ME, {"n2", "n3"}, certified)


def test_a_member_of_this_cluster_is_accepted() -> None:
    assert _judge(OTHER) == OTHER
    assert _judge(OTHER, {"n2"}) == OTHER


def test_another_feature_level_or_incarnation_is_for_others_to_judge() -> None:
    info = msgspec.structs.replace(OTHER, feature_level=7, incarnation=5)
    assert _judge(info) == info


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"cluster_id": "cluster-b"}, r"n2 belongs to cluster cluster-b, n1 to cluster-a: check the addresses"),
        ({"node_id": "n1"}, r"two nodes call themselves n1"),
        ({"node_id": "n9"}, r"n9 was not expected by n1, but n2, n3"),
        ({"format": 2}, r"n2 has data format 2, n1 has 1"),
        ({"protocol": 2}, r"peer protocol 2, this node 1"),
    ],
)
def test_a_mismatch_is_refused_with_a_reason(change: dict[str, object], reason: str) -> None:
    with pytest.raises(HelloError, match=reason):
        _judge(msgspec.structs.replace(OTHER, **change))


def test_a_certificate_speaks_only_for_the_name_in_it() -> None:
    with pytest.raises(HelloError, match="calls itself n2, but its certificate speaks for n3"):
        _judge(OTHER, {"n3"})
    with pytest.raises(HelloError, match="speaks for nobody"):
        _judge(OTHER, set())


@pytest.mark.parametrize(
    "frame",
    [
        None,
        7,
        {"type": "append_entries"},
        [],
        ["hello"],
        ["bye", 1],
        ["hello", 1],
        ["hello", 1, "cluster-a", "n2", "11", 1, 1, "http://x", None],
        ["hello", 1, "cluster-a", "n2", 11, 1, 1, b"http://x", None],
        ["hello", 1, "cluster-a", "n2", True, 1, 1, "http://x", None],
        ["hello", "1" * 1000],
    ],
    ids=lambda frame: repr(frame)[:40],
)
def test_what_is_no_hello_is_refused(frame: object) -> None:
    with pytest.raises(HelloError):
        read_hello(frame)


def test_a_later_release_may_say_more() -> None:
    assert read_hello([*hello_frame(OTHER), "something new"]) == OTHER


def test_a_refusal_can_be_read_and_is_bounded() -> None:
    assert refusal_reason(refusal_frame("because")) == "because"
    assert len(refusal_reason(refusal_frame("x" * 9999)) or "") == 500
    for frame in (None, [], ["refused"], ["refused", 1], {"refused": "x"}, "refused"):
        assert refusal_reason(frame) is None
