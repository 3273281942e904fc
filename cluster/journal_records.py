"""What the journal writes: keys, log records with their checksums, identity and state. Pure functions of bytes.

A log record is `checksum | owner | term | command` under the key `e` + index. The checksum covers index, term and
command and is seeded with the owner, a short mark of the journal's identity. So a record that was damaged, that stands
at another index, or that comes from another journal never decodes.
"""

import struct
import zlib
from typing import TypeVar

import msgspec

FORMAT = 1

# PySyncObj reads the first byte of a command as its type. Ours has one type for ever (its own number commands by
# their place in a sorted list, which changes with the code).
ENTRY_COMMAND = b"\x20"

LogEntry = tuple[bytes, int, int]  # command, index, term; the order is PySyncObj's

IDENTITY_KEY = b"\x00identity"
STATE_KEY = b"\x00state"
GENESIS_KEY = b"\x00genesis"
MARK_KEY = b"\x00install"
_ENTRY_PREFIX = b"e"  # above the others, so that new entries are always appended at the end of the tree

_MAGIC = b"runstate journal\n"
_CHECKSUM = struct.Struct(">I")
_HEADER = struct.Struct(">IIQ")  # checksum, owner, term
_POSITION = struct.Struct(">QQ")  # index, term
HEADER_BYTES = _HEADER.size

START_EMPTY = (
    "The other members still have what it acknowledged: move the data directory away, start this node with an empty "
    "one and admit its new incarnation. Never run a node on a journal that was edited or pieced together."
)


class JournalError(Exception):
    """The journal cannot be trusted or written. The message says what is wrong and what to do. The node must end."""


class JournalIdentity(msgspec.Struct, frozen=True, array_like=True):
    """Whose journal this is. Written with its first transaction and equal to the directory's and every hello's."""

    cluster_id: str
    node_id: str
    incarnation: int
    format: int = FORMAT
    feature_level: int = 1

    @property
    def owner(self) -> int:
        """The mark in every record: 32 bits of who wrote it."""
        return zlib.crc32(f"{self.cluster_id}/{self.node_id}/{self.incarnation}".encode())


class JournalState(msgspec.Struct, frozen=True, array_like=True):
    """What Raft keeps beside the log, and the log's ends. Rewritten by every transaction.

    commit_index is a hint: known to be committed, maybe not the newest. An empty log has first_index 1, last_index 0.
    """

    term: int = 0
    vote: str | None = None
    commit_index: int = 0
    first_index: int = 1
    last_index: int = 0
    last_term: int = 0


class InstallMark(msgspec.Struct, frozen=True, array_like=True):
    """An image from the leader is being installed: which one, and what the log begins with once it is.

    index, term, command: the entry that the image ends with. content: the content digest of the image. folder: the
    name of the directory that it is put into.
    """

    index: int
    term: int
    command: bytes
    content: bytes
    folder: str


_Meta = TypeVar("_Meta", JournalIdentity, JournalState, InstallMark)
_identity_decoder = msgspec.msgpack.Decoder(JournalIdentity)
_state_decoder = msgspec.msgpack.Decoder(JournalState)
_mark_decoder = msgspec.msgpack.Decoder(InstallMark)
_encode = msgspec.msgpack.Encoder().encode


def entry_key(index: int) -> bytes:
    return _ENTRY_PREFIX + index.to_bytes(8, "big")


def key_index(key: bytes | memoryview) -> int:
    """The index in the key of a log record."""
    if len(key) != 9 or bytes(key[:1]) != _ENTRY_PREFIX:
        raise JournalError(f"the journal holds a record under the unknown key {bytes(key)!r}. {START_EMPTY}")
    return int.from_bytes(key[1:], "big")


def encode_record(entry: LogEntry, owner: int) -> bytes:
    command, index, term = entry
    checksum = zlib.crc32(command, zlib.crc32(_POSITION.pack(index, term), owner))
    return _HEADER.pack(checksum, owner, term) + command


def decode_record(index: int, record: bytes | memoryview, owner: int) -> LogEntry:
    """The entry at this index. Raises JournalError when the record is not what encode_record made for it."""
    if len(record) < HEADER_BYTES:
        raise JournalError(f"log record {index} is cut short: {len(record)} bytes. {START_EMPTY}")
    checksum, writer, term = _HEADER.unpack_from(record)
    command = bytes(record[HEADER_BYTES:])
    if zlib.crc32(command, zlib.crc32(_POSITION.pack(index, term), writer)) != checksum:
        raise JournalError(f"log record {index} is damaged: its checksum does not match. {START_EMPTY}")
    if writer != owner:
        raise JournalError(
            f"log record {index} was written by another journal: two were mixed into one file. {START_EMPTY}"
        )
    return command, index, term


def _seal(content: bytes) -> bytes:
    return _CHECKSUM.pack(zlib.crc32(content)) + content


def _unseal(record: bytes, what: str) -> bytes:
    content = record[_CHECKSUM.size :]
    if len(record) < _CHECKSUM.size or _CHECKSUM.unpack_from(record)[0] != zlib.crc32(content):
        raise JournalError(f"the journal's {what} is damaged: its checksum does not match. {START_EMPTY}")
    return content


def encode_identity(identity: JournalIdentity) -> bytes:
    return _seal(_MAGIC + _encode(identity))


def decode_identity(record: bytes) -> JournalIdentity:
    content = _unseal(record, "identity")
    if not content.startswith(_MAGIC):
        raise JournalError("the file is no runstate journal: check the `data` option, this directory is another's.")
    identity = _decode(content[len(_MAGIC) :], _identity_decoder, "identity")
    if identity.format != FORMAT:
        raise JournalError(
            f"the journal has format {identity.format}, this release reads {FORMAT}: start the release that wrote it."
        )
    return identity


def encode_state(state: JournalState) -> bytes:
    return _seal(_encode(state))


def decode_state(record: bytes) -> JournalState:
    return _decode(_unseal(record, "state"), _state_decoder, "state")


def encode_mark(mark: InstallMark) -> bytes:
    return _seal(_encode(mark))


def decode_mark(record: bytes) -> InstallMark:
    return _decode(_unseal(record, "install mark"), _mark_decoder, "install mark")


def _decode(content: bytes, decoder: "msgspec.msgpack.Decoder[_Meta]", what: str) -> _Meta:
    try:
        return decoder.decode(content)
    except msgspec.DecodeError as error:
        raise JournalError(
            f"the journal's {what} cannot be read ({error}): start the release that wrote it."
        ) from error


def encode_genesis(entry: bytes) -> bytes:
    return _seal(entry)


def decode_genesis(record: bytes) -> bytes:
    return _unseal(record, "genesis")
