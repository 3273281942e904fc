"""The supervisor, with real processes."""

import asyncio
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from api.cli import supervisor
from api.cli.supervisor import Program, Supervisor, describe_exit, last_words

FOREVER = "import signal; print('up', flush=True); signal.pause()"
STUBBORN = (
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True)\nwhile 1: signal.pause()"
)


def program(tmp_path: Path, code: str, name: str = "n1") -> Program:
    return Program(name, (sys.executable, "-c", code), tmp_path / f"{name}.log")


class Reports:
    """What a supervisor said; `matching` waits for a line."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._changed = asyncio.Event()

    def __call__(self, line: str) -> None:
        self.lines.append(line)
        self._changed.set()

    async def matching(self, found: Callable[[str], bool], number: int = 1) -> list[str]:
        async with asyncio.timeout(20):
            while len(matching := [line for line in self.lines if found(line)]) < number:
                self._changed.clear()
                await self._changed.wait()
        return matching


async def until_says(path: Path, text: str) -> None:
    async with asyncio.timeout(20):
        while not path.exists() or text not in path.read_text():
            await asyncio.sleep(0.01)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "FIRST_PAUSE_SECONDS", 0.02)
    monkeypatch.setattr(supervisor, "LONGEST_PAUSE_SECONDS", 0.08)


def test_one_that_dies_is_started_again_with_growing_pauses_and_says_why(tmp_path: Path) -> None:
    async def run() -> None:
        reports = Reports()
        dying = program(tmp_path, "import sys; print('first'); sys.exit('the disk is full')")
        supervised = Supervisor([dying], reports)
        supervised.start()
        died = await reports.matching(lambda line: "died" in line, number=5)
        await supervised.stop(5)
        said = "n1 died: exit status 1; its last words: the disk is full; starting it again in {} s"
        assert died[:5] == [said.format(pause) for pause in ("0.02", "0.04", "0.08", "0.08", "0.08")]
        assert supervised.pids() == {}

    asyncio.run(run())


def test_a_kill_is_told_by_its_name(tmp_path: Path) -> None:
    async def run() -> None:
        reports = Reports()
        supervised = Supervisor([program(tmp_path, FOREVER)], reports)
        supervised.start()
        await until_says(tmp_path / "n1.log", "up")
        first = supervised.pids()["n1"]
        supervised._processes["n1"].send_signal(signal.SIGKILL)
        await reports.matching(lambda line: line.startswith("n1 died: SIGKILL (signal 9); its last words: up; "))
        async with asyncio.timeout(20):
            while supervised.pids().get("n1", first) == first:
                await asyncio.sleep(0.01)
        await supervised.stop(5)

    asyncio.run(run())


def test_last_words_are_those_of_the_process_that_died(tmp_path: Path) -> None:
    async def run() -> None:
        (tmp_path / "n1.log").write_text("words of an earlier one\n")
        reports = Reports()
        supervised = Supervisor([program(tmp_path, "")], reports)
        supervised.start()
        (line, *_) = await reports.matching(lambda line: "died" in line)
        await supervised.stop(5)
        assert line.startswith("n1 died: exit status 0; it said nothing; ")

    asyncio.run(run())


def test_a_command_that_cannot_be_run_is_said(tmp_path: Path) -> None:
    async def run() -> None:
        reports = Reports()
        supervised = Supervisor([Program("n1", (str(tmp_path / "none"),), tmp_path / "log")], reports)
        supervised.start()
        await reports.matching(lambda line: "it could not be started: [Errno 2]" in line)
        await supervised.stop(5)

    asyncio.run(run())


def test_stop_asks_all_and_leaves_none(tmp_path: Path) -> None:
    async def run() -> None:
        reports = Reports()
        supervised = Supervisor([program(tmp_path, FOREVER, name) for name in ("n1", "n2", "n3")], reports)
        supervised.start()
        for name in ("n1", "n2", "n3"):
            await until_says(tmp_path / f"{name}.log", "up")
        assert len(set(supervised.pids().values())) == 3
        await supervised.stop(20)
        assert supervised.pids() == {}
        assert reports.lines == []

    asyncio.run(run())


def test_one_that_does_not_stop_is_killed(tmp_path: Path) -> None:
    async def run() -> None:
        reports = Reports()
        supervised = Supervisor([program(tmp_path, STUBBORN)], reports)
        supervised.start()
        await until_says(tmp_path / "n1.log", "up")
        await supervised.stop(0.1)
        assert reports.lines == ["n1 did not stop within 0.1 s: killing"]
        assert supervised.pids() == {}

    asyncio.run(run())


def test_a_stop_during_a_pause_ends_the_pause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "FIRST_PAUSE_SECONDS", 3600.0)

    async def run() -> None:
        reports = Reports()
        supervised = Supervisor([program(tmp_path, "")], reports)
        supervised.start()
        await reports.matching(lambda line: "died" in line)
        await supervised.stop(20)

    asyncio.run(run())


def test_a_large_log_is_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "LOG_BYTES", 10)
    (tmp_path / "n1.log").write_text("more than ten bytes\n")

    async def run() -> None:
        supervised = Supervisor([program(tmp_path, FOREVER)], Reports())
        supervised.start()
        await until_says(tmp_path / "n1.log", "up")
        await supervised.stop(20)

    asyncio.run(run())
    assert (tmp_path / "n1.log").read_text() == "up\n"
    assert (tmp_path / "n1.log.1").read_text() == "more than ten bytes\n"


@pytest.mark.parametrize(
    ("status", "said"),
    [(0, "exit status 0"), (70, "exit status 70"), (-9, "SIGKILL (signal 9)"), (-99, "an unknown signal (signal 99)")],
)
def test_exit_statuses_in_words(status: int, said: str) -> None:
    assert describe_exit(status) == said


def test_last_words(tmp_path: Path) -> None:
    path = tmp_path / "log"
    assert last_words(path) == ""
    path.write_bytes(b"one\ntwo \xff\n  \n\n")
    assert last_words(path) == "two \N{REPLACEMENT CHARACTER}"
    assert last_words(path, path.stat().st_size) == ""
    path.write_bytes(b"x" * 50_000)
    assert last_words(path) == "x" * 500
    path.write_text("T CRITICAL cluster.fatal: this node stops\nTraceback:\nKeyError\n")
    assert last_words(path) == "T CRITICAL cluster.fatal: this node stops"
