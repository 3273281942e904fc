"""The cluster's own certificate authority: makes it in a folder, and signs one certificate a node.

What it makes is what `cluster.certs` asks for: the node id as the DNS name, good for both ends of a connection. Files
are for their owner alone, and none is ever replaced: a key that something runs with must not vanish by a command that
was typed twice. Needs the package `cryptography`, which nothing that runs does.
"""

import datetime
import os
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from cluster.filesystem import make_directory, sync_directory

NAME = "ca"
AUTHORITY_DAYS = 3650
# For members whose clocks are behind; a certificate that was made a moment ago is no reason to be turned away.
_EARLIER = datetime.timedelta(hours=1)

_USAGES = {"content_commitment", "crl_sign", "data_encipherment", "decipher_only", "digital_signature"}
_USAGES |= {"encipher_only", "key_agreement", "key_cert_sign", "key_encipherment"}


class AuthorityError(Exception):
    """Nothing was signed. The message says why and what to do."""


class Authority:
    """A folder with `ca.pem` and `ca.key`; the certificates that it signs are put beside them."""

    def __init__(self, folder: Path) -> None:
        """Open the folder, making it and the authority when there is none. Raises AuthorityError."""
        self.folder = folder
        self.certificate, self.key = folder / f"{NAME}.pem", folder / f"{NAME}.key"
        self.is_new = not self.certificate.exists() and not self.key.exists()
        try:
            if self.is_new:
                make_directory(folder)
                self._make()
            self._own = x509.load_pem_x509_certificate(self.certificate.read_bytes())
            signing = serialization.load_pem_private_key(self.key.read_bytes(), None)
        except (OSError, ValueError, TypeError) as error:
            raise AuthorityError(f"the authority in {folder} cannot be used: {error}") from error
        if not isinstance(signing, ec.EllipticCurvePrivateKey) or signing.public_key() != self._own.public_key():
            raise AuthorityError(f"{self.key} is not the key of {self.certificate}: put back what belongs together")
        self._signing = signing

    def _make(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "runstate cluster authority")])
        draft = _draft(name, name, key, datetime.timedelta(days=AUTHORITY_DAYS))
        draft = draft.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        draft = draft.add_extension(_usage("key_cert_sign", "crl_sign"), critical=True)
        _write(self.folder, NAME, key, draft.sign(key, hashes.SHA256()))

    def sign(self, node_id: str, days: float) -> tuple[Path, Path]:
        """Make a certificate that speaks for this node, and its key; their paths.

        days: from now on, at most to the authority's own end. Raises AuthorityError when there is one already.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, node_id)])
        left = self._own.not_valid_after_utc - datetime.datetime.now(datetime.UTC)
        draft = _draft(name, self._own.subject, key, min(datetime.timedelta(days=days), left))
        draft = draft.add_extension(x509.SubjectAlternativeName([x509.DNSName(node_id)]), critical=False)
        draft = draft.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        draft = draft.add_extension(_usage("digital_signature"), critical=True)
        purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        draft = draft.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._signing.public_key())
        draft = draft.add_extension(issuer, critical=False)
        return _write(self.folder, node_id, key, draft.sign(self._signing, hashes.SHA256()))


def _draft(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, lasts: datetime.timedelta
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, now + lasts) - _EARLIER)
        .not_valid_after(now + lasts)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*allowed: str) -> x509.KeyUsage:
    return x509.KeyUsage(**{usage: usage in allowed for usage in _USAGES})


def _write(
    folder: Path, name: str, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate
) -> tuple[Path, Path]:
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    paths = folder / f"{name}.pem", folder / f"{name}.key"
    for path in paths:
        if path.exists():
            raise AuthorityError(f"{path} is there already, and no certificate or key is ever replaced: move it away")
    try:
        for path, content in zip(paths, (certificate.public_bytes(pem), private), strict=True):
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        sync_directory(folder)
    except OSError as error:
        raise AuthorityError(f"{folder} cannot be written: {error.strerror}") from error
    return paths
