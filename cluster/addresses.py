"""Addresses as people write them: `host:port`, an IPv6 host in brackets.

Pure functions of text: nothing is resolved or connected to, so that no name server can decide what an option means.
"""

import ipaddress

_PORTS = range(1, 65536)


def parse_address(text: str) -> tuple[str, int] | None:
    """`("10.0.0.1", 7070)` for `10.0.0.1:7070`, `("::1", 7070)` for `[::1]:7070`; None when it is no such address."""
    host, separator, port = text.rpartition(":")
    if not separator or not (port.isascii() and port.isdigit()) or int(port) not in _PORTS:
        return None
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        return None
    if not host or any(character.isspace() or character in "/@[]" for character in host):
        return None
    return host, int(port)


def format_address(host: str, port: int) -> str:
    """The inverse of `parse_address`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """True when packets to this host cannot leave the machine: 127.0.0.0/8, ::1, localhost."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_wildcard(host: str) -> bool:
    """True for an address that means "all interfaces" and so is nothing that a client could connect to."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
