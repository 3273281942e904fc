"""Where members may talk with each other: over TLS anywhere, without it on this machine only, unless told otherwise."""

import asyncio
import ssl
from collections.abc import Callable
from typing import Any

from cluster.addresses import is_loopback, parse_address


class TransportError(Exception):
    """The node cannot talk with its peers as it was told to. The message says what to change."""


def peer_address(address: str, what: str, *, encrypted: bool, allow_plaintext: bool) -> tuple[str, int]:
    """Host and port of "host:port". what: names it in a message.

    allow_plaintext: the operator said in so many words that nobody else can reach that network.
    Raises TransportError when it is none, or when anyone on the network could read and forge what goes there.
    """
    parsed = parse_address(address)
    if parsed is None:
        raise TransportError(f"{what}, {address!r}, is not host:port")
    if not encrypted and not allow_plaintext and not is_loopback(parsed[0]):
        raise TransportError(
            f"{what}, {address}, is not loopback: give tls_ca, tls_certificate and tls_key, "
            "or set allow_plaintext_peers when nobody else can reach that network"
        )
    return parsed


async def listen_for_peers(
    protocol: Callable[[], asyncio.BaseProtocol], address: str, context: ssl.SSLContext | None, allow_plaintext: bool
) -> asyncio.Server:
    """Accept connections there. Raises TransportError when that is impossible or unsafe."""
    host, port = peer_address(
        address, "the listening address", encrypted=context is not None, allow_plaintext=allow_plaintext
    )
    loop: Any = asyncio.get_running_loop()
    try:
        server: asyncio.Server = await loop.create_server(protocol, host, port, ssl=context)
    except OSError as error:
        raise TransportError(f"cannot listen for peers on {address}: {error}") from error
    return server
