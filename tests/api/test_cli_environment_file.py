"""`DIR/env`."""

import stat
import subprocess
from pathlib import Path

from api.cli.environment_file import read_environment_file, write_environment_file

VALUES = {
    "RUNSTATE_BASE_URL": "http://127.0.0.1:7070",
    "RUNSTATE_ENDPOINTS": "http://127.0.0.1:7070,http://127.0.0.1:7071",
    "RUNSTATE_API_KEY": "rs_A-b_c=",
    "RUNSTATE_SPACE_ID": "spc_1",
}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "env"
    write_environment_file(path, VALUES)
    assert read_environment_file(path) == VALUES


def test_only_the_owner_can_read_it_also_when_it_was_open_before(tmp_path: Path) -> None:
    path = tmp_path / "env"
    path.write_text("")
    path.chmod(0o644)
    write_environment_file(path, VALUES)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["env"]


def test_a_shell_can_source_it(tmp_path: Path) -> None:
    path = tmp_path / "env"
    write_environment_file(path, VALUES)
    script = f'set -a; . "{path}"; env'
    shown = subprocess.run(["sh", "-c", script], env={}, capture_output=True, text=True, check=True).stdout
    assert {f"{name}={value}" for name, value in VALUES.items()} <= set(shown.split("\n"))


def test_lines_that_people_write_are_read_too(tmp_path: Path) -> None:
    path = tmp_path / "env"
    path.write_text("# mine\n\nexport RUNSTATE_BASE_URL='http://a'\n RUNSTATE_SPACE_ID = \"s\"\nnothing\n#X=1\n")
    assert read_environment_file(path) == {"RUNSTATE_BASE_URL": "http://a", "RUNSTATE_SPACE_ID": "s"}


def test_no_file_is_no_variables(tmp_path: Path) -> None:
    assert read_environment_file(tmp_path / "env") == {}
