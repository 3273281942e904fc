"""The options of a node: where they come from, what wins, and what is said when one is wrong."""

from pathlib import Path

import msgspec
import pytest

from cluster.config import OPTIONS, ConfigError, NodeConfig, load

FILE = """
id = "n1"
listen = "127.0.0.1:7070"
data = "data"
heartbeat_ms = 20
election_timeout_ms = [300, 600]

[peers]
n1 = "127.0.0.1:7073"
n2 = "127.0.0.1:7074"
n3 = "127.0.0.1:7075"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "node.toml"
    path.write_text(FILE)
    return path


def refusal(path: Path | None, environ: dict[str, str], flags: dict[str, object] | None = None) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(path, environ, flags or {})
    return str(caught.value).split("\n")


def test_reads_a_file(file: Path) -> None:
    config = load(file, {}, {})
    assert config == NodeConfig(
        id="n1",
        listen="127.0.0.1:7070",
        advertise="http://127.0.0.1:7070",
        peers={"n1": "127.0.0.1:7073", "n2": "127.0.0.1:7074", "n3": "127.0.0.1:7075"},
        peer_listen="127.0.0.1:7073",
        data=file.parent / "data",
        heartbeat_ms=20,
        election_timeout_ms=(300, 600),
    )


def test_a_flag_wins_over_the_environment_and_that_over_the_file(file: Path) -> None:
    environ = {"RUNSTATE_NODE_HEARTBEAT_MS": "30", "RUNSTATE_NODE_LOG_LEVEL": "debug"}
    assert load(file, {}, {}).heartbeat_ms == 20
    assert load(file, environ, {}).heartbeat_ms == 30
    assert load(file, environ, {"heartbeat_ms": "40", "log_level": None}).heartbeat_ms == 40
    assert load(file, environ, {"heartbeat_ms": "40", "log_level": None}).log_level == "debug"


def test_everything_can_be_said_in_the_environment_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("ca", "certificate", "key", "operator"):
        (tmp_path / name).write_text("x")
    environ = {
        "RUNSTATE_NODE_ID": "b",
        "RUNSTATE_NODE_LISTEN": "[::]:7070",
        "RUNSTATE_NODE_ADVERTISE": "https://b.example:7070/",
        "RUNSTATE_NODE_PEERS": "a=a.example:1, b=b.example:2,c=c.example:3",
        "RUNSTATE_NODE_PEER_LISTEN": "0.0.0.0:2",
        "RUNSTATE_NODE_DATA": "there",
        "RUNSTATE_NODE_OPERATOR_KEY_FILE": "operator",
        "RUNSTATE_NODE_TLS_CA": "ca",
        "RUNSTATE_NODE_TLS_CERTIFICATE": "certificate",
        "RUNSTATE_NODE_TLS_KEY": "key",
        "RUNSTATE_NODE_ALLOW_PLAINTEXT_PEERS": "false",
        "RUNSTATE_NODE_ELECTION_TIMEOUT_MS": "700,1400",
        "RUNSTATE_NODE_HEARTBEAT_MS": "60",
        "RUNSTATE_NODE_LOG_KEPT_ENTRIES": "500",
        "RUNSTATE_NODE_LOCAL": "true",
        "RUNSTATE_NODE_LOG_LEVEL": "warning",
        "RUNSTATE_NODE_CLOCK_SKEW_MS": "-3600000",
        "RUNSTATE_NODE_FAILPOINTS": "one,two",
        "RUNSTATE_NODE_JOURNAL_ARCHIVE": "archive",
    }
    assert set(environ) == {option.variable for option in OPTIONS.values()}
    assert load(None, environ, {}) == NodeConfig(
        id="b",
        listen="[::]:7070",
        advertise="https://b.example:7070",
        peers={"a": "a.example:1", "b": "b.example:2", "c": "c.example:3"},
        peer_listen="0.0.0.0:2",
        data=tmp_path / "there",
        operator_key_file=tmp_path / "operator",
        tls_ca=tmp_path / "ca",
        tls_certificate=tmp_path / "certificate",
        tls_key=tmp_path / "key",
        allow_plaintext_peers=False,
        election_timeout_ms=(700, 1400),
        heartbeat_ms=60,
        log_kept_entries=500,
        local=True,
        log_level="warning",
        clock_skew_ms=-3_600_000,
        failpoints=["one", "two"],
        journal_archive=tmp_path / "archive",
    )


def test_paths_belong_to_the_file_that_names_them_and_else_to_the_working_directory(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert load(file, {}, {}).data == tmp_path / "data"
    assert load(file, {}, {"data": "data"}).data == elsewhere / "data"


def test_the_file_may_be_named_by_the_environment(file: Path) -> None:
    assert load(None, {"RUNSTATE_NODE_CONFIG": str(file)}, {}).id == "n1"


def test_an_empty_variable_is_unset(file: Path) -> None:
    assert load(file, {"RUNSTATE_NODE_TLS_CA": "", "RUNSTATE_NODE_ID": ""}, {}).id == "n1"


def test_a_file_that_is_not_there_or_not_toml_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing.toml"
    assert refusal(missing, {}) == [
        f"config = '{missing}': cannot be read: No such file or directory; name a readable TOML file"
    ]
    broken = tmp_path / "broken.toml"
    broken.write_text("id = n1")
    assert refusal(broken, {})[0].startswith(f"config = '{broken}': is not TOML: Invalid value")


def test_what_is_missing_is_said_with_every_way_to_give_it() -> None:
    lines = refusal(None, {})
    assert [line.split(" ")[0] for line in lines] == ["id", "listen", "peers", "data"]
    assert lines[0] == (
        "id is not set: stable name of this node, never an address (for example n1); "
        "give --id, RUNSTATE_NODE_ID or id in the file"
    )


def test_unknown_options_are_refused_with_the_likely_one(file: Path) -> None:
    file.write_text("lisen = '127.0.0.1:1'\n" + FILE)
    assert refusal(file, {"RUNSTATE_NODE_HARTBEAT_MS": "1"}) == [
        f"lisen (file {file}): is no option; did you mean listen?",
        "RUNSTATE_NODE_HARTBEAT_MS: is no option; did you mean RUNSTATE_NODE_HEARTBEAT_MS?",
    ]


def test_variables_that_kubernetes_sets_for_a_service_of_that_name_are_not_ours(file: Path) -> None:
    foreign = {
        "RUNSTATE_NODE_SERVICE_HOST": "10.0.0.1",
        "RUNSTATE_NODE_SERVICE_PORT": "7070",
        "RUNSTATE_NODE_SERVICE_PORT_HTTP": "7070",
        "RUNSTATE_NODE_PORT": "tcp://10.0.0.1:7070",
        "RUNSTATE_NODE_PORT_7070_TCP_ADDR": "10.0.0.1",
    }
    assert load(file, foreign, {}) == load(file, {}, {})


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("LOCAL", "maybe", "local = 'maybe' (RUNSTATE_NODE_LOCAL): expected true or false"),
        ("HEARTBEAT_MS", "1.5", "heartbeat_ms = '1.5' (RUNSTATE_NODE_HEARTBEAT_MS): expected a whole number"),
        ("ELECTION_TIMEOUT_MS", "300", "election_timeout_ms = '300' (RUNSTATE_NODE_ELECTION_TIMEOUT_MS): expected two"),
        ("PEERS", "a=1,a=2", "peers = 'a=1,a=2' (RUNSTATE_NODE_PEERS): names one member twice"),
        (
            "LOG_LEVEL",
            "loud",
            "log_level = 'loud' (RUNSTATE_NODE_LOG_LEVEL): expected one of debug, info, warning, error",
        ),
    ],
)
def test_values_of_the_wrong_kind_are_named_with_their_origin(file: Path, variable: str, value: str, said: str) -> None:
    (line,) = refusal(file, {"RUNSTATE_NODE_" + variable: value})
    assert line.startswith(said)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("heartbeat_ms = true", "heartbeat_ms = True"),
        ("heartbeat_ms = 50.0", "heartbeat_ms = 50.0"),
        ("local = 1", "local = 1"),
        ("log_level = 3", "log_level = 3"),
        ("failpoints = [1]", "failpoints = [1]"),
        ("tls_ca = 7", "tls_ca = 7"),
        ("advertise = false", "advertise = False"),
    ],
)
def test_a_file_has_types_of_its_own(file: Path, line: str, said: str) -> None:
    name = line.split(" ")[0]
    kept = [old for old in FILE.split("\n") if not old.startswith(name + " ")]
    file.write_text("\n".join([line, *kept]))
    (problem,) = refusal(file, {})
    assert problem.startswith(f"{said} (file {file}): expected ")


def test_all_problems_are_told_at_once(file: Path) -> None:
    assert len(refusal(file, {"RUNSTATE_NODE_LOCAL": "x"}, {"heartbeat_ms": "y", "log_level": "z"})) == 3


def test_a_broken_rule_is_told_with_the_origin_of_the_value(file: Path) -> None:
    (line,) = refusal(file, {}, {"id": "n4"})
    assert line.startswith("peers = {'n1': ")
    assert line.endswith(f" (file {file}): must list this node, 'n4', as well as the others; it lists n1, n2, n3")


def test_options_derive_from_the_declaration() -> None:
    assert list(OPTIONS) == [field.name for field in msgspec.structs.fields(NodeConfig)]
    for option in OPTIONS.values():
        assert option.description
        assert option.example
        assert option.flag == "--" + option.name.replace("_", "-")
        assert option.variable == "RUNSTATE_NODE_" + option.name.upper()
