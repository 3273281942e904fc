"""Where members may talk with each other: over TLS anywhere, without it on this machine only, unless told otherwise."""

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
