"""Certificates for tests, made by the openssl command: an authority, and for each name what it signed."""

import shutil
import subprocess
from pathlib import Path

import pytest


class Authority:
    """A certificate authority in a folder."""

    def __init__(self, folder: Path) -> None:
        if shutil.which("openssl") is None:
            pytest.skip("the openssl command is not installed")
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.certificate = folder / "ca.pem"
        self._key = folder / "ca.key"
        self._openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"),
            *("-subj", "/CN=authority", "-keyout", self._key, "-out", self.certificate),
            *("-addext", "keyUsage=critical,keyCertSign"),
        )

    def sign(self, name: str) -> tuple[Path, Path]:
        """The certificate whose DNS name is `name`, and its key."""
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        self._openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"),
            *("-subj", "/CN=node", "-CA", self.certificate, "-CAkey", self._key),
            *("-addext", f"subjectAltName=DNS:{name}", "-addext", "basicConstraints=critical,CA:FALSE"),
            *("-keyout", key, "-out", certificate),
        )
        return certificate, key

    def _openssl(self, *arguments: str | Path) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)
