"""A process that a test started: signals, its end, what it said. Ended by its id, never by its name."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_TIED = Path(__file__).with_name("tied.py")
_ENDS_SECONDS = 15.0


class Program:
    """One started program with a log file for both its outputs; it dies with the test run."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log_path: Path,
        *,
        environ: Mapping[str, str] | None = None,
        directory: Path | None = None,
        group: bool = False,
    ) -> None:
        """name: for people. group: give it a process group of its own, as a shell does."""
        self.name = name
        self.log_path = log_path
        log_path.parent.mkdir(parents=True, exist_ok=True)
        self._begins_at = log_path.stat().st_size if log_path.exists() else 0
        with log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-IS", str(_TIED), str(os.getpid()), *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=dict(os.environ if environ is None else environ),
                cwd=directory or log_path.parent,
                process_group=0 if group else None,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def status(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        return self._process.poll()

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._process.kill()
        self._process.wait(_ENDS_SECONDS)

    def pause(self) -> None:
        """SIGSTOP, and wait until it has stopped."""
        self.send(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)

    def resume(self) -> None:
        self.send(signal.SIGCONT)

    def terminate(self, within_seconds: float = _ENDS_SECONDS) -> int:
        """SIGTERM, and the exit status. Raises TimeoutExpired when it does not end in time."""
        self.send(signal.SIGTERM)
        return self._process.wait(within_seconds)

    def wait(self, within_seconds: float) -> int:
        """Its exit status. Raises TimeoutExpired when it does not end in time."""
        return self._process.wait(within_seconds)

    def close(self) -> None:
        """End it, whatever state it is in."""
        if self.alive:
            self._process.kill()
        self._process.wait(_ENDS_SECONDS)

    def said(self) -> str:
        """What this process has said; an earlier one may have written to the same file before it."""
        return self.log_path.read_bytes()[self._begins_at :].decode(errors="replace")

    def last_words(self, lines: int = 60) -> str:
        """The end of the log, also of those before it, and its state, for the report of a failed test."""
        state = "running" if self.status is None else f"ended with {self.status}"
        log = self.log_path.read_text(errors="replace").splitlines()
        return "\n".join([f"{self.name} (process {self.pid}) {state}", *log[-lines:]])
