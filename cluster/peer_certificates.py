"""This node's certificate for the other members, as it is on the disk now: replaced files are taken up while it runs.

Invariant: what is in use was read whole, was signed by its authority, was valid when it was read and speaks for this
node. Files that do not fulfil that are complained of and change nothing, so a half-done replacement breaks no cluster.
Connections that exist go on with what they began with; new ones use what is in use now.
"""

import logging
import ssl
import time
from collections.abc import Callable
from pathlib import Path

from cluster.certs import CertificateError, peer_contexts, prove
from cluster.config import NodeConfig

LOOK_SECONDS = 2.0

log = logging.getLogger(__name__)

_Stamp = tuple[tuple[int, int, int] | None, ...]


class PeerCertificates:
    """server, client: the contexts for accepting and for dialling. ends_at: the certificate's end in Unix seconds."""

    server: ssl.SSLContext
    client: ssl.SSLContext
    ends_at: float

    def __init__(self, node_id: str, authority: Path, certificate: Path, key: Path) -> None:
        """Raises CertificateError when the files cannot be used."""
        self._node_id = node_id
        self._files = (authority, certificate, key)
        self._stamp = self._looked = self._complained = self._stamp_now()
        self._read()

    def look(self) -> bool:
        """Take up files that have changed. Returns whether the contexts are new.

        Files that cannot be used are complained of once they have stood like that from one look to the next: they are
        replaced one after the other, and between two of them they do not fit.
        """
        stamp, before = self._stamp_now(), self._looked
        self._looked = stamp
        if stamp == self._stamp:
            return False
        try:
            self._read()
        except CertificateError as error:
            if stamp == before and stamp != self._complained:
                self._complained = stamp
                log.error("the new certificates are not used, the old ones stay: %s", error)
            return False
        self._stamp = stamp
        log.info("new certificates are in use; this node's ends on %s", _day(self.ends_at))
        return True

    def _read(self) -> None:
        authority, certificate, key = self._files
        server, client = peer_contexts(authority, certificate, key)
        try:
            names, ends_at = prove(server, client)
        except CertificateError as error:
            raise CertificateError(
                f"{certificate} would not be accepted by the other members, who ask for the authority of {authority}: "
                f"{error}; make another one with `runstate certs {self._node_id}`"
            ) from error
        if self._node_id not in names:
            raise CertificateError(
                f"{certificate} speaks for {', '.join(sorted(names)) or 'nobody'}, but this node is {self._node_id}: "
                "give it its own"
            )
        self.server, self.client, self.ends_at = server, client, ends_at

    def _stamp_now(self) -> _Stamp:
        """What tells replaced files from the ones before: also when a link was turned to another file."""
        stamp: list[tuple[int, int, int] | None] = []
        for path in self._files:
            try:
                found = path.stat()
            except OSError:
                stamp.append(None)
            else:
                stamp.append((found.st_ino, found.st_mtime_ns, found.st_size))
        return tuple(stamp)


def certificates_of(config: NodeConfig) -> PeerCertificates | None:
    """Those that the configuration names, None without TLS. Raises CertificateError."""
    if config.tls_ca is None or config.tls_certificate is None or config.tls_key is None:
        return None
    return PeerCertificates(config.id, config.tls_ca, config.tls_certificate, config.tls_key)


def _day(at: float, gmtime: Callable[[float], time.struct_time] = time.gmtime) -> str:
    return time.strftime("%Y-%m-%d", gmtime(at))
