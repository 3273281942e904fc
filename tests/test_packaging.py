"""The wheel, built from this tree and installed where nothing else of it is."""

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.integration.blocks import PortBlock
from tests.integration.processes import Program
from tests.integration.waiting import eventually

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("statemachine", "cluster", "api")
NEEDS_AN_EXTRA = {"cluster.authority"}  # `certs`, which nothing that runs needs

# Nobody runs these; they explain the source to whoever reads it.
NOT_SHIPPED = {".md", ".pyc"}
NOT_SHIPPED_NAMES = {"ruff.toml"}

# One process runs them all, so that the wheel is built and installed once.
pytestmark = [pytest.mark.packaging, pytest.mark.timeout(600), pytest.mark.xdist_group("packaging")]


def environ() -> dict[str, str]:
    """Nothing that leads back to the tree."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "RUNSTATE"))}


def run(command: Sequence[str | Path], directory: Path) -> str:
    """Run it outside the tree, and return what it printed."""
    ran = subprocess.run([str(word) for word in command], cwd=directory, env=environ(), capture_output=True, text=True)
    assert ran.returncode == 0, f"{command}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout


def shipped(package: Path) -> set[str]:
    return {
        str(path.relative_to(package.parent))
        for path in package.rglob("*")
        if path.is_file()
        and path.suffix not in NOT_SHIPPED
        and path.name not in NOT_SHIPPED_NAMES
        # Caches of tools.
        and not any(part.startswith(".") for part in path.relative_to(package).parts)
    }


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # From a copy: a build leaves folders behind, and a later one would take stale files from them.
    source = tmp_path_factory.mktemp("source")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    built = tmp_path_factory.mktemp("built")
    run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", built, source], built)
    (wheel,) = built.glob("runstate_cluster-*.whl")
    return wheel


@pytest.fixture(scope="module")
def binaries(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of a fresh environment with the wheel and what it depends on."""
    environment = tmp_path_factory.mktemp("environment") / "venv"
    run([sys.executable, "-m", "venv", environment], environment.parent)
    run([environment / "bin" / "python", "-m", "pip", "install", "--quiet", wheel], environment.parent)
    return environment / "bin"


def test_the_wheel_has_every_file_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    expected = set().union(*(shipped(ROOT / package) for package in PACKAGES))
    assert names == expected
    assert {f"{package}/py.typed" for package in PACKAGES} <= names


def test_the_installed_command_runs_outside_the_tree(binaries: Path, tmp_path: Path) -> None:
    assert "usage: runstate" in run([binaries / "runstate", "--help"], tmp_path)
    assert run([binaries / "runstate", "--version"], tmp_path).startswith("runstate 0.1.0")


def test_every_installed_module_can_be_imported(binaries: Path, tmp_path: Path) -> None:
    modules = sorted(
        {
            str(path.relative_to(ROOT).with_suffix("")).replace("/", ".")
            for package in PACKAGES
            for path in (ROOT / package).rglob("*.py")
            if path.stem not in ("__init__", "__main__")
        }
        - NEEDS_AN_EXTRA
    )
    code = f"import importlib, api\nfor name in {modules!r}: importlib.import_module(name)\nprint(api.__file__)"
    where = run([binaries / "python", "-P", "-c", code], tmp_path)
    assert not where.startswith(str(ROOT))


def test_a_cluster_runs_from_the_installed_command(binaries: Path, tmp_path: Path) -> None:
    with PortBlock() as block:
        command = [str(binaries / "runstate"), "up", "--nodes", "1", "--port", str(block.ports[0])]
        up = Program("up", command, tmp_path / "up.log", environ=environ(), directory=tmp_path)
        try:
            eventually(lambda: "Ctrl-C stops" in up.said(), within_seconds=60, what=up.last_words)
            status = [binaries / "runstate", "status", "--data", tmp_path / ".runstate"]
            assert "leader" in run(status, tmp_path)
            assert up.terminate() == 0, up.last_words()
        finally:
            up.close()
