"""The directory of a node's images: `image-1`, `image-2`, … and `CURRENT`, which names the one that counts.

A new image is filled beside the current one and becomes current by one rename. So after a crash at any moment there is
a whole current image, and whatever else lies there is unfinished or replaced and can be removed.
"""

import os
import re
import shutil
from pathlib import Path

from cluster.filesystem import make_directory, sync_directory, write_durably
from cluster.image_file import LmdbFile
from cluster.image_records import ImageError

CURRENT_FILE = "CURRENT"
_NAME = re.compile(r"image-[1-9][0-9]{0,17}")


class DiskImages:
    """`cluster.ports.ImageFolder` on a disk. The directory is made when it is not there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._current = path / CURRENT_FILE
        try:
            make_directory(path)
        except OSError as error:
            raise ImageError(f"{path} cannot be made: {error.strerror}") from error

    def current(self) -> str | None:
        try:
            name = self._current.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise ImageError(f"{self._current} cannot be read: {error}") from error
        if not _NAME.fullmatch(name):
            raise ImageError(f"{self._current} is damaged: it names {name[:40]!r}")
        if not (self.path / name).is_dir():
            raise ImageError(f"{self._current} names {name}, which is gone")
        return name

    def names(self) -> list[str]:
        return [entry.name for entry in os.scandir(self.path) if _NAME.fullmatch(entry.name)]

    def open(self, name: str, *, draft: bool = False) -> LmdbFile:
        path = self.path / name
        try:
            make_directory(path)
            file = LmdbFile(str(path), draft=draft)
            sync_directory(path)
        except OSError as error:
            raise ImageError(f"{path} cannot be made: {error.strerror}") from error
        return file

    def switch(self, name: str) -> None:
        try:
            write_durably(self._current, name.encode() + b"\n")
        except OSError as error:
            raise ImageError(f"{self._current} cannot be written: {error.strerror}") from error

    def remove(self, name: str) -> None:
        try:
            shutil.rmtree(self.path / name)
        except OSError as error:
            raise ImageError(f"{self.path / name} cannot be removed: {error.strerror}") from error
