"""Images on real disks: nodes that kill themselves at each step of a save and of an install, and start again."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster import image
from cluster.draft import FILLED, FILLING, MARKED, SYNCED
from cluster.image import Image
from cluster.image_folder import DiskImages
from cluster.install import LOADED, REPLACED, SWITCHED
from cluster.journal import Journal
from statemachine.entry import decode_entry
from statemachine.machine import Machine
from tests.cluster.imaged import loaded
from tests.integration.cluster import Cluster, Node, Space
from tests.integration.load.start import Load
from tests.integration.log import ENTRY, committed_log, images_installed
from tests.integration.proof import prove
from tests.integration.test_kill import SHORT_LOG, wait_for_images
from tests.integration.waiting import eventually

pytestmark = pytest.mark.timeout(240)

STEPS_OF_AN_INSTALL = [MARKED, FILLING, FILLED, SYNCED, LOADED, SWITCHED, REPLACED]


def check_images(cluster: Cluster) -> None:
    """Each stopped node's image, with its digests, is what the log makes of the entries up to there."""
    log = committed_log(cluster)
    for node in cluster.nodes:
        folder = DiskImages(node.data / "image")
        name = folder.current()
        assert name is not None
        assert folder.names() == [name]
        journal = Journal(str(node.data / "journal"))
        assert journal.mark is None
        owner = journal.identity
        opened = Image(name, folder.open(name), owner)
        assert journal.first_index <= opened.index <= journal.last_index
        machine = Machine()
        for command, index, _ in log[: opened.index]:
            if command[0] == ENTRY:
                machine.apply(index, decode_entry(command[1:]))
        assert loaded(opened).chain == machine.chain
        assert loaded(opened).store.dump() == machine.store.dump()
        opened.close()
        journal.close()


def die(node: Node) -> None:
    eventually(lambda: not node.alive, within_seconds=30, what=f"the death of {node.id}")
    assert node.program.status == -9, node.program.last_words()


@pytest.mark.parametrize("cluster", [SHORT_LOG], indirect=True)
def test_killed_at_every_step_of_an_install_it_catches_up_and_loses_nothing(
    cluster: Cluster, space: Space, tmp_path: Path
) -> None:
    with Load(space, tmp_path / "load") as load:
        late = cluster.followers()[0]
        for point in STEPS_OF_AN_INSTALL:
            late.program.kill()
            wait_for_images(cluster.leader(), 3)
            cluster.configure(late, failpoints=[f"{point}=kill"])
            late.start()
            die(late)
            cluster.configure(late)
            cluster.restart([late])
        load.wait_for_more(60)
        requests = load.finish()
    prove(cluster, space, load.scope_id, requests)
    check_images(cluster)
    assert images_installed(cluster) >= len(STEPS_OF_AN_INSTALL) - 2


@pytest.mark.parametrize("cluster", [SHORT_LOG], indirect=True)
def test_all_nodes_killed_around_a_save_start_again_from_their_images(
    cluster: Cluster, space: Space, tmp_path: Path
) -> None:
    points = [f"{image.BEFORE_COMMIT}=kill@3", f"{image.AFTER_COMMIT}=kill@2", f"{image.RECORD}=kill@150"]
    with Load(space, tmp_path / "load") as load:
        for turn in range(3):
            for node in cluster.nodes:
                if node.alive:
                    node.program.kill()
            for place, node in enumerate(cluster.nodes):
                cluster.configure(node, failpoints=[points[(turn + place) % 3]])
                node.start()
            for node in cluster.nodes[:2]:  # the last one alone does nothing any more
                eventually(lambda: sum(not n.alive for n in cluster.nodes) >= 2, within_seconds=30, what="two deaths")
                assert node.alive or node.program.status == -9, node.program.last_words()
        for node in cluster.nodes:
            if node.alive:
                node.program.kill()
            cluster.configure(node)
        cluster.restart(cluster.nodes)
        load.wait_for_more(60)
        requests = load.finish()
    prove(cluster, space, load.scope_id, requests)
    check_images(cluster)
