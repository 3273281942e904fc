"""Replicas of one log are equal: in processes that hash differently, and when there was a defect on the way."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from base64 import b64encode
from pathlib import Path

import pytest

from tests.statemachine.faults import FaultyDriver
from tests.statemachine.replay import digests
from tests.statemachine.script import Script
from tests.statemachine.test_properties import happen
from tests.statemachine.test_scripts import SCRIPTS

ROOT = Path(__file__).resolve().parents[2]


def replayed(logs: list[list[bytes]], hash_seed: int) -> list[str]:
    """The digests of the logs, by a process with that seed of its string hashes."""
    run = subprocess.run(
        [sys.executable, "-m", "tests.statemachine.replay"],
        input=b"\n\n".join(b"\n".join(b64encode(data) for data in log) for log in logs),
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        cwd=ROOT,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr.decode()
    return run.stdout.decode().splitlines()


def test_how_a_process_hashes_makes_no_difference() -> None:
    logs = [log_of(path) for path in SCRIPTS]
    logs += [[data for _, data in happen(seed, steps=60).log] for seed in range(5)]
    assert [digests(log) for log in logs] == replayed(logs, 1) == replayed(logs, 2)


def log_of(path: Path) -> list[bytes]:
    """The log that a golden script makes."""
    script = Script()
    script.run(path.read_text(encoding="utf-8"))
    return [data for _, data in script.driver.log]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_defect_in_everything_leaves_nothing(path: Path) -> None:
    expected = path.read_text(encoding="utf-8")
    found = Script(FaultyDriver()).run(expected)
    index = re.compile(r"logIndex=\d+")  # every entry is there twice
    assert index.sub("", found) == index.sub("", expected)
