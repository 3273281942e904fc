"""What images cost: the loop while one is written, a node that restarts with many records, an empty one that gets them.

    python -m ops.bench.images [--records 1000000] [--dirty 20000] [--rounds 5]

The data directories are made here, with the code that nodes use, and then served by real node processes.
"""

import argparse
import asyncio
import http.client
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvloop

from api.cli.local_cluster import free_block
from cluster.collector import calm_collector
from cluster.identity import open_data_directory
from cluster.image import Image
from cluster.image_folder import DiskImages
from cluster.journal import Journal, JournalIdentity
from cluster.worker import ImageThread
from statemachine.entry import decode_entry, genesis_entry
from statemachine.image_state import Frozen
from statemachine.leases import Lease
from statemachine.machine import Machine
from statemachine.results import ONCE, Once

NODES = ("n1", "n2", "n3")
FIRST_INDEX = 10  # of the log of those that have the image; an empty node needs more than that
FAR_MS = 1 << 50
READY_SECONDS = 300.0
_BUILD = Path(__file__).resolve().parents[2] / "build"


def record(number: int, token: str = "0" * 32) -> Once:
    """A small one: a key that was run once, and its result."""
    scope = f"scp_{number % 1000:020x}"
    lease = Lease(f"{scope}.{number}.{token}", number, f"worker-{number % 50}", "", 30, 1, 30_001, 1_700_000_000_000)
    result = b'{"ok":true}'
    return Once("spc_bench", scope, f"key-{number:09d}", "DONE", lease, 1, 0, True, 3, result, None, 1, FAR_MS)


def fill(machine: Machine, numbers: Sequence[int], token: str = "0" * 32) -> None:
    """Put records of these numbers into the machine, past its operations."""
    rows = machine.store.rows(ONCE)
    for number in numbers:
        rows.put(record(number, token))
    machine.store.settle()


# ---------------------------------------------------------------------- written behind


@dataclass(frozen=True)
class Write:
    """One image: seconds until it was durable, for the freeze, and the longest that the loop waited meanwhile."""

    took_s: float
    freeze_s: float
    loop_held_s: float


async def writes(records: int, dirty: int, rounds: int) -> list[Write]:
    """Write `dirty` changed records of `records` into an image, so often, with a loop that does nothing else."""

    def end(reason: str, error: BaseException | None = None) -> None:
        raise RuntimeError(reason) from error

    with tempfile.TemporaryDirectory(prefix="bench-", dir=_BUILD) as folder:
        machine, worker = Machine(), ImageThread(end)  # type: ignore[arg-type]
        image = Image("image-1", DiskImages(Path(folder)).open("image-1"), JournalIdentity("cls_bench", "n1", 1))
        machine.freeze()
        fill(machine, range(records))
        await worker.run(lambda: image.write(machine.freeze(), 1, 1))
        calm_collector()  # as a node does
        found = []
        for index in range(2, rounds + 2):
            fill(machine, range(index % 7, records, records // dirty)[:dirty], token=f"{index:032x}")
            began = time.perf_counter()
            frozen = machine.freeze()
            freeze_s = time.perf_counter() - began
            job = asyncio.ensure_future(worker.run(lambda: image.write(frozen, index, 1)))  # noqa: B023
            held_s, seen = 0.0, time.perf_counter()
            while not job.done():
                await asyncio.sleep(0.001)
                held_s, seen = max(held_s, time.perf_counter() - seen - 0.001), time.perf_counter()
            found.append(Write(time.perf_counter() - began, freeze_s, held_s))
        worker.do(image.close)
        worker.close()
    return found


# ---------------------------------------------------------------------- nodes that start


class Prepared:
    """A cluster whose n1 and n2 have an image of so many records and nothing of the log before; n3 has nothing."""

    def __init__(self, folder: Path, records: int) -> None:
        port = free_block(7_300, 2 * len(NODES))
        assert port is not None
        self.folder = folder
        self.ports = {name: port + place for place, name in enumerate(NODES)}
        self.peers = {name: f"127.0.0.1:{port + len(NODES) + place}" for place, name in enumerate(NODES)}
        directories = {name: open_data_directory(folder / name, name) for name in NODES}
        members = {name: directory.incarnation for name, directory in directories.items()}
        genesis = genesis_entry("cls_bench", members, time.time_ns() // 1_000_000, bytes(16))
        machine = Machine()
        machine.freeze()
        machine.apply(1, decode_entry(genesis))
        fill(machine, range(records))
        frozen = machine.freeze()
        for name, directory in directories.items():
            directory.write_genesis(genesis)
            if name != "n3":
                journal = directory.open_journal()
                self._begin_log(journal)
                images = DiskImages(directory.path / "image")
                image = Image("image-1", images.open("image-1"), journal.identity)
                image.write(Frozen(frozen.values, dict(frozen.dirty)), FIRST_INDEX, 2)
                image.close()
                images.switch("image-1")
                journal.close()
            directory.close()

    @staticmethod
    def _begin_log(journal: Journal) -> None:
        journal.setCurrentTerm(2, None)
        for index in range(2, FIRST_INDEX + 1):
            journal.add(b"\x01", index, 2)
        journal.setRaftCommitIndex(FIRST_INDEX)
        journal.deleteEntriesTo(FIRST_INDEX - 1)
        journal.sync()

    def start(self, name: str) -> "subprocess.Popen[bytes]":
        options = {
            "--id": name,
            "--listen": f"127.0.0.1:{self.ports[name]}",
            "--data": str(self.folder / name),
            "--peers": ",".join(f"{peer}={address}" for peer, address in self.peers.items()),
        }
        flags = [part for option in options.items() for part in option]
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen([sys.executable, "-P", "-m", "api.cli", "node", *flags], stdout=log, stderr=log)

    def wait_ready(self, name: str) -> float:
        """Returns when, by time.perf_counter."""
        ends_at = time.monotonic() + READY_SECONDS
        while not self._ready(name):
            if time.monotonic() > ends_at:
                raise RuntimeError(f"{name} is not ready:\n{(self.folder / f'{name}.log').read_text()[-4000:]}")
            time.sleep(0.02)
        return time.perf_counter()

    def _ready(self, name: str) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[name], timeout=5)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


@contextmanager
def prepared(records: int) -> Iterator[Prepared]:
    """Made below `build/`, and removed at the end."""
    _BUILD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=_BUILD) as folder:
        yield Prepared(Path(folder), records)


@dataclass(frozen=True)
class Starts:
    """Seconds from the start of a process until it is ready. restarted: with an image. empty: gets one."""

    records: int
    restarted_s: float
    empty_s: float


def starts(records: int) -> Starts:
    """Restart one of three nodes that has an image, while the two others run, then start an empty one."""
    with prepared(records) as cluster:
        processes = {name: cluster.start(name) for name in ("n1", "n2")}
        try:
            for name in processes:
                cluster.wait_ready(name)
            empty_s = _started(cluster, processes, "n3")
            processes["n2"].kill()
            processes["n2"].wait()
            return Starts(records, _started(cluster, processes, "n2"), empty_s)
        finally:
            for process in processes.values():
                process.kill()
                process.wait()


def _started(cluster: Prepared, processes: dict[str, "subprocess.Popen[bytes]"], name: str) -> float:
    began = time.perf_counter()
    processes[name] = cluster.start(name)
    return cluster.wait_ready(name) - began


def line(found: Starts) -> str:
    return (
        f"one of three nodes restarted with {found.records:,} records: ready in {found.restarted_s:.1f} s; "
        f"an empty one: {found.empty_s:.1f} s"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="ops.bench.images", description="Measure images.")
    parser.add_argument("--records", type=int, default=1_000_000, help="of a node that starts; 0: none does")
    parser.add_argument("--dirty", type=int, default=20_000, help="changed records of one image")
    parser.add_argument("--rounds", type=int, default=5, help="images written; the median counts")
    given = parser.parse_args(arguments)
    _BUILD.mkdir(exist_ok=True)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        found = runner.run(writes(200_000, given.dirty, given.rounds))
    print(
        f"an image of {given.dirty:,} changed records: durable in {_median(found, 'took_s'):.0f} ms; on the loop "
        f"{_median(found, 'freeze_s'):.3f} ms to freeze, and waits of at most {_median(found, 'loop_held_s'):.1f} ms"
    )
    if given.records:
        print(line(starts(given.records)))
    return 0


def _median(found: Sequence[Write], what: str) -> float:
    return 1000.0 * float(statistics.median(getattr(write, what) for write in found))


if __name__ == "__main__":
    sys.exit(main())
