"""One image of the state: all records as they were behind one log entry, kept up to date from behind.

The state in memory is what is read and the journal is what is durable; the image only lets the journal be short. Each
write is one synced transaction that takes the image from one log entry to a later one: after a crash it is the image of
the one or of the other. Everything here runs in the image thread, or before it has begun.

Invariants: the index never falls; the content digest and the number of records are those of the records that are there.
"""

from collections.abc import Sequence

from cluster import failpoints
from cluster.image_records import META_KEY, ImageError, ImageMeta, decode_meta, encode_meta, hash_of, seal
from cluster.journal_records import JournalIdentity
from cluster.ports import ImageFile, ImageSnapshot
from statemachine.image_state import Content, Frozen, encode_record, record_name

BEFORE_COMMIT = failpoints.declare("image.before_commit", "an image transaction is filled and about to be committed")
RECORD = failpoints.declare("image.record", "a record is about to be put into an image transaction")
AFTER_COMMIT = failpoints.declare("image.after_commit", "an image is durable, the log is not trimmed yet")


class Image:
    """An image in its file. owner: the journal that it belongs to."""

    def __init__(
        self, name: str, file: ImageFile, owner: JournalIdentity, points: failpoints.Failpoints | None = None
    ) -> None:
        """Raises ImageError when it is damaged, of another release, or somebody else's."""
        self.name = name
        self._file = file
        self._owner = owner
        self._points = points or failpoints.Failpoints()
        snapshot = file.snapshot()
        try:
            data = snapshot.meta()
            if data is None and snapshot.after(None, 1):
                raise ImageError("it has records and no description")
        finally:
            snapshot.close()
        self.meta = None if data is None else decode_meta(data)  # None: an empty one, of no entry
        if self.meta is not None and self.meta.owner != owner:
            raise ImageError(f"it belongs to {self.meta.owner}, this node is {owner}")

    @property
    def index(self) -> int:
        """Of the log entry that it ends with; 0 for an empty one."""
        return 0 if self.meta is None else self.meta.index

    def write(self, frozen: Frozen, index: int, term: int) -> ImageMeta:
        """Bring the image to the log entry `index` of this term, durably.

        frozen: the machine behind that entry, with all that changed since the entry of the image. It is used up, since
        letting go of many records at once would hold the interpreter, and so the loop, for as long.
        Raises ImageError; then it may be either image.
        """
        if index < self.index:
            raise ImageError(f"the image would go back from entry {self.index} to {index}")
        content = Content() if self.meta is None else Content(self.meta.content, self.meta.records)
        with self._file.transaction() as transaction:
            dirty = frozen.dirty
            while dirty:
                (table, key), record = dirty.popitem()
                self._points.reach(RECORD)
                name = record_name(table, key)
                if record is None:
                    old = transaction.pop(name)
                else:
                    hashed, stored = seal(name, encode_record(record))
                    old = transaction.replace(name, stored)
                    content.add(hashed)
                if old is not None:
                    content.remove(hash_of(old))
            meta = ImageMeta(self._owner, index, term, content.digest, content.records, frozen.values)
            transaction.replace(META_KEY, encode_meta(meta))
            self._points.reach(BEFORE_COMMIT)
        self.meta = meta
        self._points.reach(AFTER_COMMIT)
        return meta

    def fill(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        """Add stored records of a draft."""
        with self._file.transaction() as transaction:
            for name, stored in records:
                transaction.replace(name, stored)

    def finish(self, meta: ImageMeta) -> None:
        """A draft has all its records: describe it, and make it durable."""
        meta = ImageMeta(self._owner, meta.index, meta.term, meta.content, meta.records, meta.values)
        with self._file.transaction() as transaction:
            transaction.replace(META_KEY, encode_meta(meta))
        self._file.flush()
        self.meta = meta

    def snapshot(self) -> tuple[ImageMeta, ImageSnapshot]:
        """The image as it is now. The snapshot must be closed soon: LMDB keeps every page that it can see."""
        snapshot = self._file.snapshot()
        data = snapshot.meta()
        if data is None:
            snapshot.close()
            raise ImageError("there is no image yet")
        return decode_meta(data), snapshot

    def close(self) -> None:
        self._file.close()
