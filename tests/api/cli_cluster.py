"""The command run as a user runs it, beside a cluster of real nodes."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.integration.cluster import Cluster, tree_environ

COMMAND_SECONDS = 60


@dataclass(frozen=True)
class Ran:
    """status: the exit status."""

    status: int
    out: str
    err: str


def run(folder: Path, *arguments: str, environ: dict[str, str] | None = None) -> Ran:
    """One `runstate` command in that folder, without anything of the developer's own settings."""
    ran = subprocess.run(
        [sys.executable, "-m", "api.cli", *arguments],
        cwd=folder,
        env={**tree_environ(), **(environ or {})},
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )
    return Ran(ran.returncode, ran.stdout, ran.stderr)


def reach(cluster: Cluster) -> list[str]:
    """Flags that name the cluster and its operator key."""
    key = cluster.directory / "operator.key"
    return ["--endpoints", ",".join(cluster.urls), "--operator-key-file", str(key)]
