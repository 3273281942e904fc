"""The socket on which members are heard, while its certificates are replaced."""

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from cluster import peer_listener
from cluster.certs import certified
from cluster.peer_addresses import TransportError
from cluster.peer_listener import PeerListener, listen_for_peers, renew_certificates
from tests.cluster.certificates import Authority
from tests.cluster.loops import LOOPS, LoopFactory, free_addresses, run, until
from tests.cluster.test_peer_certificates import Files

both_loops = pytest.mark.parametrize("loop", LOOPS)


class _Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class Dialled:
    """A connection to the listener, and the end of the certificate that it was greeted with."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.ends_at = certified(writer.get_extra_info("ssl_object")).ends_at

    @classmethod
    async def dial(cls, address: str, context: ssl.SSLContext) -> "Dialled":
        host, port = address.rsplit(":", 1)
        return cls(*await asyncio.open_connection(host, int(port), ssl=context, server_hostname="n1"))

    async def echo(self) -> bytes:
        self._writer.write(b"hello")
        return await self._reader.readexactly(5)

    def close(self) -> None:
        self._writer.transport.abort()


def listening(loop: LoopFactory, tmp_path: Path, work: Callable[[Files, PeerListener, str], Any]) -> None:
    files = Files(tmp_path, Authority(tmp_path / "authority"))

    async def running() -> None:
        (address,) = free_addresses(1)
        listener = await listen_for_peers(_Echo, address, files.read(), allow_plaintext=False)
        try:
            await work(files, listener, address)
        finally:
            listener.close()

    run(loop, running())


@both_loops
def test_who_comes_after_a_renewal_is_greeted_with_the_new_certificate(loop: LoopFactory, tmp_path: Path) -> None:
    async def work(files: Files, listener: PeerListener, address: str) -> None:
        used = files.read()
        for days in (10, 20, 30):
            before = await Dialled.dial(address, used.client)
            files.put(*files.authority.sign("n1", days))
            assert used.look()
            await listener.renew(used.server)
            after = await Dialled.dial(address, used.client)
            assert before.ends_at < after.ends_at == used.ends_at
            assert await before.echo() == await after.echo() == b"hello"
            before.close()
            after.close()

    listening(loop, tmp_path, work)


def test_nobody_is_turned_away_meanwhile(tmp_path: Path) -> None:
    """On uvloop, which a node runs on. A server of asyncio's own loop drops whom it had just accepted when it closes;
    the one who dialled hears nothing and dials again."""

    async def work(files: Files, listener: PeerListener, address: str) -> None:
        used = files.read()
        answered = 0
        done = asyncio.Event()

        async def dial_on() -> None:
            nonlocal answered
            while not done.is_set():
                dialled = await Dialled.dial(address, used.client)
                assert await dialled.echo() == b"hello"
                dialled.close()
                answered += 1

        dialling = asyncio.create_task(dial_on())
        for _ in range(10):
            seen = answered
            await listener.renew(used.server)
            await until(lambda seen=seen: answered > seen or dialling.done())  # type: ignore[misc]
        done.set()
        await dialling

    listening(uvloop.new_event_loop, tmp_path, work)


@both_loops
def test_after_the_end_nobody_is_accepted(loop: LoopFactory, tmp_path: Path) -> None:
    async def work(files: Files, listener: PeerListener, address: str) -> None:
        used = files.read()
        await listener.renew(used.server)
        listener.close()
        await listener.renew(used.server)  # a renewal that was under way
        with pytest.raises(ConnectionRefusedError):
            await Dialled.dial(address, used.client)

    listening(loop, tmp_path, work)


@both_loops
def test_replaced_files_are_found_by_themselves(
    loop: LoopFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_listener, "LOOK_SECONDS", 0.01)

    async def work(files: Files, listener: PeerListener, address: str) -> None:
        used = files.read()
        ended = used.ends_at
        renewing = asyncio.create_task(renew_certificates(used, listener))
        files.put(*files.authority.sign("n1", days=40))
        await until(lambda: used.ends_at > ended)
        dialled = await Dialled.dial(address, used.client)
        while dialled.ends_at == ended:  # the renewal of the socket is a step later
            dialled.close()
            dialled = await Dialled.dial(address, used.client)
        dialled.close()
        assert not renewing.done()
        renewing.cancel()

    listening(loop, tmp_path, work)


def test_a_port_that_is_taken_is_told() -> None:
    async def work() -> None:
        (address,) = free_addresses(1)
        listener = await listen_for_peers(_Echo, address, None, allow_plaintext=False)
        with pytest.raises(TransportError, match=f"cannot listen for peers on {address}"):
            await listen_for_peers(_Echo, address, None, allow_plaintext=False)
        listener.close()

    run(asyncio.new_event_loop, work())
