"""Certificates for tests: an authority, and for each name what it signed."""

from pathlib import Path

from cluster import authority


class Authority:
    """A certificate authority in a folder. Each certificate is put into a folder of its own, so there may be many."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made = 0
        self._authority = authority.Authority(folder)
        self.certificate = self._authority.certificate

    def sign(self, name: str, days: float = 2) -> tuple[Path, Path]:
        """The certificate whose DNS name is `name`, and its key. days: below 0 for one that has expired."""
        self._made += 1
        folder = self._folder / str(self._made)
        folder.mkdir()
        made = self._authority.sign(name, days)
        certificate, key = (path.rename(folder / path.name) for path in made)
        return certificate, key
