"""What an image of the state consists of on disk: one pair a record, and one that says what the image is.

A record stands under its name (`statemachine.image_state.record_name`) as its hash followed by its content. So a
changed record costs one hash, its old one is read from disk, and a damaged record is told apart.
"""

import zlib

import msgspec

from cluster.journal_records import JournalIdentity
from statemachine.image_state import HASH_BYTES, Values, record_hash

META_KEY = b"\x00meta"
FIRST_NAME = b"\x01"  # below the name of every record, above META_KEY

_MAGIC = b"runstate image\n"
_encode = msgspec.msgpack.Encoder().encode


class ImageError(Exception):
    """The image cannot be read, trusted or written. The message says what is wrong; the node must not go on with it."""


class ImageMeta(msgspec.Struct, frozen=True, array_like=True):
    """What an image is.

    owner: the journal that it belongs to. index, term: the log entry that it ends with. content, records: content
    digest and number of its records. values: the machine's own.
    """

    owner: JournalIdentity
    index: int
    term: int
    content: bytes
    records: int
    values: Values


_meta_decoder = msgspec.msgpack.Decoder(ImageMeta)


def encode_meta(meta: ImageMeta) -> bytes:
    content = _MAGIC + _encode(meta)
    return zlib.crc32(content).to_bytes(4, "big") + content


def decode_meta(data: bytes) -> ImageMeta:
    """Raises ImageError for what `encode_meta` did not make."""
    content = data[4:]
    if zlib.crc32(content).to_bytes(4, "big") != data[:4]:
        raise ImageError("its description is damaged: the checksum does not match")
    if not content.startswith(_MAGIC):
        raise ImageError("it is no image of this system")
    try:
        return _meta_decoder.decode(content[len(_MAGIC) :])
    except msgspec.DecodeError as error:
        raise ImageError(f"its description cannot be read ({error}): start the release that wrote it") from error


def seal(name: bytes, data: bytes) -> tuple[bytes, bytes]:
    """(hash, stored value) of a record."""
    hashed = record_hash(name, data)
    return hashed, hashed + data


def hash_of(stored: bytes) -> bytes:
    """The hash in a stored value."""
    return stored[:HASH_BYTES]


def data_of(stored: bytes) -> memoryview:
    """The record in a stored value."""
    return memoryview(stored)[HASH_BYTES:]
