"""Where the other members are heard: a listening socket that can be given other certificates without being closed.

A server of asyncio keeps its TLS context for life. So new certificates get a server of their own on the same socket,
and then the old one is closed: nobody who dials meanwhile is turned away, and connections that exist do not notice.
"""

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import Callable
from typing import Any, NoReturn

from cluster.peer_addresses import TransportError, peer_address
from cluster.peer_certificates import LOOK_SECONDS, PeerCertificates

log = logging.getLogger(__name__)

Accept = Callable[[], asyncio.BaseProtocol]


class PeerListener:
    """Made by `listen_for_peers`; closed once."""

    def __init__(self, accept: Accept, servers: list[asyncio.Server]) -> None:
        self._accept = accept
        self._servers = servers
        self._closed = False

    async def renew(self, context: ssl.SSLContext) -> None:
        """Greet those who come from now on with this context. Raises OSError; then nothing has changed."""
        loop: Any = asyncio.get_running_loop()
        begun: list[asyncio.Server] = []
        try:
            for server in self._servers:
                for listening in server.sockets:
                    twin = socket.socket(fileno=os.dup(listening.fileno()))
                    try:
                        begun.append(await loop.create_server(self._accept, sock=twin, ssl=context))
                    except BaseException:
                        twin.close()
                        raise
        except BaseException:
            _close(begun)
            raise
        if self._closed:
            _close(begun)
            return
        before, self._servers = self._servers, begun
        _close(before)

    def close(self) -> None:
        """Accept nobody any more."""
        self._closed = True
        _close(self._servers)

    async def wait_closed(self) -> None:
        for server in self._servers:
            await server.wait_closed()


def _close(servers: list[asyncio.Server]) -> None:
    for server in servers:
        server.close()


async def listen_for_peers(
    accept: Accept, address: str, certificates: PeerCertificates | None, allow_plaintext: bool
) -> PeerListener:
    """Accept connections at "host:port". Raises TransportError when that is impossible or unsafe."""
    host, port = peer_address(
        address, "the listening address", encrypted=certificates is not None, allow_plaintext=allow_plaintext
    )
    loop: Any = asyncio.get_running_loop()
    try:
        server = await loop.create_server(accept, host, port, ssl=None if certificates is None else certificates.server)
    except OSError as error:
        raise TransportError(f"cannot listen for peers on {address}: {error}") from error
    return PeerListener(accept, [server])


async def renew_certificates(certificates: PeerCertificates, listener: PeerListener) -> NoReturn:
    """Look for replaced files now and then, and take them up. Ends by being cancelled."""
    due = False
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        due = certificates.look() or due
        if due:
            try:
                await listener.renew(certificates.server)
            except OSError as error:
                log.error("those who dial this node are greeted with the old certificates still: %s", error)
            else:
                due = False
