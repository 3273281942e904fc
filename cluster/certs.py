"""Mutual TLS between members: a certificate speaks for exactly the node whose id it names.

The certificates' authority is the cluster's own; whoever it signed is a member, and the DNS name in the certificate
(subjectAltName) is the node id. Host names play no part: a node may move to another address.
"""

import ssl
from pathlib import Path
from typing import Any, NamedTuple

_FLIGHTS_MAX = 10  # of a handshake, which has three


class CertificateError(Exception):
    """A certificate that does not prove what it must. The message names the file and says what to do."""


class Certified(NamedTuple):
    """What a verified certificate says. names: the DNS names that it speaks for. ends_at: its end in Unix seconds."""

    names: frozenset[str]
    ends_at: float


def certified(connection: "ssl.SSLObject | ssl.SSLSocket") -> Certified:
    """What the other side's verified certificate says; nothing when there is none."""
    told: Any = connection.getpeercert() or {}
    names = frozenset(value for kind, value in told.get("subjectAltName", ()) if kind == "DNS")
    return Certified(names, float(ssl.cert_time_to_seconds(told["notAfter"])) if told else 0.0)


def peer_contexts(authority: Path, certificate: Path, key: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """The contexts for accepting and for dialling, from PEM files; both want the other side's certificate.

    Raises CertificateError when a file cannot be read, or when the key is not the certificate's.
    """
    contexts = []
    for purpose in (ssl.Purpose.CLIENT_AUTH, ssl.Purpose.SERVER_AUTH):
        try:
            context = ssl.create_default_context(purpose, cafile=str(authority))
        except OSError as error:
            raise CertificateError(f"{authority} is no certificate of an authority: {_said(error)}") from error
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_cert_chain(certificate, key)
        except OSError as error:
            raise CertificateError(f"{certificate} and {key} do not belong together: {_said(error)}") from error
        contexts.append(context)
    return contexts[0], contexts[1]


def prove(server: ssl.SSLContext, client: ssl.SSLContext) -> Certified:
    """What this node's certificate says, once it has passed what the other members will ask of it.

    Both contexts are of the same files: they greet each other in memory, so an expired certificate, or one of another
    authority, is found before anybody else does. Raises CertificateError.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    dialling = client.wrap_bio(to_client, to_server)
    waiting = [dialling, server.wrap_bio(to_server, to_client, server_side=True)]
    for _ in range(_FLIGHTS_MAX):
        for end in list(waiting):
            try:
                end.do_handshake()
                waiting.remove(end)
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError as error:
                raise CertificateError(_said(error)) from error
    if waiting:
        raise CertificateError("the two ends of a connection do not come to an end with their greeting")
    return certified(dialling)


def _said(error: OSError) -> str:
    """The reason alone, without names of functions and lines of the TLS library."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).lower().replace("_", " ")
    return error.strerror or str(error)
