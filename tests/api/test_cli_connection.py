"""Where commands find a cluster and its operator key, and that a key never goes to another cluster's address."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

import pytest

from api.cli.connection import Connection, add_connection_options, find_connection
from api.cli.failure import CommandError

LOCAL = "http://127.0.0.1:1,http://127.0.0.1:2"


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    made = tmp_path / ".runstate"
    made.mkdir()
    (made / "env").write_text(
        f"RUNSTATE_BASE_URL=http://127.0.0.1:1\nRUNSTATE_ENDPOINTS={LOCAL}\n"
        "RUNSTATE_SPACE_ID=local-space\nRUNSTATE_OPERATOR_KEY=local-key\n"
    )
    return made


def arguments(*flags: str) -> Namespace:
    parser = ArgumentParser()
    add_connection_options(parser)
    parser.add_argument("--space")
    return parser.parse_args(flags)


def refusal(found: Namespace, environ: dict[str, str]) -> str:
    with pytest.raises(CommandError) as caught:
        find_connection(found, environ)
    return str(caught.value)


def test_the_directory_is_enough(directory: Path) -> None:
    assert find_connection(arguments(), {}) == Connection(
        ("http://127.0.0.1:1", "http://127.0.0.1:2"), "local-key", "local-space"
    )


def test_the_environment_wins_over_the_directory(directory: Path) -> None:
    environ = {"RUNSTATE_ENDPOINTS": "https://a/, https://b", "RUNSTATE_OPERATOR_KEY": "k", "RUNSTATE_SPACE_ID": "s"}
    assert find_connection(arguments(), environ) == Connection(("https://a", "https://b"), "k", "s")


def test_a_named_directory_wins_over_the_environment(directory: Path) -> None:
    environ = {"RUNSTATE_ENDPOINTS": "https://a", "RUNSTATE_OPERATOR_KEY": "k", "RUNSTATE_SPACE_ID": "s"}
    found = find_connection(arguments("--data", str(directory)), environ)
    assert found == find_connection(arguments(), {})


def test_flags_win_over_all(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("flag-key\n")
    flags = ("--endpoints", "http://flag:1", "--operator-key-file", str(tmp_path / "key"), "--space", "flag-space")
    environ = {"RUNSTATE_ENDPOINTS": "https://a", "RUNSTATE_OPERATOR_KEY": "k", "RUNSTATE_SPACE_ID": "s"}
    assert find_connection(arguments(*flags), environ) == Connection(("http://flag:1",), "flag-key", "flag-space")


def test_the_base_url_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_connection(arguments(), {"RUNSTATE_BASE_URL": "http://a:1"}) == Connection(("http://a:1",))


@pytest.mark.parametrize("flags", [(), ("--endpoints", "https://elsewhere")])
def test_the_directorys_key_is_not_sent_elsewhere(directory: Path, flags: tuple[str, ...]) -> None:
    found = find_connection(arguments(*flags), {"RUNSTATE_ENDPOINTS": "https://elsewhere"})
    assert found == Connection(("https://elsewhere",))


def test_pasted_exports_of_the_same_cluster_may_use_its_key(directory: Path) -> None:
    found = find_connection(arguments(), {"RUNSTATE_ENDPOINTS": LOCAL, "RUNSTATE_SPACE_ID": "pasted"})
    assert (found.operator_key, found.space_id) == ("local-key", "pasted")


def test_nothing_known_says_every_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert refusal(arguments(), {}).startswith("which cluster? Give --endpoints, set RUNSTATE_ENDPOINTS, or")


def test_a_named_directory_without_a_cluster_is_said(tmp_path: Path) -> None:
    said = refusal(arguments("--data", str(tmp_path)), {"RUNSTATE_ENDPOINTS": "https://a"})
    assert said == f"there is no {tmp_path}/env; `runstate up --data {tmp_path}` makes it"


@pytest.mark.parametrize("listed", ["127.0.0.1:7070", "ftp://a", "http://"])
def test_an_endpoint_must_be_a_url(listed: str) -> None:
    assert f"{listed!r} is no endpoint" in refusal(arguments("--endpoints", listed), {})


def test_a_key_file_must_hold_a_key(directory: Path, tmp_path: Path) -> None:
    missing = refusal(arguments("--operator-key-file", str(tmp_path / "none")), {})
    assert "cannot be read" in missing
    (tmp_path / "empty").write_text("\n")
    assert refusal(arguments("--operator-key-file", str(tmp_path / "empty")), {}).endswith("is empty")
