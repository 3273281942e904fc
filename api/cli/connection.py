"""How a command finds a cluster, its operator key and the space it works on.

They come from flags, the environment or `DIR/env`, in this order; `--data` is a flag, so a directory that was named
wins over the environment. The key of `DIR/env` is only ever sent to endpoints that stand in that same file: otherwise
one cluster's secret would go to another's address.
"""

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from api.cli.environment_file import BASE_URL, ENDPOINTS, NAME, OPERATOR_KEY, SPACE_ID, read_environment_file
from api.cli.failure import EXIT_USAGE, CommandError

DEFAULT_DIRECTORY = ".runstate"


class Connection(msgspec.Struct, frozen=True):
    """Where a cluster is, the key of its operator API and the space at hand; None is what nothing told."""

    endpoints: tuple[str, ...]
    operator_key: str | None = None
    space_id: str | None = None


def add_connection_options(parser: argparse.ArgumentParser) -> None:
    """The flags that `find_connection` reads."""
    group = parser.add_argument_group("which cluster")
    group.add_argument("--endpoints", metavar="URL,URL", help=f"its nodes [{ENDPOINTS}, {BASE_URL}]")
    group.add_argument("--operator-key-file", metavar="PATH", help=f"file with its operator key [{OPERATOR_KEY}]")
    group.add_argument(
        "--data",
        metavar="DIR",
        help=f"directory of a local cluster, whose file `{NAME}` has both (default: {DEFAULT_DIRECTORY})",
    )


def find_connection(arguments: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> Connection:
    """The connection that flags, environment and `DIR/env` give. Raises CommandError when there are no endpoints."""
    flags = {ENDPOINTS: arguments.endpoints or "", SPACE_ID: getattr(arguments, "space", None) or ""}
    if arguments.operator_key_file:
        flags[OPERATOR_KEY] = read_key_file(Path(arguments.operator_key_file))
    path = Path(arguments.data or DEFAULT_DIRECTORY) / NAME
    file = _read(path)
    if arguments.data and not file and not arguments.endpoints:
        raise CommandError(f"there is no {path}; `runstate up --data {arguments.data}` makes it", EXIT_USAGE)

    sources = [flags, file, environ] if arguments.data else [flags, environ, file]
    source = next((source for source in sources if _endpoints(source)), None)
    if source is None:
        raise CommandError(
            f"which cluster? Give --endpoints, set {ENDPOINTS}, or run this where `runstate up` was started "
            f"(there is no {path})",
            EXIT_USAGE,
        )
    endpoints = _endpoints(source)
    trusted = [flags, source, environ]
    if set(endpoints) <= set(_endpoints(file)):
        trusted.append(file)
    return Connection(
        endpoints=tuple(checked_endpoint(endpoint) for endpoint in endpoints),
        operator_key=_first(trusted, OPERATOR_KEY),
        space_id=_first(trusted, SPACE_ID),
    )


def checked_endpoint(text: str) -> str:
    """A node's URL without a slash at the end. Raises CommandError when it is none."""
    url = urlsplit(text)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise CommandError(f"{text!r} is no endpoint: it must be a URL such as http://127.0.0.1:7070", EXIT_USAGE)
    return text.rstrip("/")


def read_key_file(path: Path) -> str:
    """The key in a file, without white space around it. Raises CommandError when there is none."""
    try:
        key = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"the operator key file {path} cannot be read: {error}") from None
    if not key:
        raise CommandError(f"the operator key file {path} is empty")
    return key


def _read(path: Path) -> dict[str, str]:
    try:
        return read_environment_file(path)
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} cannot be read: {error}") from None


def _endpoints(source: Mapping[str, str]) -> list[str]:
    listed = source.get(ENDPOINTS) or source.get(BASE_URL) or ""
    return [text.strip() for text in listed.split(",") if text.strip()]


def _first(sources: list[Mapping[str, str]], name: str) -> str | None:
    return next((source[name] for source in sources if source.get(name)), None)
