"""`@once` of the released client 0.3.0, from several processes at several nodes."""

from collections import Counter
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

from tests.clients.program import ClientProgram
from tests.integration.cluster import Cluster, Space
from tests.integration.waiting import eventually

VERSION = "0.3.0"
_names = count()


@pytest.fixture
def run() -> str:
    """A run of the test's own in the shared space."""
    return f"run {next(_names)}"


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def test_each_piece_of_work_runs_once(shared_cluster: Cluster, shared_space: Space, tmp_path: Path, run: str) -> None:
    executions = tmp_path / "executions"
    with ExitStack() as stack:
        programs = [
            stack.enter_context(
                ClientProgram(
                    VERSION,
                    "once_many.py",
                    shared_space,
                    shared_cluster.nodes[number % 3],
                    tmp_path,
                    60,
                    executions,
                    number,
                    name=f"worker-{number}",
                    RUNSTATE_RUN=run,
                )
            )
            for number in range(4)
        ]
        results = [program.finish()["results"] for program in programs]
    assert Counter(line.split()[0] for line in _lines(executions)) == Counter(map(str, range(60)))
    assert all(result == results[0] for result in results)
    assert {one["text"] for one in results[0]} == {"größe ✓"}
    workers = {line.split()[1] for line in _lines(executions)}
    assert len(workers) > 1, "one process did it all: this proves nothing"


@pytest.mark.parametrize(("attempts", "first_good"), [(3, 99), (1, 99), (4, 3)])
def test_a_failing_piece_is_tried_as_often_as_allowed(
    shared_cluster: Cluster, shared_space: Space, tmp_path: Path, run: str, attempts: int, first_good: int
) -> None:
    tries = tmp_path / "tries"
    with ExitStack() as stack:
        programs = [
            stack.enter_context(
                ClientProgram(
                    VERSION,
                    "once_fails.py",
                    shared_space,
                    node,
                    tmp_path,
                    attempts,
                    first_good,
                    tries,
                    name=f"at-{node.id}",
                    RUNSTATE_RUN=run,
                )
            )
            for node in shared_cluster.nodes
        ]
        ends = [program.finish() for program in programs]
    expected = min(attempts, first_good)
    assert _lines(tries) == [str(number) for number in range(1, expected + 1)]
    if first_good > attempts:
        assert {end["attempts"] for end in ends} == {attempts}
        assert {end["failed"] for end in ends} == {f"ValueError: try {attempts} is bad"}
        errors = attempts - 1  # the last one was told as OnceFailedError
    else:
        assert {end["result"] for end in ends} == {f"try {first_good} is good"}
        errors = first_good - 1
    told = sorted(error for end in ends for error in end["errors"])
    assert told == [f"try {number} is bad" for number in range(1, errors + 1)]


def test_a_killed_workers_piece_is_taken_over(
    shared_cluster: Cluster, shared_space: Space, tmp_path: Path, run: str
) -> None:
    executions = tmp_path / "executions"

    def program(mode: str, place: int) -> ClientProgram:
        return ClientProgram(
            VERSION,
            "once_hangs.py",
            shared_space,
            shared_cluster.nodes[place],
            tmp_path,
            mode,
            executions,
            name=f"{mode}-{place}",
            RUNSTATE_RUN=run,
        )

    with program("hang", 0) as dying:
        began = dying.wait_for("began")
        with program("end", 1) as heir:
            heir.wait_for("calls")
            assert _lines(executions) == [str(began)]
            dying.program.kill()
            assert heir.finish()["result"] == heir.program.pid
    assert _lines(executions) == [str(began), str(heir.program.pid)]


def test_a_worker_that_slept_past_its_lease_does_not_give_the_result(
    shared_cluster: Cluster, shared_space: Space, tmp_path: Path, run: str
) -> None:
    executions = tmp_path / "executions"
    arguments = (executions,)
    with ClientProgram(
        VERSION, "once_hangs.py", shared_space, shared_cluster.nodes[0], tmp_path, "hang", *arguments, name="sleeper",
        RUNSTATE_RUN=run,
    ) as sleeper:  # fmt: skip
        sleeper.wait_for("began")
        sleeper.program.pause()
        with ClientProgram(
            VERSION, "once_hangs.py", shared_space, shared_cluster.nodes[1], tmp_path, "end", *arguments, name="heir",
            RUNSTATE_RUN=run,
        ) as heir:  # fmt: skip
            assert heir.finish()["result"] == heir.program.pid
        with ClientProgram(
            VERSION, "once_hangs.py", shared_space, shared_cluster.nodes[2], tmp_path, "end", *arguments, name="later",
            RUNSTATE_RUN=run,
        ) as later:  # fmt: skip
            assert later.finish()["result"] == heir.program.pid
    assert _lines(executions) == [str(sleeper.program.pid), str(heir.program.pid)]


@pytest.mark.parametrize("end", ["stop", "finish"])
def test_a_new_run_starts_fresh(
    shared_cluster: Cluster, shared_space: Space, tmp_path: Path, run: str, end: str
) -> None:
    with ClientProgram(VERSION, "once_again.py", shared_space, shared_cluster.nodes[1], tmp_path, run, end) as program:
        seen = program.finish()
    assert seen["results"] == [1, 1, 2, 2]
    assert seen["executions"] == [1, 1]
    assert seen["ids"][0] != seen["ids"][1]
    assert seen["stopped"]


def test_running_work_hears_that_its_run_was_stopped_elsewhere(
    shared_cluster: Cluster, shared_space: Space, tmp_path: Path, run: str
) -> None:
    with ClientProgram(
        VERSION, "once_stopped.py", shared_space, shared_cluster.nodes[0], tmp_path, RUNSTATE_RUN=run
    ) as worker:
        worker.wait_for("began")
        with ClientProgram(
            VERSION, "run_stop.py", shared_space, shared_cluster.nodes[1], tmp_path, "stop", RUNSTATE_RUN=run
        ) as stopper:
            stopper.finish()
        # What it has done is still taken; nothing new begins.
        assert worker.finish() == {"began": "piece", "ended": "result", "next": "StoppedError"}


def test_a_run_is_watched(shared_cluster: Cluster, shared_space: Space, tmp_path: Path, run: str) -> None:
    first, second, _ = shared_cluster.nodes
    with ClientProgram(VERSION, "run_events.py", shared_space, first, tmp_path, RUNSTATE_RUN=run) as watcher:
        scope = watcher.wait_for("run")
        numbers = count()

        def saw_enough() -> bool:
            me = {"scopeId": scope, "key": f"work:{next(numbers)}"}
            token = shared_space.do(second, "POST", "/once/acquire", {**me, "holder": "h", "holderSession": "s"})[
                "token"
            ]
            shared_space.do(second, "POST", "/once/complete", {**me, "token": token, "result": None})
            return not watcher.program.alive

        # It begins to watch a moment after it joined; what it sees is whole from its first event on.
        eventually(saw_enough, within_seconds=20, what=watcher.program.last_words)
        seen = watcher.finish()["seen"]
    assert all(aware for _, _, aware in seen)
    completed = [key for kind, key, _ in seen if kind == "once.completed"]
    first_seen = int(completed[0].partition(":")[2])
    assert completed == [f"work:{first_seen + step}" for step in range(3)]
