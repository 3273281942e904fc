"""What a running node stands on: its data directory, journal, images and connections, opened in the right order.

The directory is locked before anything in it is read and given up only after the journal is closed. A node whose
cluster was not begun yet waits here for its genesis.
"""

import os
from dataclasses import dataclass

from cluster.bootstrap import await_genesis
from cluster.bootstrap_frames import Answers
from cluster.config import NodeConfig
from cluster.failpoints import Failpoints
from cluster.fatal import Fatal, SyncWatch, fatal
from cluster.hello import PROTOCOL, PeerInfo
from cluster.identity import DataDirectory, open_data_directory
from cluster.image_folder import DiskImages
from cluster.image_limits import ImageLimits
from cluster.journal import FORMAT, Journal
from cluster.peer_certificates import certificates_of
from cluster.restart import ImageGround
from cluster.transport import PeerTransport
from cluster.worker import ImageThread
from statemachine.entry import FEATURE_LEVEL

IMAGE_FOLDER = "image"


@dataclass
class NodeGround:
    """Made by `open_ground`; closed once, last of all."""

    directory: DataDirectory
    journal: Journal
    images: ImageGround
    transport: PeerTransport
    sync_watch: SyncWatch

    @property
    def incarnation(self) -> int:
        return self.directory.incarnation

    def sync(self) -> float:
        """Make the journal durable, watched. Returns the seconds that it took."""
        return self.sync_watch.run(self.journal.sync)

    async def close(self) -> None:
        self.sync_watch.stop()
        await self.transport.close()
        self.images.worker.close()
        self.journal.close()
        self.directory.close()


async def open_ground(config: NodeConfig, end: Fatal = fatal) -> NodeGround:
    """Open everything; wait for genesis when there is none yet. The transport is not started.

    end: ends the node when something underneath it fails for good.
    Raises CertificateError, DataDirectoryError, JournalError and, while it waits, TransportError.
    """
    certificates = certificates_of(config)
    directory = open_data_directory(config.data, config.id)
    try:
        if not directory.has_journal:
            await await_genesis(config, directory, certificates=certificates)
        points = Failpoints(config.failpoints)
        journal = directory.open_journal(points)
        folder = DiskImages(directory.path / IMAGE_FOLDER)
    except BaseException:
        directory.close()
        raise
    me = PeerInfo(
        PROTOCOL,
        journal.identity.cluster_id,
        config.id,
        directory.incarnation,
        FORMAT,
        FEATURE_LEVEL,
        config.advertise,
        os.getpid() if config.local else None,
    )
    transport = PeerTransport(
        me,
        config.peers,
        listen=config.peer_listen or config.peers[config.id],
        heartbeat_ms=config.heartbeat_ms,
        certificates=certificates,
        allow_plaintext=config.allow_plaintext_peers,
        answer_stranger=Answers(directory, config.peers.keys(), journal.genesis),
        end=end,
    )
    limits = ImageLimits(kept_entries=config.log_kept_entries)
    images = ImageGround(folder, ImageThread(end), journal.identity, limits, points)
    sync_watch = SyncWatch(end)
    sync_watch.start()
    return NodeGround(directory, journal, images, transport, sync_watch)
