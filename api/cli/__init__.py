"""The `runstate` command: one file a group of commands, put together here.

A command's module has `register(commands)`, which adds its parser and sets `run` to a function from the parsed
arguments to an exit status. Nothing heavy is imported before a command runs, so that `--help` answers at once and a
node watches its supervisor before it loads anything.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import NoReturn

from api.cli import bootstrap, certs, key, node, space, status, up
from api.cli.failure import EXIT_FAILED, EXIT_USAGE, CommandError


class _Parser(argparse.ArgumentParser):
    # argparse would exit with 2, which is what `runstate status` says when there is no leader.
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(EXIT_USAGE, f"{self.prog}: {message}\n")


def parser() -> argparse.ArgumentParser:
    """The whole command line; also what the reference in the documentation is generated from."""
    top = _Parser(
        prog="runstate",
        description="A self-hosted coordination cluster for agent swarms.",
        epilog="`runstate up` starts a cluster on this machine. `runstate COMMAND --help` says more about a command.",
    )
    top.add_argument("--version", action="version", version=f"runstate {_version()}")
    commands = top.add_subparsers(metavar="COMMAND", required=True)
    for module in (up, status, space, key, node, bootstrap, certs):
        module.register(commands)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit status; what went wrong is one message on standard error."""
    arguments = parser().parse_args(argv)
    run: Callable[[argparse.Namespace], int] = arguments.run
    try:
        return run(arguments)
    except CommandError as error:
        print(f"runstate: {error}", file=sys.stderr)
        return error.exit_status
    except BrokenPipeError:
        return EXIT_FAILED
    except KeyboardInterrupt:
        return 130


def _version() -> str:
    try:
        return version("runstate-cluster")
    except PackageNotFoundError:
        return "(not installed)"
