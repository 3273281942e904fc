"""What a node's options must satisfy."""

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cluster.config import NodeConfig
from cluster.config_rules import broken_rules

PEERS = {"n1": "127.0.0.1:7073", "n2": "127.0.0.1:7074", "n3": "127.0.0.1:7075"}
REMOTE = {"n1": "10.0.0.1:7080", "n2": "10.0.0.2:7080", "n3": "10.0.0.3:7080"}


def config(tmp_path: Path, **changes: Any) -> NodeConfig:
    good = NodeConfig(
        id="n1",
        listen="127.0.0.1:7070",
        advertise="http://127.0.0.1:7070",
        peers=PEERS,
        peer_listen="127.0.0.1:7073",
        data=tmp_path / "data",
    )
    return msgspec.structs.replace(good, **changes)


def test_a_good_one_breaks_none(tmp_path: Path) -> None:
    assert broken_rules(config(tmp_path)) == []


@pytest.mark.parametrize(
    ("changes", "option", "said"),
    [
        ({"id": "10.0.0.1:7070"}, "id", "1 to 63 letters"),
        ({"id": "n4"}, "peers", "must list this node, 'n4'"),
        ({"peers": {**PEERS, "n 4": "127.0.0.1:1", "n5": "127.0.0.1:2"}}, "peers", "'n 4' is no node id"),
        ({"peers": {"n1": "127.0.0.1:1", "n2": "127.0.0.1:2"}}, "peers", "not 2"),
        ({"peers": {}}, "peers", "not 0"),
        ({"peers": {**PEERS, "n2": "nowhere"}}, "peers", "the address of n2, 'nowhere', must be host:port"),
        ({"peers": {**PEERS, "n2": "127.0.0.1:7073"}}, "peers", "a different address for each member"),
        ({"listen": "7070"}, "listen", "host:port"),
        ({"listen": "0.0.0.0:7070", "advertise": ""}, "advertise", "is needed, since 0.0.0.0:7070 is no address"),
        ({"advertise": "127.0.0.1:7070"}, "advertise", "http://HOST:PORT"),
        ({"advertise": "http://127.0.0.1:7070/v1"}, "advertise", "nothing behind it"),
        ({"peer_listen": "7073"}, "peer_listen", "host:port"),
        ({"peer_listen": "127.0.0.1:7070"}, "peer_listen", "must differ from listen"),
        ({"heartbeat_ms": 0}, "heartbeat_ms", "1 or more"),
        ({"heartbeat_ms": 126}, "election_timeout_ms", "at least 4 heartbeats, 504"),
        ({"log_kept_entries": -1}, "log_kept_entries", "0 or more"),
        ({"election_timeout_ms": (600, 600)}, "election_timeout_ms", "smaller than the second"),
        ({"election_timeout_ms": (600, 60_001)}, "election_timeout_ms", "at most 60000"),
        ({"peers": REMOTE, "peer_listen": ""}, "peers", "the address of n1, 10.0.0.1:7080, is not loopback"),
        ({"peer_listen": "0.0.0.0:7073"}, "peer_listen", "the address 0.0.0.0:7073 is not loopback"),
    ],
)
def test_a_broken_rule_names_the_option_and_what_is_right(
    tmp_path: Path, changes: dict[str, Any], option: str, said: str
) -> None:
    broken = broken_rules(config(tmp_path, **changes))
    assert any(name == option and said in rule for name, rule in broken), broken


def test_members_elsewhere_need_tls_or_the_express_wish(tmp_path: Path) -> None:
    remote = config(tmp_path, peers=REMOTE, peer_listen="10.0.0.1:7080")
    assert broken_rules(msgspec.structs.replace(remote, allow_plaintext_peers=True)) == []
    files = {name: tmp_path / name for name in ("tls_ca", "tls_certificate", "tls_key")}
    for path in files.values():
        path.write_text("pem")
    assert broken_rules(msgspec.structs.replace(remote, **files)) == []
    del files["tls_key"]
    assert [name for name, _ in broken_rules(msgspec.structs.replace(remote, **files))] == ["tls_key"]


def test_named_files_must_be_there(tmp_path: Path) -> None:
    assert broken_rules(config(tmp_path, operator_key_file=tmp_path / "none")) == [
        ("operator_key_file", "there is no such file")
    ]
    assert [name for name, _ in broken_rules(config(tmp_path, operator_key_file=tmp_path))] == ["operator_key_file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root can read everything")
def test_named_files_must_be_readable(tmp_path: Path) -> None:
    secret = tmp_path / "key"
    secret.write_text("k")
    secret.chmod(0)
    assert broken_rules(config(tmp_path, operator_key_file=secret)) == [
        ("operator_key_file", "must be readable by the user that runs the node")
    ]


def test_data_must_be_a_directory(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    assert broken_rules(config(tmp_path)) == [("data", "must be a directory")]
