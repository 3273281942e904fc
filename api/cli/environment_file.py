"""`DIR/env`: how programs and commands reach the local cluster of a directory.

Lines of `NAME=value` that a shell can source and a container runtime can read as an env file. It holds secrets: it is
only ever readable by its owner, and it is replaced as a whole, so that a reader never sees half of it.
"""

import os
from collections.abc import Mapping
from pathlib import Path

BASE_URL = "RUNSTATE_BASE_URL"
ENDPOINTS = "RUNSTATE_ENDPOINTS"
API_KEY = "RUNSTATE_API_KEY"
SPACE_ID = "RUNSTATE_SPACE_ID"
OPERATOR_KEY = "RUNSTATE_OPERATOR_KEY"

NAME = "env"


def read_environment_file(path: Path) -> dict[str, str]:
    """The variables of the file; empty when there is none. Raises OSError when it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    values = {}
    for line in text.splitlines():
        name, separator, value = line.strip().removeprefix("export ").partition("=")
        if separator and not name.startswith("#"):
            values[name.strip()] = value.strip().strip("\"'")
    return values


def write_environment_file(path: Path, values: Mapping[str, str]) -> None:
    """Replace the file. The values are URLs, ids and keys: nothing in them needs quoting."""
    write_private(path, "".join(f"{name}={value}\n" for name, value in values.items()))


def write_private(path: Path, text: str) -> None:
    """Replace a file by one that only its owner can read, durably and as a whole."""
    new = path.with_name(path.name + ".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)
