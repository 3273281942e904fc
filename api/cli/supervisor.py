"""Keeps child processes running: starts them, says why one died, starts it again, stops them all.

A child stays in the process group of its supervisor, so that the terminal's signals and `kill -- -PGID` reach all.
Its output goes to a file of its own, not through a pipe: it can neither block on us nor lose its last words with us.

Invariants: at most one process a program; after `stop` returned none is left.
"""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 15.0
# One that ran this long starts with the first pause again.
STEADY_SECONDS = 30.0
# Larger logs are set aside when their program is started.
LOG_BYTES = 16 << 20


class Program(msgspec.Struct, frozen=True):
    """What to run: a name for people, the command line, and the file that gets its output."""

    name: str
    command: Sequence[str]
    log_path: Path


class Supervisor:
    """Runs programs until it is told to stop. `report` gets a line for people whenever something happens."""

    def __init__(self, programs: Sequence[Program], report: Callable[[str], None]) -> None:
        self._programs = programs
        self._report = report
        self._stopping = asyncio.Event()
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start all programs and keep them running. Must be called on the loop, in the main thread: Linux ties a child
        to the thread that made it."""
        self._tasks = [asyncio.create_task(self._keep_running(program)) for program in self._programs]

    def pids(self) -> dict[str, int]:
        """The process ids of those that run now, by name."""
        return {name: process.pid for name, process in self._processes.items()}

    async def stop(self, bound_seconds: float) -> None:
        """Ask all to end, wait, and kill those that did not within the bound. Returns when none is left."""
        self._stopping.set()
        for process in self._processes.values():
            _signal(process, signal.SIGTERM)
        if not self._tasks:
            return
        _, pending = await asyncio.wait(self._tasks, timeout=bound_seconds)
        if pending:
            self._report(f"{', '.join(sorted(self._processes))} did not stop within {bound_seconds:g} s: killing")
            self.kill()
        await asyncio.gather(*self._tasks)

    def kill(self) -> None:
        """End all at once."""
        self._stopping.set()
        for process in self._processes.values():
            _signal(process, signal.SIGKILL)

    async def _keep_running(self, program: Program) -> None:
        pause = FIRST_PAUSE_SECONDS
        while not self._stopping.is_set():
            began = time.monotonic()
            ended = await self._run_once(program)
            if self._stopping.is_set():
                return
            if time.monotonic() - began >= STEADY_SECONDS:
                pause = FIRST_PAUSE_SECONDS
            self._report(f"{program.name} died: {ended}; starting it again in {pause:g} s")
            try:
                await asyncio.wait_for(self._stopping.wait(), pause)
            except TimeoutError:
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    async def _run_once(self, program: Program) -> str:
        """Run it to its end and say how it ended."""
        try:
            _set_aside(program.log_path)
            with program.log_path.open("ab") as log:
                earlier_bytes = log.tell()
                process = await asyncio.create_subprocess_exec(
                    *program.command, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log
                )
        except OSError as error:
            return f"it could not be started: {error}"
        self._processes[program.name] = process
        if self._stopping.is_set():
            _signal(process, signal.SIGTERM)
        try:
            status = await process.wait()
        finally:
            del self._processes[program.name]
        said = last_words(program.log_path, earlier_bytes)
        return describe_exit(status) + (f"; its last words: {said}" if said else "; it said nothing")


def describe_exit(status: int) -> str:
    """In words, the exit status as `subprocess` gives it: negative for a signal."""
    if status >= 0:
        return f"exit status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = "an unknown signal"
    return f"{name} (signal {-status})"


def last_words(path: Path, earlier_bytes: int = 0) -> str:
    """What a process said last, from its log behind `earlier_bytes`: the last critical line, which says why a node
    stopped and may have a traceback behind it, or else the last line that says something; at most 500 characters."""
    try:
        with path.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(earlier_bytes, end - 32_768))
            lines = [line.strip() for line in file.read().decode("utf-8", "replace").split("\n")]
    except OSError:
        return ""
    critical = [line for line in lines if " CRITICAL " in line]
    spoken = critical or [line for line in lines if line]
    return spoken[-1][-500:] if spoken else ""


def _set_aside(path: Path) -> None:
    if path.exists() and path.stat().st_size > LOG_BYTES:
        os.replace(path, path.with_name(path.name + ".1"))


def _signal(process: asyncio.subprocess.Process, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(number)
