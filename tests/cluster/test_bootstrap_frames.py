"""What is asked and answered before there is a cluster."""

import asyncio
from pathlib import Path

import pytest

from cluster.bootstrap_frames import WRITTEN, Answers, RequestError, RequestRefused, ask_standing, deliver_genesis
from cluster.framing import encode_frame
from cluster.hello import PROTOCOL
from cluster.identity import open_data_directory
from statemachine.entry import genesis_entry
from tests.cluster.loops import free_addresses, run


def test_answers_are_none_to_what_they_do_not_know(tmp_path: Path) -> None:
    directory = open_data_directory(tmp_path, "n1")
    answers = Answers(directory, {"n1"})
    for frame in (None, 7, [], ["bootstrap"], ["bootstrap?", 1], ["genesis", b"", 1], {"genesis": b""}):
        assert answers(frame) is None
    assert answers(["bootstrap?"]) == ["bootstrap", PROTOCOL, "n1", directory.incarnation, None, None]
    refused = answers(["genesis", b"garbage"])
    assert refused is not None
    assert refused[0] == "refused"
    entry = genesis_entry("c", {"n1": directory.incarnation}, 0, b"")
    assert answers(["genesis", entry]) == answers(["genesis", entry]) == WRITTEN
    directory.close()


def _answered(answer: bytes) -> list[RequestError]:
    """What comes of asking, and of delivering to, something that says `answer` whatever it hears."""
    raised: list[RequestError] = []

    async def work() -> None:
        async def other(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(10)
            writer.write(answer)
            await writer.drain()
            writer.close()

        (address,) = free_addresses(1)
        async with await asyncio.start_server(other, *address.split(":")):
            for request in (
                ask_standing("n1", address, None, 0.5),
                deliver_genesis("n1", address, None, b"", 0.5),
            ):
                try:
                    await request
                except RequestError as error:
                    raised.append(error)

    run(asyncio.new_event_loop, work())
    return raised


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (["refused", "not now"], "not now"),
        (["bootstrap", 9], "not answer as a node of this release"),
        (["written?"], "not answer as a node of this release"),
        ({"type": "x"}, "not answer as a node of this release"),
        (7, "not answer as a node of this release"),
    ],
    ids=repr,
)
def test_another_answer_is_final(frame: object, reason: str) -> None:
    asked, delivered = _answered(encode_frame(frame))
    for error in (asked, delivered):
        assert isinstance(error, RequestRefused)
        assert reason in str(error)


@pytest.mark.parametrize(
    ("standing", "reason"),
    [
        (["n1"], "malformed"),
        (["n1", "7", None, None], "malformed"),
        (["n1", 7, None, "text"], "malformed"),
        (["n1", 7, "c", b"no entry"], "begins strangely"),
        (["n2", 7, None, None], "n2 answers there"),
    ],
    ids=repr,
)
def test_a_standing_that_cannot_be_is_final(standing: list[object], reason: str) -> None:
    asked, _ = _answered(encode_frame(["bootstrap", PROTOCOL, *standing]))
    assert isinstance(asked, RequestRefused)
    assert reason in str(asked)


@pytest.mark.parametrize("answer", [b"", b"\x00\x00", encode_frame(["bootstrap", 1])[:-1]], ids=repr)
def test_a_broken_answer_may_be_asked_for_again(answer: bytes) -> None:
    for error in _answered(answer):
        assert not isinstance(error, RequestRefused)


def test_nobody_there_may_be_asked_again() -> None:
    async def work() -> None:
        (address,) = free_addresses(1)
        with pytest.raises(RequestError) as caught:
            await ask_standing("n1", address, None, 0.5)
        assert not isinstance(caught.value, RequestRefused)
        with pytest.raises(RequestRefused, match="not host:port"):
            await ask_standing("n1", "nowhere", None, 0.5)

    run(asyncio.new_event_loop, work())
