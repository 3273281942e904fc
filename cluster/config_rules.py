"""What a node's options must satisfy, apart from their types.

Each rule yields the option it speaks about and a sentence that says what is right. All rules are judged, so that an
operator sees every problem at once. Rules read the configuration and look whether named files exist; they change
nothing.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from cluster.addresses import is_loopback, parse_address

if TYPE_CHECKING:
    from cluster.config import NodeConfig

_NODE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_ADDRESS = "must be host:port with a port from 1 to 65535 (an IPv6 host in brackets)"

# Two missed heartbeats are ordinary on a busy machine; a node that stood for election then would unseat good leaders.
MIN_HEARTBEATS_PER_ELECTION = 4

Broken = Iterator[tuple[str, str]]


def is_node_id(text: str) -> bool:
    """Whether a node can have this id: it stands in file names, certificates and the log."""
    return _NODE_ID.fullmatch(text) is not None


def broken_rules(config: "NodeConfig") -> list[tuple[str, str]]:
    """Every (option, what is right) that this configuration breaks; empty when it is good."""
    return [*_identity(config), *_addresses(config), *_tls(config), *_timing(config), *_files(config)]


def _identity(config: "NodeConfig") -> Broken:
    if not is_node_id(config.id):
        yield "id", "must be 1 to 63 letters, digits, - and _, starting with a letter or digit"
    for name in config.peers:
        if not is_node_id(name):
            yield "peers", f"{name!r} is no node id: 1 to 63 letters, digits, - and _"
    if config.id not in config.peers:
        members = ", ".join(config.peers) or "nobody"
        yield "peers", f"must list this node, {config.id!r}, as well as the others; it lists {members}"
    if len(config.peers) % 2 == 0 or len(config.peers) > 7:
        yield "peers", f"must list 1, 3, 5 or 7 members, not {len(config.peers)}: an even one adds no safety"


def _addresses(config: "NodeConfig") -> Broken:
    if parse_address(config.listen) is None:
        yield "listen", _ADDRESS
    elif not config.advertise:
        yield "advertise", f"is needed, since {config.listen} is no address that clients can use: http://HOST:PORT"
    url = urlsplit(config.advertise)
    if config.advertise and (
        url.scheme not in ("http", "https") or not url.hostname or url.path or url.query or url.fragment
    ):
        yield "advertise", "must be http://HOST:PORT or https://HOST:PORT, with nothing behind it"
    for name, address in config.peers.items():
        if parse_address(address) is None:
            yield "peers", f"the address of {name}, {address!r}, {_ADDRESS}"
    if len(set(config.peers.values())) != len(config.peers):
        yield "peers", "must have a different address for each member"
    if config.peer_listen and parse_address(config.peer_listen) is None:
        yield "peer_listen", _ADDRESS
    elif config.peer_listen and config.peer_listen == config.listen:
        yield "peer_listen", "must differ from listen: clients and members are served on different ports"


def _tls(config: "NodeConfig") -> Broken:
    paths = {"tls_ca": config.tls_ca, "tls_certificate": config.tls_certificate, "tls_key": config.tls_key}
    missing = [name for name, path in paths.items() if path is None]
    if 0 < len(missing) < len(paths):
        yield missing[0], "is needed as well: tls_ca, tls_certificate and tls_key go together"
    if len(missing) < len(paths) or config.allow_plaintext_peers:
        return
    listens = {f"the address {config.peer_listen}": ("peer_listen", config.peer_listen)}
    peers = {f"the address of {name}, {text},": ("peers", text) for name, text in config.peers.items()}
    for what, (option, text) in {**peers, **listens}.items():
        address = parse_address(text)
        if address is not None and not is_loopback(address[0]):
            yield (
                option,
                f"{what} is not loopback: give tls_ca, tls_certificate and tls_key, "
                "or set allow_plaintext_peers when nobody else can reach that network",
            )
            return


def _timing(config: "NodeConfig") -> Broken:
    shortest, longest = config.election_timeout_ms
    if config.heartbeat_ms < 1:
        yield "heartbeat_ms", "must be 1 or more"
    if config.log_kept_entries < 0:
        yield "log_kept_entries", "must be 0 or more"
    if shortest >= longest:
        yield "election_timeout_ms", "the first must be smaller than the second, or all stand for election at once"
    if longest > 60_000:
        yield "election_timeout_ms", "must be at most 60000"
    if shortest < MIN_HEARTBEATS_PER_ELECTION * config.heartbeat_ms:
        least = MIN_HEARTBEATS_PER_ELECTION * config.heartbeat_ms
        yield "election_timeout_ms", f"the first must be at least {MIN_HEARTBEATS_PER_ELECTION} heartbeats, {least}"


def _files(config: "NodeConfig") -> Broken:
    for name in ("operator_key_file", "tls_ca", "tls_certificate", "tls_key"):
        path: Path | None = getattr(config, name)
        if path is None:
            continue
        if not path.is_file():
            yield name, "there is no such file"
        elif not os.access(path, os.R_OK):
            yield name, "must be readable by the user that runs the node"
    if config.data.exists() and not config.data.is_dir():
        yield "data", "must be a directory"
