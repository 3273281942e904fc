"""The command line as a whole: help, exit statuses, what a person sees who typed something wrong."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from api.cli import main
from api.cli.failure import EXIT_USAGE

COMMANDS = ("up", "status", "space", "key", "node", "bootstrap")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert f"usage: runstate {command}" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["up", "--nodes", "many"], ["key", "create", "--nonsense"]])
def test_a_wrong_command_line_is_no_status_of_a_cluster(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == EXIT_USAGE
    assert capsys.readouterr().err.startswith("usage: runstate")


def test_a_failure_is_a_sentence_and_an_exit_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("RUNSTATE_ENDPOINTS", "RUNSTATE_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    assert main(["status"]) == EXIT_USAGE
    assert capsys.readouterr().err == (
        "runstate: which cluster? Give --endpoints, set RUNSTATE_ENDPOINTS, or run this where `runstate up` was "
        "started (there is no .runstate/env)\n"
    )


def test_the_module_is_the_command(tmp_path: Path) -> None:
    (tmp_path / "api.py").write_text("raise SystemExit('a file of the user was run')")
    # As `runstate up` starts nodes: the working directory is not searched.
    ran = subprocess.run(
        [sys.executable, "-P", "-m", "api.cli", "--version"],
        cwd=tmp_path,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == "runstate 0.1.0\n"


def test_help_loads_neither_servers_nor_engine() -> None:
    heavy = "aiohttp", "uvloop", "lmdb", "pysyncobj", "msgpack"
    code = f"import sys, api.cli; api.cli.parser(); print([m for m in {heavy!r} if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
