"""Durable small files, and disks that are not local."""

from pathlib import Path

import pytest

from cluster.filesystem import make_directory, network_file_system, write_durably

MOUNTS = """\
22 28 0:20 / /proc rw,nosuid - proc proc rw
28 1 254:0 / / rw,relatime - ext4 /dev/vda rw
40 28 0:35 / /net rw - nfs4 server:/export rw
41 40 0:36 / /net/local rw - xfs /dev/vdb rw
42 28 0:37 / /with\\040space rw - cifs //server/share rw
43 28 0:38 / /twice rw - ext4 /dev/vdc rw
44 28 0:39 / /twice rw - fuse.sshfs host: rw
a line of another kernel
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/data", None),
        ("/net", "nfs4"),
        ("/net/data", "nfs4"),
        ("/network", None),
        ("/net/local/data", None),
        ("/with space/data", "cifs"),
        ("/twice/data", "fuse.sshfs"),
    ],
)
def test_a_network_file_system_is_known_by_its_mount(tmp_path: Path, path: str, kind: str | None) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    assert network_file_system(Path(path), mounts) == kind


def test_where_mounts_cannot_be_read_nobody_can_tell(tmp_path: Path) -> None:
    assert network_file_system(tmp_path, tmp_path / "none") is None


def test_this_very_disk_is_local(tmp_path: Path) -> None:
    assert network_file_system(tmp_path) is None


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    file = tmp_path / "file"
    write_durably(file, b"one")
    write_durably(file, b"two")
    assert file.read_bytes() == b"two"
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [file]


def test_directories_are_made_for_their_owner(tmp_path: Path) -> None:
    make_directory(tmp_path / "a" / "b" / "c")
    make_directory(tmp_path / "a" / "b" / "c")
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700
