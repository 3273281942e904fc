"""What a data directory asks of the file system: writes that are there after a power loss, and a local disk."""

import os
from pathlib import Path

# They acknowledge a sync, or hold a lock, on other terms than a local disk does.
NETWORK_FILE_SYSTEMS = frozenset(
    ("afs", "beegfs", "ceph", "cifs", "fuse.s3fs", "fuse.sshfs", "glusterfs", "lustre", "nfs", "nfs4", "smb3", "smbfs")
)
_MOUNTS = Path("/proc/self/mountinfo")


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable: a new file is not, by its own sync alone."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_durably(path: Path, content: bytes) -> None:
    """Replace a file: after a crash at any moment it is the old one or the new one."""
    draft = path.with_name(path.name + ".new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
    sync_directory(path.parent)


def make_directory(path: Path) -> None:
    """Make a directory and its missing parents, durably, for its owner alone."""
    if path.is_dir():
        return
    if not path.parent.is_dir():
        make_directory(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)
    sync_directory(path.parent)


def network_file_system(path: Path, mounts: Path = _MOUNTS) -> str | None:
    """The type of the network file system that holds `path`; None for a local one, or where nobody can tell."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    resolved = path.resolve()
    best, kind = -1, ""
    for line in lines:
        fields, _, rest = line.partition(" - ")
        words = fields.split()
        if len(words) < 5 or not rest:
            continue
        mounted = Path(words[4].replace("\\040", " "))
        # The last of several mounts on one place is the one that is seen.
        if resolved.is_relative_to(mounted) and len(mounted.parts) >= best:
            best, kind = len(mounted.parts), rest.split()[0]
    return kind if kind in NETWORK_FILE_SYSTEMS else None
