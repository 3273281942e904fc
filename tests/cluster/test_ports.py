"""What the running node puts behind the interfaces, and what the simulation does, are the same to the core."""

import time
from typing import get_type_hints

import pytest

from cluster.image_file import LmdbFile
from cluster.image_folder import DiskImages
from cluster.journal import Journal
from cluster.ports import ImageFile, ImageFolder, JournalPort, SystemClocks, TransportPort, Worker
from cluster.transport import PeerTransport
from cluster.worker import ImageThread
from tests.simulation.disk import SimulatedJournal
from tests.simulation.images import SimulatedFile, SimulatedImages, SimulatedThread
from tests.simulation.network import SimulatedTransport


def _names(port: type) -> set[str]:
    return {name for name in vars(port) if not name.startswith("_")} | set(get_type_hints(port))


@pytest.mark.parametrize("journal", [Journal, SimulatedJournal])
def test_journals_have_what_the_core_asks_for(journal: type) -> None:
    made = set(dir(journal)) | {"dirty", "mark"}
    assert _names(JournalPort) <= made


@pytest.mark.parametrize("transport", [PeerTransport, SimulatedTransport])
def test_transports_have_what_the_core_asks_for(transport: type) -> None:
    assert _names(TransportPort) - {"on_turn", "before_send"} <= set(dir(transport))


@pytest.mark.parametrize(
    ("port", "made"),
    [
        (ImageFolder, DiskImages),
        (ImageFolder, SimulatedImages),
        (ImageFile, LmdbFile),
        (ImageFile, SimulatedFile),
        (Worker, ImageThread),
        (Worker, SimulatedThread),
    ],
)
def test_images_have_what_the_core_asks_for(port: type, made: type) -> None:
    assert _names(port) <= set(dir(made))


def test_the_clocks_of_the_machine_are_read_and_a_test_may_skew_them() -> None:
    assert abs(SystemClocks().wall_ms() - time.time() * 1000) < 1000
    assert abs(SystemClocks(60_000).wall_ms() - time.time() * 1000 - 60_000) < 1000
    assert abs(SystemClocks().monotonic() - time.monotonic()) < 1
