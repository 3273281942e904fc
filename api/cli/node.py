"""`runstate node`: one node of a cluster in the foreground. Composes replication and HTTP; the rest is theirs.

The flags are those of the declaration in `cluster.config`. SIGTERM and SIGINT stop it gracefully: it takes no new
requests, answers what it has, hands leadership over and ends; a second one ends it at once.
"""

import argparse
import asyncio
import logging
import os
import signal
from collections.abc import Coroutine, Iterable
from typing import TYPE_CHECKING, Any, get_origin

from api.cli import admit
from api.cli.failure import EXIT_FAILED, EXIT_USAGE, CommandError
from api.cli.logs import log_to_stderr
from api.cli.parent import die_with
from cluster.config import CONFIG_FILE_VARIABLE, OPTIONS, ConfigError, NodeConfig, Option, load

if TYPE_CHECKING:
    from api.cli.commands import Commands

# For requests under way, and again for the hand-over: together less than service managers allow before they kill.
DRAIN_SECONDS = 5.0

_log = logging.getLogger("runstate.node")


def register(commands: "Commands") -> None:
    node = commands.add_parser("node", help="run one node in the foreground")
    add_node_options(node)
    node.add_argument(
        "--supervisor",
        type=int,
        metavar="PID",
        help="the process that started this one: the node dies with it and leaves Ctrl-C to it",
    )
    node.set_defaults(run=_run)
    admit.register(node.add_subparsers(metavar="ACTION", required=False))


def add_node_options(parser: argparse.ArgumentParser) -> None:
    """The flags that `node_config` reads: `--config` and one for every declared option."""
    parser.add_argument("--config", metavar="PATH", help=f"TOML file with the options below [{CONFIG_FILE_VARIABLE}]")
    group = parser.add_argument_group("options of a node", "a flag wins over its variable, the variable over the file")
    for option in OPTIONS.values():
        _add(group, option)


def node_config(arguments: argparse.Namespace) -> NodeConfig:
    """The checked configuration that flags, environment and file give. Raises CommandError with all that is wrong."""
    try:
        return load(arguments.config, os.environ, {name: getattr(arguments, name) for name in OPTIONS})
    except ConfigError as error:
        raise CommandError(
            "the node's options are not right:\n  " + str(error).replace("\n", "\n  "), EXIT_USAGE
        ) from None


def _add(group: "argparse._ArgumentGroup", option: Option) -> None:
    said = f"{option.description} [{option.variable}]"
    if option.type is bool:
        group.add_argument(option.flag, dest=option.name, action=argparse.BooleanOptionalAction, help=said)
        return
    kind = get_origin(option.type) or option.type
    shown = {int: "NUMBER", dict: "ID=ADDRESS,…", list: "LIST", tuple: "LOW,HIGH"}.get(kind, "TEXT")
    group.add_argument(option.flag, dest=option.name, metavar=shown, help=said)


def _run(arguments: argparse.Namespace) -> int:
    signals = [signal.SIGTERM, signal.SIGINT]
    # First of all, while nothing is loaded: whoever started us may be killed at any moment.
    if arguments.supervisor is not None:
        if not die_with(arguments.supervisor):
            return EXIT_FAILED
        signals.remove(signal.SIGINT)
        for left_to_supervisor in (signal.SIGINT, signal.SIGHUP):
            signal.signal(left_to_supervisor, signal.SIG_IGN)
    config = node_config(arguments)
    log_to_stderr(config.log_level)
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(config, signals))


async def _serve(config: NodeConfig, signals: Iterable[signal.Signals]) -> int:
    from api.app import serve_http
    from cluster.certs import CertificateError
    from cluster.collector import calm_collector
    from cluster.identity import DataDirectoryError
    from cluster.image_records import ImageError
    from cluster.journal import JournalError
    from cluster.node import Replica
    from cluster.peer_addresses import TransportError

    stop = asyncio.Event()
    for number in signals:
        asyncio.get_running_loop().add_signal_handler(number, _on_signal, number, stop)
    replica = Replica(config)
    try:
        server = await serve_http(replica, config)
    except OSError as error:
        _log.critical("clients cannot be served on %s: %s", config.listen, error.strerror)
        return EXIT_FAILED
    calm_collector()  # before the image is loaded: a million new objects would bring many full collections
    try:
        # Before its genesis a node waits for as long as it takes, and must stop when told to all the same.
        if await _unless(stop, replica.start()):
            _log.info("node %s is reached at %s", config.id, config.advertise)
            await stop.wait()
    except (CertificateError, DataDirectoryError, ImageError, JournalError, TransportError) as error:
        _log.critical("this node cannot start: %s", error)
        return EXIT_FAILED
    finally:
        await server.stop(DRAIN_SECONDS)
        await replica.stop(DRAIN_SECONDS)
    _log.info("node %s stopped", config.id)
    return 0


async def _unless(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Do the work unless told to stop first; whether it was done. What it raises is raised."""
    working, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
        return working.done()
    finally:
        for task in (working, stopping):
            task.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)


def _on_signal(number: signal.Signals, stop: asyncio.Event) -> None:
    if stop.is_set():
        _log.warning("%s again: ending at once", number.name)
        os._exit(EXIT_FAILED)
    _log.info("%s: stopping", number.name)
    stop.set()
