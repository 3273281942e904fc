"""Which image counts is one rename; whatever else lies in the directory does not matter."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.image_folder import CURRENT_FILE, DiskImages
from cluster.image_records import ImageError


def test_the_current_image_is_what_was_switched_to_last(tmp_path: Path) -> None:
    folder = DiskImages(tmp_path / "image")
    assert folder.current() is None
    assert folder.names() == []
    for name in ("image-1", "image-2"):
        folder.open(name).close()
        folder.switch(name)
        assert folder.current() == name
    assert sorted(folder.names()) == ["image-1", "image-2"]
    folder.remove("image-1")
    assert DiskImages(tmp_path / "image").current() == "image-2"
    assert folder.names() == ["image-2"]


def test_what_is_no_image_is_left_alone(tmp_path: Path) -> None:
    folder = DiskImages(tmp_path / "image")
    for name in ("image-0", "image-x", "images-1", "lost+found"):
        (tmp_path / "image" / name).mkdir()
    assert folder.names() == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"image-7\n", "names image-7, which is gone"),
        (b"../n2/image-1\n", "is damaged: it names"),
        (b"", "is damaged: it names ''"),
        (b"\xff\xfe", "cannot be read"),
    ],
)
def test_a_current_that_leads_nowhere_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    folder = DiskImages(tmp_path / "image")
    folder.open("image-1").close()
    (tmp_path / "image" / CURRENT_FILE).write_bytes(content)
    with pytest.raises(ImageError, match=said):
        folder.current()


def test_a_disk_that_refuses_is_told_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(b"a file is in the way")
    with pytest.raises(ImageError, match="cannot be made"):
        DiskImages(tmp_path / "image")
    folder = DiskImages(tmp_path / "other")
    with pytest.raises(ImageError, match="cannot be removed: No such file"):
        folder.remove("image-3")
    (tmp_path / "other" / "image-4").write_bytes(b"")
    with pytest.raises(ImageError, match="cannot be made"):
        folder.open("image-4")
