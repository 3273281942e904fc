"""What the figures were measured on: they mean nothing without it."""

import os
import platform
import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

_SYNCS = 200


def describe(directory: Path) -> dict[str, object]:
    """Date, machine, cores, and how long the disk below this directory takes to sync 4 KiB."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memoryGiB": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "fileSystem": _file_system(directory),
        "syncMs": _sync_ms(directory),
        "loadBefore": round(os.getloadavg()[0], 2),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _file_system(directory: Path) -> str:
    best, kind = "", "unknown"
    for line in Path("/proc/mounts").read_text().splitlines():
        _, mount, name, *_ = line.split()
        inside = mount == "/" or str(directory.resolve()).startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):
            best, kind = mount, name
    return kind


def _sync_ms(directory: Path) -> float:
    took = []
    with tempfile.TemporaryFile(dir=directory) as file:
        for _ in range(_SYNCS):
            began = time.perf_counter()
            os.write(file.fileno(), bytes(4096))
            os.fdatasync(file.fileno())
            took.append(time.perf_counter() - began)
    return round(1000 * statistics.median(took), 3)
