"""Peer connections over real sockets: who is connected, what is delivered, and what ends a connection."""

import asyncio
import logging
import os
import random
import time
from collections.abc import Callable
from typing import Any, NoReturn

import msgspec
import pytest

from cluster import transport as transport_module
from cluster.framing import STILL_HERE, FrameReader, encode_frame
from cluster.hello import PROTOCOL, REFUSED, hello_frame
from cluster.peer_certificates import PeerCertificates
from cluster.transport import PeerInfo, PeerTransport, TransportError, silence_seconds
from tests.cluster.certificates import Authority
from tests.cluster.loops import LOOPS, LoopFactory, free_addresses, run, until


def info(node_id: str, /, **changes: Any) -> PeerInfo:
    made = PeerInfo(PROTOCOL, "cluster-a", node_id, int(node_id[1:]) * 11, 1, 1, f"http://{node_id}", None)
    return msgspec.structs.replace(made, **changes)


class Ended(Exception):
    """What `end` raises here, instead of ending the process."""


class Member:
    """A transport, and what the engine would have heard from it."""

    def __init__(self, node_id: str, addresses: dict[str, str], me: PeerInfo | None = None, **options: Any) -> None:
        self.heard: list[tuple[str, Any]] = []
        self.events: list[str] = []
        self.turns = 0
        self.ended: list[str] = []
        self.transport = PeerTransport(
            me or info(node_id), addresses, listen=addresses[node_id], end=self._end, **options
        )
        self.transport.setOnMessageReceivedCallback(lambda node, message: self.heard.append((node.id, message)))
        self.transport.setOnNodeConnectedCallback(lambda node: self.events.append(f"+{node.id}"))
        self.transport.setOnNodeDisconnectedCallback(lambda node: self.events.append(f"-{node.id}"))
        self.transport.on_turn = self._turn

    def _turn(self) -> None:
        self.turns += 1

    def _end(self, reason: str, error: BaseException | None = None) -> NoReturn:
        self.ended.append(reason)
        raise Ended(reason) from error

    def send(self, to: str, **message: Any) -> bool:
        return self.transport.send(self.transport.peers[to], {"type": "test", **message})

    def connected(self, to: str) -> bool:
        return self.transport.peer_info(to) is not None


class Raw:
    """The other end of a connection, saying whatever a test wants."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def dial(cls, address: str) -> "Raw":
        host, port = address.rsplit(":", 1)
        return cls(*await asyncio.open_connection(host, int(port)))

    def say(self, *frames: object) -> None:
        self.writer.write(b"".join(map(encode_frame, frames)))

    async def frames_until_closed(self) -> list[Any]:
        """Everything that comes until the other side closes."""
        data = b""
        try:
            while chunk := await self.reader.read(65536):
                data += chunk
        except ConnectionResetError:
            pass
        self.close()
        return [frame for frame in FrameReader(1 << 20).feed(data) if frame is not None]

    def close(self) -> None:
        self.writer.transport.abort()


def named(count: int) -> dict[str, str]:
    return {f"n{number}": address for number, address in enumerate(free_addresses(count), 1)}


def cluster(loop_factory: LoopFactory, work: Callable[..., Any], count: int = 2, **options: Any) -> None:
    """Run `work(members…)` with that many members, all connected with each other."""

    async def running() -> None:
        addresses = named(count)
        members = [Member(name, addresses, **options) for name in addresses]
        for member in members:
            await member.transport.start()
        try:
            await until(lambda: all(m.connected(o) for m in members for o in addresses if o != m.transport.me.node_id))
            await work(*members)
            assert not any(member.ended for member in members)
        finally:
            for member in members:
                await member.transport.close()

    run(loop_factory, running())


def alone(loop_factory: LoopFactory, work: Callable[..., Any], **options: Any) -> None:
    """Run `work(member n1)`; the others of its cluster of three are played by the test."""

    async def running() -> None:
        member = Member("n1", named(3), **options)
        await member.transport.start()
        try:
            await work(member)
        finally:
            await member.transport.close()

    run(loop_factory, running())


async def greeted(member: Member, node_id: str = "n2", **changes: Any) -> Raw:
    """A connection to the member on which node_id said its hello and was accepted."""
    raw = await Raw.dial(member.transport._listen)
    before = len(member.events)
    raw.say(hello_frame(info(node_id, **changes)))
    await until(lambda: len(member.events) > before and member.events[-1] == f"+{node_id}")
    return raw


both_loops = pytest.mark.parametrize("loop", LOOPS)


# ------------------------------------------------------------------ connections and messages


@both_loops
def test_each_pair_has_one_connection_dialled_by_the_greater_id(loop: LoopFactory) -> None:
    async def work(one: Member, two: Member, three: Member) -> None:
        assert sorted(one.events) == ["+n2", "+n3"]
        assert sorted(three.events) == ["+n1", "+n2"]
        dialled = {
            member.transport.me.node_id: sorted(c.dialled or "" for c in member.transport._connections.values())
            for member in (one, two, three)
        }
        assert dialled == {"n1": ["", ""], "n2": ["", "n1"], "n3": ["n1", "n2"]}
        assert two.transport.peer_info("n3") == info("n3")
        assert two.transport.peer_info("n9") is None

    cluster(loop, work, count=3)


@both_loops
def test_messages_arrive_in_order_with_bytes_in_them(loop: LoopFactory) -> None:
    async def work(one: Member, two: Member) -> None:
        for number in range(500):
            assert one.send("n2", number=number, entries=[(7, b"\x00" * number)])
            assert two.send("n1", number=number)
        await until(lambda: len(one.heard) == len(two.heard) == 500)
        assert [message["number"] for _, message in one.heard] == list(range(500))
        assert two.heard[3] == ("n1", {"type": "test", "number": 3, "entries": [[7, b"\x00" * 3]]})

    cluster(loop, work)


@both_loops
def test_what_is_sent_in_one_turn_arrives_in_few(loop: LoopFactory) -> None:
    async def work(one: Member, two: Member) -> None:
        for number in range(100):
            one.send("n2", number=number)
        await until(lambda: len(two.heard) == 100)
        assert two.turns <= 2

    cluster(loop, work)


@both_loops
def test_the_first_message_of_a_turn_leaves_at_once(loop: LoopFactory) -> None:
    """So that followers write while the leader's own sync still blocks its loop."""

    async def work(one: Member) -> None:
        raw = await greeted(one)
        await raw.reader.readexactly(len(encode_frame(hello_frame(info("n1")))))
        one.send("n2", number=1)
        one.send("n2", number=2)
        # Read the socket itself, while the loop cannot run.
        arrived = os.read(raw.writer.get_extra_info("socket").fileno(), 1000)
        assert FrameReader(100).feed(arrived) == [{"type": "test", "number": 1}]
        raw.close()

    alone(loop, work)


@both_loops
def test_a_large_message_arrives(loop: LoopFactory) -> None:
    async def work(one: Member, two: Member) -> None:
        one.send("n2", data=bytes(7 << 20))
        one.send("n2", last=True)
        await until(lambda: len(two.heard) == 2)
        assert len(two.heard[0][1]["data"]) == 7 << 20

    cluster(loop, work)


@both_loops
def test_to_nobody_nothing_is_sent(loop: LoopFactory) -> None:
    async def work(one: Member) -> None:
        asked: list[Any] = []
        one.transport.before_send = asked.append
        assert not one.send("n2")
        assert one.transport.buffered_bytes(one.transport.peers["n2"]) == 0
        assert asked == []

    alone(loop, work)


@both_loops
def test_before_send_sees_each_message_and_can_keep_it(loop: LoopFactory) -> None:
    async def work(one: Member, two: Member) -> None:
        asked: list[Any] = []
        one.transport.before_send = asked.append
        one.send("n2", number=1)
        assert asked == [{"type": "test", "number": 1}]

        def refuse(message: Any) -> None:
            raise RuntimeError("not durable")

        one.transport.before_send = refuse
        with pytest.raises(RuntimeError, match="not durable"):
            one.send("n2", number=2)
        one.transport.before_send = asked.append
        one.send("n2", number=3)
        await until(lambda: len(two.heard) == 2)
        assert [message["number"] for _, message in two.heard] == [1, 3]

    cluster(loop, work)


# ------------------------------------------------------------------ connections end and begin again


@both_loops
def test_a_lost_connection_is_told_to_both_and_dialled_again(loop: LoopFactory) -> None:
    async def work(one: Member, two: Member) -> None:
        for _ in range(3):
            one.transport._connections["n2"].close("cut by the test")
            assert one.events[-1] == "-n2"
            assert not one.send("n2")
            await until(lambda: one.events[-1] == "+n2" and two.events[-1] == "+n1")
        assert two.events == ["+n1"] + ["-n1", "+n1"] * 3

    cluster(loop, work)


@both_loops
def test_a_node_that_comes_back_with_an_empty_disk_is_another_incarnation(loop: LoopFactory) -> None:
    async def work(one: Member) -> None:
        addresses = one.transport._addresses
        for incarnation in (22, 99):
            two = Member("n2", addresses, info("n2", incarnation=incarnation))
            await two.transport.start()
            await until(lambda: one.connected("n2"))
            told = one.transport.peer_info("n2")
            assert told is not None
            assert told.incarnation == incarnation
            await two.transport.close()
            await until(lambda: not one.connected("n2"))
        assert one.events == ["+n2", "-n2"] * 2

    alone(loop, work)


@both_loops
def test_a_newer_connection_replaces_the_older_one(loop: LoopFactory, caplog: pytest.LogCaptureFixture) -> None:
    async def work(one: Member) -> None:
        first = await greeted(one)
        first.say({"type": "test", "from": "first"})
        await until(lambda: one.heard)
        second = await greeted(one, incarnation=99)
        assert one.events == ["+n2", "-n2", "+n2"]
        assert one.transport.peer_info("n2") == info("n2", incarnation=99)
        await first.frames_until_closed()
        second.say({"type": "test", "from": "second"})
        await until(lambda: len(one.heard) == 2)
        assert [message["from"] for _, message in one.heard] == ["first", "second"]
        second.close()

    alone(loop, work)
    assert "the connection to n2 ended: a newer connection replaced it" in caplog.text


@both_loops
def test_frames_of_a_replaced_connection_reach_nobody(loop: LoopFactory) -> None:
    """F5: what the old connection still delivered cut off acknowledged entries."""

    async def work(one: Member) -> None:
        first = await greeted(one)
        replaced = one.transport._connections["n2"]
        second = await greeted(one)
        late = {"type": "append_entries", "late": True}
        replaced.data_received(encode_frame(late))
        one.transport._received(replaced, [late])
        second.say({"type": "test"})
        await until(lambda: one.heard)
        assert one.heard == [("n2", {"type": "test"})]
        first.close()
        second.close()

    alone(loop, work)


@both_loops
def test_a_connection_that_ends_within_a_batch_delivers_no_more_of_it(loop: LoopFactory) -> None:
    async def work(one: Member) -> None:
        raw = await greeted(one)
        heard: list[Any] = []

        def replaced_by_the_first(node: Any, message: Any) -> None:
            heard.append(message)
            one.transport._connections["n2"].close("the engine's answer could not be sent")

        one.transport.setOnMessageReceivedCallback(replaced_by_the_first)
        raw.say({"type": "first"}, {"type": "second"})
        await raw.frames_until_closed()
        assert heard == [{"type": "first"}]

    alone(loop, work)


# ------------------------------------------------------------------ who is refused


@both_loops
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"cluster_id": "cluster-b"}, "n2 belongs to cluster cluster-b, n1 to cluster-a"),
        ({"node_id": "n1"}, "two nodes call themselves n1"),
        ({"node_id": "n9"}, "n9 was not expected by n1"),
        ({"format": 2}, "n2 has data format 2"),
        ({"protocol": 2}, "peer protocol 2"),
        ({"incarnation": "many"}, "hello is malformed"),
    ],
)
def test_a_wrong_hello_is_refused_with_a_reason(
    loop: LoopFactory, caplog: pytest.LogCaptureFixture, changes: dict[str, Any], reason: str
) -> None:
    async def work(one: Member) -> None:
        raw = await Raw.dial(one.transport._listen)
        raw.say(hello_frame(info("n2", **changes)))
        frames = await raw.frames_until_closed()
        assert [frame[0] for frame in frames] == [REFUSED]
        assert reason in frames[0][1]
        assert one.events == []

    alone(loop, work)
    assert reason in caplog.text


@both_loops
def test_the_lesser_id_does_not_dial(loop: LoopFactory) -> None:
    """Two that dialled each other would replace each other's connection for ever."""

    async def work() -> None:
        two = Member("n2", named(3))
        await two.transport.start()
        raw = await Raw.dial(two.transport._listen)
        raw.say(hello_frame(info("n1")))
        ((_, reason),) = await raw.frames_until_closed()
        assert "n1 was not expected by n2, but n3" in reason
        await two.transport.close()

    run(loop, work())


@both_loops
def test_both_sides_log_why_they_do_not_fit(loop: LoopFactory, caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        addresses = named(2)
        one = Member("n1", addresses)
        two = Member("n2", addresses, info("n2", cluster_id="cluster-b"))
        for member in (one, two):
            await member.transport.start()
        await until(lambda: "it refused this node" in caplog.text)
        for member in (one, two):
            await member.transport.close()
        assert one.events == two.events == []

    run(loop, work())
    reason = "n2 belongs to cluster cluster-b, n1 to cluster-a"
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert any(line.startswith("no connection with 127.0.0.1: refused") and reason in line for line in lines)
    assert any(line.startswith("no connection with n1: it refused this node") and reason in line for line in lines)


@both_loops
def test_the_dialling_side_refuses_as_well(loop: LoopFactory, caplog: pytest.LogCaptureFixture) -> None:
    """The address of n1 leads to n9: n1 must hear why, and n2 must not take n9 for n1."""

    async def work() -> None:
        addresses = named(2)
        host, port = addresses["n1"].split(":")
        answers: list[Any] = []

        async def other(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            raw = Raw(reader, writer)
            raw.say(hello_frame(info("n9")))
            answers.append(await raw.frames_until_closed())

        server = await asyncio.start_server(other, host, int(port))
        two = Member("n2", addresses)
        await two.transport.start()
        await until(lambda: answers)
        assert [frame[0] for frame in answers[0]] == ["hello", REFUSED]
        assert "n9 was not expected by n2, but n1" in answers[0][1][1]
        assert two.events == []
        await two.transport.close()
        server.close()
        await server.wait_closed()

    run(loop, work())
    assert "n9 was not expected by n2" in caplog.text


@both_loops
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "is announced, at most 65536"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "is announced"),
        (b"\xff\xff\xff\xff", "4294967295 bytes is announced"),
        ((70_000).to_bytes(4, "big"), "70000 bytes is announced, at most 65536"),
        (b"\x00\x00\x00\x01\xc1", "not msgpack"),
        (b"\x00\x00\x00\x00", "not msgpack"),
        (b"\x00\x00\x13\x88" + b"\x91" * 5000, "not msgpack"),
        (encode_frame({"type": "append_entries"}), "no hello"),
        (encode_frame(["hello"]), "no hello"),
        (STILL_HERE, "no hello"),
        (encode_frame([REFUSED, "you"]), "it refused this node: you"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_a_stranger_is_closed_with_a_reason(
    loop: LoopFactory, caplog: pytest.LogCaptureFixture, data: bytes, reason: str
) -> None:
    async def work(one: Member) -> None:
        raw = await Raw.dial(one.transport._listen)
        raw.writer.write(data)
        await raw.frames_until_closed()
        assert one.events == one.ended == []
        (await greeted(one)).close()

    alone(loop, work)
    assert reason in caplog.text


@both_loops
@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (["list"], "no message: ['list']"),
        ({"no": "type"}, "no message: {'no': 'type'}"),
        ({"type": 7}, "no message"),
        (7, "no message: 7"),
        ([REFUSED, "changed my mind"], "it refused this node: changed my mind"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_a_malformed_message_closes_its_connection(
    loop: LoopFactory, caplog: pytest.LogCaptureFixture, frame: object, reason: str
) -> None:
    async def work(one: Member) -> None:
        raw = await greeted(one)
        raw.say({"type": "before"}, frame, {"type": "after"})
        await raw.frames_until_closed()
        await until(lambda: one.events[-1] == "-n2")
        assert one.heard == [("n2", {"type": "before"})]
        assert one.turns == 1
        (await greeted(one)).close()

    alone(loop, work)
    assert reason in caplog.text


@both_loops
def test_no_garbage_hurts_the_node_or_its_other_connections(loop: LoopFactory) -> None:
    seed = 20_240_229

    async def work(one: Member, two: Member) -> None:
        rng = random.Random(seed)
        hello = encode_frame(hello_frame(info("n2")))
        for _ in range(150):
            raw = await Raw.dial(one.transport._listen)
            damaged = bytearray(hello)
            for _ in range(rng.randrange(1, 4)):
                damaged[rng.randrange(len(damaged))] = rng.randrange(256)
            raw.writer.write(rng.choice([rng.randbytes(rng.randrange(1, 300)), bytes(damaged), hello[:-1]]))
            await asyncio.sleep(0)
            raw.close()
        await until(lambda: one.connected("n2"))
        two.heard.clear()
        await until(lambda: one.send("n2", still="there"))
        await until(lambda: two.heard)

    cluster(loop, work)


@both_loops
def test_strangers_are_bounded(
    loop: LoopFactory, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport_module, "STRANGERS_MAX", 3)

    async def work(one: Member) -> None:
        raws = [await Raw.dial(one.transport._listen) for _ in range(3)]
        await until(lambda: len(one.transport._strangers) == 3)
        assert await (await Raw.dial(one.transport._listen)).frames_until_closed() == []
        for raw in raws:
            raw.close()
        await until(lambda: not one.transport._strangers)

    alone(loop, work)
    assert "3 others have not said who they are" in caplog.text


@both_loops
def test_a_stranger_may_ask_what_the_node_answers(loop: LoopFactory) -> None:
    def answer(frame: object) -> list[object] | None:
        return ["yes", frame] if frame == ["question"] else None

    async def work(one: Member) -> None:
        raw = await Raw.dial(one.transport._listen)
        raw.say(["question"], ["question"], ["nonsense"])
        frames = await raw.frames_until_closed()
        assert frames[:2] == [["yes", ["question"]]] * 2
        assert [frame[0] for frame in frames[2:]] == [REFUSED]
        raw = await Raw.dial(one.transport._listen)
        raw.say(["question"], hello_frame(info("n2")))
        await until(lambda: one.events == ["+n2"])
        raw.close()

    alone(loop, work, answer_stranger=answer)


# ------------------------------------------------------------------ silence and slowness


@both_loops
def test_a_silent_connection_is_closed(loop: LoopFactory, caplog: pytest.LogCaptureFixture) -> None:
    """A half-open link: the other machine is gone and nothing says so."""

    async def work(one: Member) -> None:
        raw = await greeted(one)
        began = time.monotonic()
        await raw.frames_until_closed()
        assert one.events == ["+n2", "-n2"]
        assert time.monotonic() - began >= 0.99  # uvloop counts whole milliseconds

    alone(loop, work)
    assert "the connection to n2 ended: silent for 1." in caplog.text


@both_loops
def test_a_stranger_that_says_nothing_is_closed(loop: LoopFactory, caplog: pytest.LogCaptureFixture) -> None:
    async def work(one: Member) -> None:
        raw = await Raw.dial(one.transport._listen)
        assert await raw.frames_until_closed() == []

    alone(loop, work)
    assert "no connection with 127.0.0.1: silent for" in caplog.text


@both_loops
def test_a_stranger_that_trickles_is_closed(
    loop: LoopFactory, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport_module, "STRANGER_SECONDS", 0.6)

    async def work(one: Member) -> None:
        raw = await Raw.dial(one.transport._listen)
        closed = asyncio.create_task(raw.frames_until_closed())
        for byte in b"\x00\x00\x70\x00" + bytes(50):
            raw.writer.write(bytes([byte]))
            if (await asyncio.wait([closed], timeout=0.1))[0]:
                break
        assert await closed == []

    alone(loop, work)
    assert "it did not say who it is within" in caplog.text


@both_loops
def test_who_does_not_answer_a_hello_is_dialled_again(loop: LoopFactory, caplog: pytest.LogCaptureFixture) -> None:
    """A stopped process still accepts connections: its kernel does."""

    async def work() -> None:
        addresses = named(2)
        host, port = addresses["n1"].split(":")
        dials: list[float] = []

        async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            dials.append(time.monotonic())
            await Raw(reader, writer).frames_until_closed()

        server = await asyncio.start_server(mute, host, int(port))
        two = Member("n2", addresses)
        await two.transport.start()
        await until(lambda: len(dials) == 2)
        server.close()
        await two.transport.close()
        await server.wait_closed()

    run(loop, work())
    assert "no connection with n1: silent for" in caplog.text


@both_loops
def test_idle_connections_stay(loop: LoopFactory) -> None:
    async def work(one: Member, two: Member, three: Member) -> None:
        await asyncio.sleep(2.5)  # two and a half silences; nothing can be awaited when nothing happens
        assert [len(member.events) for member in (one, two, three)] == [2, 2, 2]
        assert [member.turns for member in (one, two, three)] == [0, 0, 0]

    cluster(loop, work, count=3)


@both_loops
def test_a_loop_that_was_late_first_reads_what_has_arrived(loop: LoopFactory) -> None:
    """Loops differ in whether timers or sockets come first after a long callback."""

    async def work(one: Member) -> None:
        raws = [await greeted(one, name) for name in ("n2", "n3")]

        def stall(*_: object) -> None:
            for raw in raws:
                os.write(raw.writer.get_extra_info("socket").fileno(), STILL_HERE)
            time.sleep(1.5)

        one.transport.setOnMessageReceivedCallback(stall)
        raws[0].say({"type": "test"})
        await until(lambda: one.turns)
        for _ in range(3):
            await asyncio.sleep(0.3)
            for raw in raws:
                raw.say(None)
        assert one.events == ["+n2", "+n3"]
        for raw in raws:
            raw.close()

    alone(loop, work)


@both_loops
def test_a_node_that_stood_still_drops_what_it_was_sent_meanwhile(
    loop: LoopFactory, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport_module, "STOOD_STILL_SECONDS", 1.2)

    async def work(one: Member) -> None:
        raw = await greeted(one)
        raw.say({"type": "outdated"})
        await raw.writer.drain()
        time.sleep(1.5)
        await raw.frames_until_closed()
        assert one.heard == []
        assert one.events == ["+n2", "-n2"]
        (await greeted(one)).close()

    alone(loop, work)
    assert "this node stood still for 1." in caplog.text


@both_loops
def test_a_peer_that_is_too_slow_is_closed(
    loop: LoopFactory, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport_module, "BUFFER_MAX_BYTES", 4 << 20)

    async def work(one: Member) -> None:
        raw = await greeted(one)
        raw.writer.transport.pause_reading()
        sent = 0
        while one.send("n2", data=bytes(1 << 20)):
            sent += 1
            assert one.transport.buffered_bytes(one.transport.peers["n2"]) <= 4 << 20
            assert sent < 50
            await asyncio.sleep(0)
        assert sent > 3
        assert one.events == ["+n2", "-n2"]
        raw.close()

    alone(loop, work)
    assert "too slow: more than 4 MiB wait for it" in caplog.text


def test_silence_is_four_heartbeats_and_a_second_at_least() -> None:
    assert silence_seconds(50) == 1.0
    assert silence_seconds(1000) == 4.0


# ------------------------------------------------------------------ start, stop, faults of the engine


@both_loops
def test_what_the_engine_raises_ends_the_node(loop: LoopFactory) -> None:
    """F7: an event loop logs an exception out of a callback and carries on."""

    async def work() -> None:
        one = Member("n1", named(3))
        await one.transport.start()
        errors: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context["exception"]))

        def broken(*_: Any) -> None:
            raise ZeroDivisionError

        one.transport.setOnMessageReceivedCallback(broken)
        raw = await greeted(one)
        raw.say({"type": "test"})
        await until(lambda: one.ended)
        assert one.ended == ["receiving from a peer failed: ZeroDivisionError: "]
        await until(lambda: errors)
        assert isinstance(errors[0], Ended)
        asyncio.get_running_loop().set_exception_handler(None)
        raw.close()
        await one.transport.close()

    run(loop, work())


@both_loops
def test_a_stopped_transport_is_silent(loop: LoopFactory) -> None:
    async def work(one: Member, two: Member) -> None:
        one.transport.destroy()
        assert one.events == ["+n2"]
        assert not one.send("n2")
        await until(lambda: two.events == ["+n1", "-n1"])
        await one.transport.close()

    cluster(loop, work)


@both_loops
def test_a_port_in_use_is_told(loop: LoopFactory) -> None:
    async def work(one: Member, two: Member) -> None:
        with pytest.raises(TransportError, match=r"cannot listen for peers on 127\.0\.0\.1"):
            await Member("n1", one.transport._addresses).transport.start()

    cluster(loop, work)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"n1": "0.0.0.0:7080"}, r"the listening address, 0\.0\.0\.0:7080, is not loopback"),
        ({"n2": "10.1.2.3:7080"}, r"the address of n2, 10\.1\.2\.3:7080, is not loopback: give tls_ca"),
        ({"n2": "example.org:7080"}, "the address of n2, example.org:7080, is not loopback"),
        ({"n2": "nowhere"}, "'nowhere', is not host:port"),
    ],
)
def test_without_tls_only_loopback_is_allowed(changes: dict[str, str], reason: str) -> None:
    async def work() -> None:
        with pytest.raises(TransportError, match=reason):
            await Member("n1", {**named(3), **changes}).transport.start()

    run(asyncio.new_event_loop, work())


def test_plaintext_elsewhere_must_be_asked_for() -> None:
    async def work() -> None:
        addresses = named(2)
        addresses["n1"] = addresses["n1"].replace("127.0.0.1", "0.0.0.0")
        member = Member("n1", addresses, allow_plaintext=True)
        await member.transport.start()
        await member.transport.close()

    run(asyncio.new_event_loop, work())


# ------------------------------------------------------------------ mutual TLS


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


def _tls(authority: Authority, name: str) -> dict[str, Any]:
    return {"certificates": PeerCertificates(name, authority.certificate, *authority.sign(name))}


@both_loops
def test_members_talk_over_mutual_tls(loop: LoopFactory, authority: Authority) -> None:
    async def work() -> None:
        addresses = named(2)
        members = [Member(name, addresses, **_tls(authority, name)) for name in addresses]
        one, two = members
        for member in members:
            await member.transport.start()
        await until(lambda: one.connected("n2") and two.connected("n1"))
        one.send("n2", data=bytes(1 << 20))
        two.send("n1", number=1)
        await until(lambda: one.heard and two.heard)
        assert one.transport._connections["n2"].certified.names == {"n2"}
        assert two.transport._connections["n1"].certified.names == {"n1"}
        for member in members:
            await member.transport.close()

    run(loop, work())


@both_loops
@pytest.mark.parametrize(("dialler", "listener"), [("n3", "n1"), ("n2", "n3")])
def test_a_certificate_speaks_for_its_own_node_only(
    loop: LoopFactory, authority: Authority, caplog: pytest.LogCaptureFixture, dialler: str, listener: str
) -> None:
    """n2 dials n1; one of them carries the certificate of n3."""

    async def work() -> None:
        addresses = named(2)
        one = Member("n1", addresses, **_tls(authority, listener))
        two = Member("n2", addresses, **_tls(authority, dialler))
        for member in (one, two):
            await member.transport.start()
        await until(lambda: "its certificate speaks for n3" in caplog.text)
        assert "+n1" not in two.events
        for member in (one, two):
            await member.transport.close()

    run(loop, work())


@both_loops
def test_without_a_certificate_nobody_is_heard(
    loop: LoopFactory, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> None:
    stranger = Authority(tmp_path_factory.mktemp("another"))

    async def work() -> None:
        addresses = named(2)
        one = Member("n1", addresses, **_tls(authority, "n1"))
        await one.transport.start()
        for options in ({}, _tls(stranger, "n2")):
            two = Member("n2", addresses, **options)
            await two.transport.start()
            raw = await Raw.dial(addresses["n1"])
            raw.say(hello_frame(info("n2")))
            await raw.frames_until_closed()
            assert two.events == []
            await two.transport.close()
        assert one.events == one.ended == []
        await one.transport.close()

    async def watched() -> None:
        await work()
        # A handshake that fails is what is tested; the loop may mention it.
        asyncio.get_running_loop().set_exception_handler(None)

    run(loop, watched())
