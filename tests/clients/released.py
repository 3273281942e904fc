"""The released clients, each installed once into a folder of its own beside the environment.

They are never imported here: a program that uses one is a process of its own, without site-packages, so that neither
our packages nor another release can be mixed in.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

VERSIONS = ("0.1.1", "0.2.0", "0.3.0")

_PINS = Path(__file__).with_name("released.txt")
_INSTALL_SECONDS = 300


def installed(version: str) -> Path:
    """The folder to put on PYTHONPATH for that release. Installs it when it is not there; safe to call at once from
    several processes. Raises RuntimeError with what pip said."""
    assert version in VERSIONS, version
    root = Path(sys.prefix) / "released-clients"
    root.mkdir(exist_ok=True)
    target = root / f"{version}-{_fingerprint()}"
    with (root / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            _install(version, target)
    return target


def _fingerprint() -> str:
    """Another Python or other pins are another folder."""
    digest = hashlib.sha256(_PINS.read_bytes()).hexdigest()
    return f"{sys.version_info.major}.{sys.version_info.minor}-{digest[:12]}"


def _install(version: str, target: Path) -> None:
    half = target.with_name(target.name + ".half")
    shutil.rmtree(half, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "--target", str(half)]
    command += ["--only-binary=:all:", "--no-deps", "--requirement", str(_PINS), f"runstate-sdk=={version}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False)
    if done.returncode:
        raise RuntimeError(f"pip could not install runstate-sdk {version}:\n{done.stdout}{done.stderr}")
    os.rename(half, target)
