"""The first words on a peer connection: who is speaking, and whether these two belong together.

The dialling side sends its hello first; the other side answers with its own, or with a refusal that says why, so that
the reason can be read in both logs. Nothing else is believed or answered before.
"""

from collections.abc import Collection

import msgspec

PROTOCOL = 1

HELLO = "hello"
REFUSED = "refused"


class PeerInfo(msgspec.Struct, frozen=True, array_like=True):
    """What a node says of itself in its hello. Later releases may add fields at the end.

    incarnation: of its journal; who counts is decided by the replicated list of members, not here. format: of journal
    and image. feature_level: the highest that it understands; the replicated one is never above it. http_url: where
    clients reach it. pid: its process, only told when all members run on one machine.
    """

    protocol: int
    cluster_id: str
    node_id: str
    incarnation: int
    format: int
    feature_level: int
    http_url: str
    pid: int | None


class HelloError(Exception):
    """The other side is no member that this node can talk to. The message is for both operators."""


def hello_frame(info: PeerInfo) -> list[object]:
    return [HELLO, *msgspec.structs.astuple(info)]


def refusal_frame(reason: str) -> list[object]:
    return [REFUSED, reason]


def refusal_reason(frame: object) -> str | None:
    """The reason when the frame is a refusal, else None. At most 500 characters of it."""
    if isinstance(frame, list) and len(frame) == 2 and frame[0] == REFUSED and isinstance(frame[1], str):
        return frame[1][:500]
    return None


def read_hello(frame: object) -> PeerInfo:
    """The hello in a frame. Raises HelloError when it is none, or of another protocol."""
    if not isinstance(frame, list) or len(frame) < 2 or frame[0] != HELLO:
        raise HelloError("the first frame is no hello")
    if frame[1] != PROTOCOL:
        raise HelloError(f"it speaks peer protocol {frame[1]!r:.40}, this node {PROTOCOL}: their releases do not fit")
    try:
        return msgspec.convert(frame[1:], PeerInfo)
    except msgspec.ValidationError as error:
        raise HelloError(f"its hello is malformed: {error}") from None


def judge_hello(
    frame: object, me: PeerInfo, expected: Collection[str], certified: Collection[str] | None = None
) -> PeerInfo:
    """What the other side says of itself, when this node talks with it. Raises HelloError when it does not.

    expected: the node ids that may be at the other end: those that dial this node, or the one that was dialled.
    certified: the names that its certificate speaks for; None without TLS.
    """
    other = read_hello(frame)
    if other.cluster_id != me.cluster_id:
        raise HelloError(
            f"{other.node_id} belongs to cluster {other.cluster_id}, {me.node_id} to {me.cluster_id}: "
            "check the addresses in `peers` and the data directories"
        )
    if other.node_id == me.node_id:
        raise HelloError(f"two nodes call themselves {me.node_id}, or its address in `peers` leads back to itself")
    if other.node_id not in expected:
        names = ", ".join(sorted(expected)) or "nobody"
        raise HelloError(
            f"{other.node_id} was not expected by {me.node_id}, but {names}: check ids and addresses in `peers`"
        )
    if other.format != me.format:
        raise HelloError(f"{other.node_id} has data format {other.format}, {me.node_id} has {me.format}")
    if certified is not None and other.node_id not in certified:
        names = ", ".join(sorted(certified)) or "nobody"
        raise HelloError(f"it calls itself {other.node_id}, but its certificate speaks for {names}")
    return other
