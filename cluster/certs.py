"""Mutual TLS between members: a certificate speaks for exactly the node whose id it names.

The certificates' authority is the cluster's own; whoever it signed is a member, and the DNS name in the certificate
(subjectAltName) is the node id. Host names play no part: a node may move to another address.
"""

import ssl
from pathlib import Path
from typing import Any


class CertificateError(Exception):
    """A connection or a context whose certificate does not prove what it must."""


def peer_contexts(authority: Path, certificate: Path, key: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """The contexts for accepting and for dialling, from PEM files. Raises OSError (ssl.SSLError is one)."""
    contexts = []
    for purpose in (ssl.Purpose.CLIENT_AUTH, ssl.Purpose.SERVER_AUTH):
        context = ssl.create_default_context(purpose, cafile=str(authority))
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(certificate, key)
        contexts.append(context)
    return contexts[0], contexts[1]


def check_context(context: ssl.SSLContext) -> None:
    """Raise CertificateError when it would let a peer without a certificate in."""
    if context.verify_mode != ssl.CERT_REQUIRED:
        raise CertificateError("peer connections need a TLS context that requires the other side's certificate")


def certified_names(connection: "ssl.SSLObject | ssl.SSLSocket") -> frozenset[str]:
    """The DNS names that the other side's verified certificate speaks for."""
    names: Any = (connection.getpeercert() or {}).get("subjectAltName", ())
    return frozenset(value for kind, value in names if kind == "DNS")
