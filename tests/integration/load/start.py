"""Starts load processes for a test and hands over their records."""

import signal
import sys
from pathlib import Path
from types import TracebackType

from tests.integration.cluster import Space, tree_environ
from tests.integration.load.record import Request, read_records
from tests.integration.processes import Program
from tests.integration.waiting import eventually

# A request that began before the end may be held for 8 s, and be repeated.
_ENDS_SECONDS = 50.0


class Load:
    """Several load processes in one run of a space, until `finish`. A context manager: leaving it ends them."""

    def __init__(
        self,
        space: Space,
        directory: Path,
        *,
        processes: int = 3,
        pause_ms: float = 5.0,
        seed: str = "1",
    ) -> None:
        self.space = space
        leader = space.cluster.leader()
        self.scope_id: str = space.do(leader, "PUT", "/runs/load", {})["id"]
        directory.mkdir(parents=True, exist_ok=True)
        self._paths = [directory / f"c{number}.jsonl" for number in range(processes)]
        self._read = [0] * processes  # how far each file was counted
        self._successes = 0
        options = ["--pause-ms", str(pause_ms), "--seed", seed]
        self.programs = [
            Program(
                path.stem,
                [sys.executable, "-m", "tests.integration.load", path.stem, self.scope_id, str(path), *options],
                directory / f"{path.stem}.log",
                environ={**tree_environ(), **space.environ()},
            )
            for path in self._paths
        ]
        space.cluster.programs += self.programs

    def __enter__(self) -> "Load":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for program in self.programs:
            program.close()

    def requests(self) -> list[Request]:
        """All that is recorded so far, in the order in which it ended."""
        return sorted((one for path in self._paths for one in read_records(path)), key=lambda one: one.ended_ns)

    def successes(self) -> int:
        """How many requests have succeeded so far."""
        for place, path in enumerate(self._paths):
            if path.exists():
                with path.open("rb") as file:
                    file.seek(self._read[place])
                    lines, newline, _ = file.read().rpartition(b"\n")
                self._successes += lines.count(b'"status":20')
                self._read[place] += len(lines + newline)
        return self._successes

    def wait_for_more(self, requests: int, within_seconds: float = 40.0) -> None:
        """Wait until so many more requests than now have succeeded."""
        wanted = self.successes() + requests
        eventually(
            lambda: self._all_run() and self.successes() >= wanted,
            within_seconds=within_seconds,
            what=lambda: f"{wanted} successes; there are {self.successes()}",
        )

    def finish(self) -> list[Request]:
        """Stop, let every request come to its end, and return the records. A process that gave up fails the test."""
        for program in self.programs:
            program.send(signal.SIGTERM)
        for program in self.programs:
            assert program.wait(_ENDS_SECONDS) == 0, program.last_words()
        return self.requests()

    def _all_run(self) -> bool:
        for program in self.programs:
            assert program.alive, program.last_words()
        return True
