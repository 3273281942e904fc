"""`runstate up`: a whole cluster on this machine, in the foreground, from one command.

It makes the directory, starts the nodes, bootstraps them once, makes a space and a key, prints how to use them, and
then watches: a node that dies is started again. Ctrl-C, SIGTERM or a closed terminal stop all nodes gracefully, a
second Ctrl-C at once. Progress goes to standard error; standard output has the `export` lines alone.
"""

import argparse
import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from api.cli.connection import DEFAULT_DIRECTORY
from api.cli.failure import EXIT_USAGE, CommandError
from api.cli.local_cluster import LocalCluster, free_block
from api.cli.local_start import prepare
from api.cli.supervisor import Program, Supervisor

if TYPE_CHECKING:
    from api.cli.commands import Commands

# A node takes twice 5 s at most to end by itself.
STOP_SECONDS = 12.0

# Nodes of a killed `up` die with it, but not in the same instant.
PORTS_SECONDS = 2.0


def register(commands: "Commands") -> None:
    up = commands.add_parser(
        "up",
        help="run a cluster on this machine",
        description="Run a cluster on this machine in the foreground. Ctrl-C stops it; the next `up` resumes it.",
    )
    up.add_argument("--nodes", type=int, default=3, metavar="N", help="1, 3, 5 or 7 (default: %(default)s)")
    up.add_argument("--data", default=DEFAULT_DIRECTORY, metavar="DIR", help="where it lives (default: %(default)s)")
    up.add_argument(
        "--port",
        type=int,
        default=7070,
        metavar="PORT",
        help="HTTP of the nodes from here on, their links on the N ports behind (default: %(default)s)",
    )
    up.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    local = LocalCluster(Path(arguments.data), arguments.nodes, arguments.port)
    try:
        _need_ports(local, arguments.port)
        _need_journals(local)
        local.write_node_files()
        return asyncio.run(_supervise(local))
    finally:
        local.close()


def _need_ports(local: LocalCluster, port: int) -> None:
    deadline = time.monotonic() + PORTS_SECONDS
    while busy := local.busy_ports():
        if time.monotonic() > deadline:
            free = free_block(port + 10, local.nodes)
            listed = ", ".join(str(number) for number in busy)
            raise CommandError(
                f"port {listed} is in use" + (f"; take others, for example --port {free}" if free else ""), EXIT_USAGE
            )
        time.sleep(0.1)


def _need_journals(local: LocalCluster) -> None:
    lost = local.lost_journals()
    if len(lost) > local.nodes // 2:
        raise CommandError(
            f"{local.directory} holds cluster {local.state.cluster_id}, but the journals of {', '.join(lost)} are "
            "gone: there is no majority that has its state. Put them back, or delete the directory to begin anew"
        )
    for name in lost:
        _say(f"{name} has lost its journal: when it has caught up, `runstate node admit {name}` makes it count again")


async def _supervise(local: LocalCluster) -> int:
    supervisor = Supervisor(
        [_program(member.id, member.config_path, member.log_path) for member in local.members], _say
    )
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, _on_signal, stop, supervisor)
    _say(f"starting {local.nodes} node{'s' * (local.nodes > 1)} in {local.directory}")
    supervisor.start()
    preparing = asyncio.create_task(prepare(local, _say))
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((preparing, stopping), return_when=asyncio.FIRST_COMPLETED)
        if not stop.is_set():
            _show(local, preparing.result())
            await stopping
        _say("stopping")
    finally:
        preparing.cancel()
        await supervisor.stop(STOP_SECONDS)
        await asyncio.gather(preparing, return_exceptions=True)
        stopping.cancel()
    _say("stopped; `runstate up` resumes it")
    return 0


def _program(name: str, config_path: Path, log_path: Path) -> Program:
    # -P: the working directory is the user's, and a folder `api` in it is not ours.
    command = (sys.executable, "-P", "-m", "api.cli", "node", "--config", str(config_path))
    return Program(name, (*command, "--supervisor", str(os.getpid())), log_path)


def _on_signal(stop: asyncio.Event, supervisor: Supervisor) -> None:
    if stop.is_set():
        supervisor.kill()
    stop.set()


def _show(local: LocalCluster, environment: dict[str, str]) -> None:
    _say(f"ready; the lines below are for another shell, `{local.environment_path}` has them too")
    for name, value in environment.items():
        print(f"export {name}={value}")
    sys.stdout.flush()
    _say("Ctrl-C stops the cluster")


def _say(line: str) -> None:
    print(f"runstate: {line}", file=sys.stderr, flush=True)
