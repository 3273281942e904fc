"""The beginning of a cluster: once, all or resumable, and never over a journal."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from cluster import bootstrap as bootstrap_module
from cluster.bootstrap import BootstrapError, await_genesis, bootstrap
from cluster.bootstrap_frames import (
    Answers,
    RequestError,
    RequestRefused,
    ask_standing,
    deliver_genesis,
)
from cluster.config import NodeConfig
from cluster.framing import encode_frame
from cluster.hello import PROTOCOL, PeerInfo, hello_frame
from cluster.identity import DataDirectory, open_data_directory, read_genesis
from cluster.journal import JournalError
from cluster.peer_certificates import PeerCertificates
from cluster.transport import PeerTransport
from statemachine.entry import genesis_entry
from tests.cluster.certificates import Authority
from tests.cluster.loops import LOOPS, LoopFactory, free_addresses, run, until
from tests.cluster.test_transport import Raw

both_loops = pytest.mark.parametrize("loop", LOOPS)


class Nodes:
    """Data directories of a cluster, and the nodes that wait on their ports."""

    def __init__(self, folder: Path, count: int = 3) -> None:
        self.folder = folder
        self.peers = {f"n{number}": address for number, address in enumerate(free_addresses(count), 1)}
        self.directories: dict[str, DataDirectory] = {}
        self.waiting: dict[str, asyncio.Task[None]] = {}

    def config(self, name: str) -> NodeConfig:
        return NodeConfig(id=name, listen="127.0.0.1:1", peers=self.peers, data=self.folder / name)

    def directory(self, name: str) -> DataDirectory:
        if name not in self.directories:
            self.directories[name] = open_data_directory(self.folder / name, name)
        return self.directories[name]

    def wait(self, *names: str, **options: Any) -> None:
        for name in names or self.peers:
            self.waiting[name] = asyncio.create_task(await_genesis(self.config(name), self.directory(name), **options))

    async def begun(self, *names: str) -> None:
        for name in names or self.peers:
            await self.waiting.pop(name)

    async def stop(self) -> None:
        for task in self.waiting.values():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        self.waiting.clear()
        for directory in self.directories.values():
            directory.close()
        self.directories.clear()

    def lose(self, name: str) -> None:
        """Replace the node's disk by an empty one."""
        directory = self.directories.pop(name)
        directory.close()
        directory.path.rename(directory.path.with_suffix(".lost"))

    def genesis(self, name: str) -> bytes | None:
        journal = self.directory(name).open_journal()
        genesis = journal.genesis
        journal.close()
        return genesis

    def members(self) -> dict[str, int]:
        return {name: self.directory(name).incarnation for name in self.peers}

    def entry(self, cluster_id: str = "cluster-a", **changes: int) -> bytes:
        return genesis_entry(cluster_id, {**self.members(), **changes}, 1000, b"e" * 16)

    @asynccontextmanager
    async def running(self, name: str) -> AsyncIterator[PeerTransport]:
        """The node as it is after genesis: its peer port is the transport's."""
        directory = self.directory(name)
        journal = directory.open_journal()
        me = PeerInfo(PROTOCOL, journal.identity.cluster_id, name, directory.incarnation, 1, 1, "http://x", None)
        answers = Answers(directory, self.peers.keys(), journal.genesis)
        transport = PeerTransport(me, self.peers, listen=self.peers[name], answer_stranger=answers)
        await transport.start()
        try:
            yield transport
        finally:
            await transport.close()
            journal.close()


def nodes(loop_factory: LoopFactory, folder: Path, work: Callable[[Nodes], Any], count: int = 3) -> None:
    async def running() -> None:
        made = Nodes(folder, count)
        try:
            await work(made)
        finally:
            await made.stop()

    run(loop_factory, running())


# ------------------------------------------------------------------ a good beginning


@both_loops
@pytest.mark.parametrize("count", [1, 3, 5])
def test_all_nodes_begin_with_one_genesis(loop: LoopFactory, tmp_path: Path, count: int) -> None:
    async def work(three: Nodes) -> None:
        three.wait()
        cluster_id = await bootstrap(three.peers)
        await three.begun()
        entries = {three.genesis(name) for name in three.peers}
        assert len(entries) == 1
        genesis = read_genesis(entries.pop() or b"")
        assert (genesis.cluster_id, genesis.members, genesis.feature_level) == (cluster_id, three.members(), 1)
        assert {three.directory(name).cluster_id for name in three.peers} == {cluster_id}

    nodes(loop, tmp_path, work, count)


@both_loops
def test_nodes_may_start_after_the_bootstrap(loop: LoopFactory, tmp_path: Path) -> None:
    async def work(three: Nodes) -> None:
        making = asyncio.create_task(bootstrap(three.peers))
        for name in three.peers:
            await asyncio.sleep(0.05)
            three.wait(name)
        await making
        await three.begun()

    nodes(loop, tmp_path, work)


@both_loops
def test_the_port_is_free_when_the_wait_is_over(loop: LoopFactory, tmp_path: Path) -> None:
    async def work(one: Nodes) -> None:
        one.wait()
        await bootstrap(one.peers)
        await one.begun()
        genesis = one.genesis("n1")
        async with one.running("n1"):
            assert (await ask_standing("n1", one.peers["n1"], None, 2)).genesis == genesis

    nodes(loop, tmp_path, work, 1)


def test_two_clusters_have_different_ids(tmp_path: Path) -> None:
    made: list[str] = []

    async def work(one: Nodes) -> None:
        one.wait()
        made.append(await bootstrap(one.peers))
        await one.begun()

    for name in ("a", "b"):
        nodes(asyncio.new_event_loop, tmp_path / name, work, 1)
    assert len(set(made)) == 2


# ------------------------------------------------------------------ broken off and taken up


@both_loops
@pytest.mark.parametrize("reached", [1, 2])
def test_a_half_done_one_is_finished_with_the_same_genesis(loop: LoopFactory, tmp_path: Path, reached: int) -> None:
    async def work(three: Nodes) -> None:
        names = list(three.peers)
        begun, empty = names[:reached], names[reached:]
        entry = three.entry()
        for name in begun:
            three.directory(name).write_genesis(entry)
        async with three.running("n1"):
            if reached == 2:
                async with three.running("n2"):
                    three.wait(*empty)
                    assert await bootstrap(three.peers) == "cluster-a"
                    await three.begun(*empty)
            else:
                three.wait(*empty)
                assert await bootstrap(three.peers) == "cluster-a"
                await three.begun(*empty)
        assert {three.genesis(name) for name in names} == {entry}

    nodes(loop, tmp_path, work)


@both_loops
def test_a_finished_one_has_nothing_left_to_do(loop: LoopFactory, tmp_path: Path) -> None:
    async def work(one: Nodes) -> None:
        one.wait()
        cluster_id = await bootstrap(one.peers)
        await one.begun()
        async with one.running("n1"):
            assert await bootstrap(one.peers) == cluster_id

    nodes(loop, tmp_path, work, 1)


@both_loops
def test_a_node_that_was_missed_takes_its_genesis_from_another(loop: LoopFactory, tmp_path: Path) -> None:
    async def work(three: Nodes) -> None:
        entry = three.entry()
        three.directory("n1").write_genesis(entry)
        async with three.running("n1"):
            three.wait("n3")
            await three.begun("n3")
        assert three.genesis("n3") == entry

    nodes(loop, tmp_path, work)


@both_loops
def test_a_repeated_delivery_is_no_mistake(loop: LoopFactory, tmp_path: Path) -> None:
    async def work(three: Nodes) -> None:
        entry = three.entry()
        three.directory("n1").write_genesis(entry)
        async with three.running("n1"):
            await deliver_genesis("n1", three.peers["n1"], None, entry, 2)
            with pytest.raises(RequestRefused, match="has a journal of cluster cluster-a: it is left as it is"):
                await deliver_genesis("n1", three.peers["n1"], None, three.entry("cluster-b"), 2)

    nodes(loop, tmp_path, work)


@both_loops
def test_two_bootstraps_at_once_make_one_cluster(loop: LoopFactory, tmp_path: Path) -> None:
    async def work(three: Nodes) -> None:
        ended = asyncio.Event()

        async def live(name: str) -> None:
            await await_genesis(three.config(name), three.directory(name))
            async with three.running(name):
                await ended.wait()

        lives = [asyncio.create_task(live(name)) for name in three.peers]
        results = await asyncio.gather(*(bootstrap(three.peers) for _ in range(3)), return_exceptions=True)
        ended.set()
        await asyncio.gather(*lives)
        made = [result for result in results if isinstance(result, str)]
        assert len(set(made)) == 1
        assert all(isinstance(result, str | BootstrapError) for result in results)
        assert len({three.genesis(name) for name in three.peers}) == 1

    nodes(loop, tmp_path, work)


# ------------------------------------------------------------------ a lost disk


@both_loops
def test_a_node_that_lost_its_disk_follows_as_a_new_incarnation(
    loop: LoopFactory, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(three: Nodes) -> None:
        entry = three.entry()
        for name in three.peers:
            three.directory(name).write_genesis(entry)
        old = three.directory("n3").incarnation
        three.lose("n3")
        assert three.directory("n3").incarnation != old
        async with three.running("n1") as transport:
            three.wait("n3")
            await three.begun("n3")
            assert three.genesis("n3") == entry
            async with three.running("n3"):
                await until(lambda: transport.peer_info("n3"))
                told = transport.peer_info("n3")
                assert told is not None
                assert told.incarnation == three.directory("n3").incarnation

    nodes(loop, tmp_path, work)
    assert "counts for nothing until it is admitted (runstate node admit n3)" in caplog.text


def test_a_bootstrap_does_not_list_a_lost_disk_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap_module, "_LOOK_AROUND_SECONDS", 100.0)

    async def work(three: Nodes) -> None:
        entry = three.entry()
        for name in ("n1", "n2"):
            three.directory(name).write_genesis(entry)
        three.lose("n3")
        async with three.running("n1"), three.running("n2"):
            three.wait("n3")
            with pytest.raises(BootstrapError, match=r"n3 is a member of cluster cluster-a, but its journal was lost"):
                await bootstrap(three.peers)
        assert not three.directory("n3").has_journal

    nodes(asyncio.new_event_loop, tmp_path, work)


# ------------------------------------------------------------------ refusals


@both_loops
def test_a_node_that_is_not_there_is_named(loop: LoopFactory, tmp_path: Path) -> None:
    async def work(three: Nodes) -> None:
        three.wait("n1", "n3")
        with pytest.raises(BootstrapError, match=r"n2 at 127\.0\.0\.1:\d+: .*Start all nodes first"):
            await bootstrap(three.peers, timeout_seconds=0.3)
        assert not any(three.directory(name).has_journal for name in three.peers)

    nodes(loop, tmp_path, work)


@both_loops
def test_nodes_of_two_clusters_are_refused(loop: LoopFactory, tmp_path: Path) -> None:
    async def work(three: Nodes) -> None:
        three.directory("n1").write_genesis(three.entry("cluster-a"))
        three.directory("n2").write_genesis(three.entry("cluster-b"))
        async with three.running("n1"), three.running("n2"):
            three.wait("n3")
            with pytest.raises(BootstrapError, match=r"different clusters \(n1 to cluster-a, n2 to cluster-b\)"):
                await bootstrap(three.peers)

    nodes(loop, tmp_path, work)


@both_loops
def test_another_set_of_members_is_refused(loop: LoopFactory, tmp_path: Path) -> None:
    async def work(three: Nodes) -> None:
        three.directory("n1").write_genesis(three.entry())
        async with three.running("n1"):
            with pytest.raises(BootstrapError, match="n1 belong to cluster cluster-a of n1, n2, n3, not of n1"):
                await bootstrap({"n1": three.peers["n1"]})

    nodes(loop, tmp_path, work)


@both_loops
def test_a_node_with_other_peers_refuses_its_genesis(loop: LoopFactory, tmp_path: Path) -> None:
    async def work(three: Nodes) -> None:
        three.wait()
        two = {name: three.peers[name] for name in ("n1", "n2")}
        with pytest.raises(BootstrapError, match="has the members n1, n2, but n1 was configured with n1, n2, n3"):
            await bootstrap(two)
        assert not three.directory("n1").has_journal

    nodes(loop, tmp_path, work)


@both_loops
def test_swapped_addresses_are_found(loop: LoopFactory, tmp_path: Path) -> None:
    async def work(three: Nodes) -> None:
        three.wait()
        swapped = {**three.peers, "n1": three.peers["n2"], "n2": three.peers["n1"]}
        with pytest.raises(BootstrapError, match="n2 answers there: check the ids and addresses"):
            await bootstrap(swapped)

    nodes(loop, tmp_path, work)


@both_loops
def test_a_journal_that_cannot_be_written_is_told(
    loop: LoopFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(one: Nodes) -> None:
        def full(*_: object) -> None:
            raise JournalError("the disk is full")

        monkeypatch.setattr(DataDirectory, "write_genesis", full)
        one.wait()
        with pytest.raises(BootstrapError, match=r"n1 at .* did not take its genesis: the disk is full"):
            await bootstrap(one.peers)
        assert not one.waiting["n1"].done()

    nodes(loop, tmp_path, work, 1)


@both_loops
def test_something_else_on_the_port_is_told(loop: LoopFactory, tmp_path: Path) -> None:
    async def work(one: Nodes) -> None:
        async def http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            await writer.drain()
            writer.close()

        host, port = one.peers["n1"].split(":")
        server = await asyncio.start_server(http, host, int(port))
        with pytest.raises(BootstrapError, match="is announced"):
            await bootstrap(one.peers)
        server.close()
        await server.wait_closed()
        with pytest.raises(RequestError):
            await ask_standing("n1", one.peers["n1"], None, 0.5)

    nodes(loop, tmp_path, work, 1)


# ------------------------------------------------------------------ what a waiting node hears


@both_loops
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"GET / HTTP/1.1\r\n", "is announced"),
        (encode_frame(["genesis"]), "no bootstrap frame"),
        (encode_frame(["genesis", "text"]), "no bootstrap frame"),
        (encode_frame({"type": "append_entries"}), "no bootstrap frame"),
        (encode_frame(None), "no bootstrap frame"),
        (encode_frame(hello_frame(PeerInfo(1, "c", "n2", 1, 1, 1, "", None))), "said hello before the bootstrap"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_a_waiting_node_answers_only_bootstrap_frames(
    loop: LoopFactory, tmp_path: Path, caplog: pytest.LogCaptureFixture, data: bytes, reason: str
) -> None:
    async def work(one: Nodes) -> None:
        one.wait()
        raw: list[Raw] = []

        async def dial() -> None:
            while not raw:
                with suppress(OSError):
                    raw.append(await Raw.dial(one.peers["n1"]))

        await dial()
        raw[0].writer.write(data)
        frames = await raw[0].frames_until_closed()
        if reason.startswith("said hello"):
            assert frames == [["refused", "n1 has no journal yet: it waits to be bootstrapped"]]
        assert await bootstrap(one.peers)
        await one.begun()

    nodes(loop, tmp_path, work, 1)
    assert reason in caplog.text


# ------------------------------------------------------------------ mutual TLS


@both_loops
def test_a_bootstrap_over_mutual_tls(loop: LoopFactory, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "certificates")

    def of(name: str) -> PeerCertificates:
        return PeerCertificates(name, authority.certificate, *authority.sign(name))

    async def work(three: Nodes) -> None:
        for name in three.peers:
            three.wait(name, certificates=of(name))
        client = of("n1").client
        swapped = {**three.peers, "n1": three.peers["n2"], "n2": three.peers["n1"]}
        with pytest.raises(BootstrapError, match="does not speak for n1"):
            await bootstrap(swapped, context=client)
        with pytest.raises(BootstrapError):
            await bootstrap(three.peers, context=of("n9").client, timeout_seconds=0.5)
        assert await bootstrap(three.peers, context=client)
        await three.begun()

    nodes(loop, tmp_path / "nodes", work)
