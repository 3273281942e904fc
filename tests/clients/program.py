"""Runs a program of `programs/` with one released client, and reads what it observed."""

import json
import os
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.clients.released import installed
from tests.integration.cluster import Node, Space
from tests.integration.processes import Program
from tests.integration.waiting import eventually

_PROGRAMS = Path(__file__).with_name("programs")
STARTS_SECONDS = 20.0


class ClientProgram:
    """One process with a released client. It says what it sees as lines of JSON. A context manager: leaving ends it."""

    def __init__(
        self,
        version: str,
        script: str,
        space: Space,
        node: Node,
        directory: Path,
        *arguments: object,
        name: str = "",
        **environ: str,
    ) -> None:
        """node: the only one that it knows. environ: more variables for it."""
        name = name or Path(script).stem
        directory.mkdir(parents=True, exist_ok=True)
        self.program = Program(
            f"{name} with {version}",
            # Without site-packages and without the script's folder: the standard library and that client alone.
            [sys.executable, "-S", "-P", "-u", str(_PROGRAMS / script), *map(str, arguments)],
            directory / f"{name}.log",
            environ={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": str(installed(version)),
                "PYTHONDONTWRITEBYTECODE": "1",
                **space.environ(node),
                **environ,
            },
        )
        space.cluster.programs.append(self.program)

    def __enter__(self) -> "ClientProgram":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.program.close()

    def seen(self) -> list[dict[str, Any]]:
        """What it has said so far."""
        lines = self.program.said().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}\n")]

    def wait_for(self, fact: str, within_seconds: float = STARTS_SECONDS) -> Any:
        """Wait until it has said {fact: value} and return the value; the first one, when it said it more often."""

        def look() -> list[Any]:
            found = [line[fact] for line in self.seen() if fact in line]
            assert found or self.program.status in (None, 0), self.program.last_words()
            return found

        return eventually(look, within_seconds=within_seconds, what=lambda: f"{fact!r} of {self.program.last_words()}")[
            0
        ]

    def finish(self, within_seconds: float = 60.0) -> dict[str, Any]:
        """Wait for its end, which must be a success, and return all facts it said."""
        status = self.program.wait(within_seconds)
        assert status == 0, self.program.last_words()
        return {fact: value for line in self.seen() for fact, value in line.items()}
