"""Every frame survives the way over the wire; what is malformed never reaches a handler."""

from typing import Any

import msgspec
import pytest

from cluster import frames
from cluster.frames import (
    AnyFrame,
    Appended,
    AppendEntries,
    Content,
    Differs,
    Diverged,
    Expelled,
    Install,
    InstallChunk,
    InstallProgress,
    MalformedFrame,
    PreVote,
    PreVoteAnswer,
    Propose,
    ReadAnswer,
    ReadIndex,
    Refused,
    RequestVote,
    Transfer,
    Vote,
)

EXAMPLES: list[AnyFrame] = [
    AppendEntries(7, 3, 9, 6, [(7, b"\x20entry"), (7, b"\x01")], 8, 1000, 2000, (8, b"digest"), False),
    AppendEntries(7, 3, 9, 6, [], 8, 1000, 2000, None, True),
    Appended(7, 3, 2**63 - 1, True, 11, 12, 11, 2000),
    PreVote(8, 5, 11, 7, 1),
    PreVoteAnswer(7, 5, True, 1),
    RequestVote(8, 11, 7, 1, 0),
    Vote(8, True, 1, 2000),
    Transfer(7, 5, 11),
    Propose(7, 2**63 - 1, 4, [(4, False, b"operation"), (5, True, b"")]),
    Refused(8, 7, 1, [4, 5], "no room"),
    ReadIndex(7, 1),
    ReadAnswer(7, 1, 11),
    Expelled(7, "reason"),
    Diverged(7, 11, bytes(32)),
    Install(7, 1, 3, 9, 6, b"\x20entry", b"meta", 12),
    InstallChunk(7, 1, 0, b"records", False),
    InstallProgress(7, 1, -1, 0),
    Content(7, 9, bytes(16), 1),
    Differs(7, 9, b""),
]


@pytest.mark.parametrize("frame", EXAMPLES, ids=lambda frame: type(frame).__name__)
def test_a_frame_survives_the_wire(frame: AnyFrame) -> None:
    wire = msgspec.msgpack.encode(frames.encode(frame))
    assert frames.decode(msgspec.msgpack.decode(wire)) == frame


def test_every_frame_has_an_example() -> None:
    assert {type(frame) for frame in EXAMPLES} == set(AnyFrame.__args__)


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"type": "unknown", "term": 1},
        {"type": "vote", "term": 1},
        {"type": "read_index", "term": "1", "number": 1},
        {"type": "read_index", "term": True, "number": 1},
        {"type": "propose", "term": 1, "session": 1, "floor": 0, "operations": [[1, False]]},
        {"type": "append_entries", "term": 1, "commit_index": 1, "entries": [], "prevLogIdx": 1, "prevLogTerm": 1},
    ],
)
def test_what_is_malformed_is_refused(message: dict[str, Any]) -> None:
    with pytest.raises(MalformedFrame):
        frames.decode(message)


def test_only_what_promises_nothing_may_leave_before_the_sync() -> None:
    unbound = {frames.encode(frame)["type"] for frame in EXAMPLES} & frames.UNBOUND
    assert unbound == {"append_entries", "pre_vote", "pre_vote_answer"}
