"""The encoding of what goes through the log: an entry, and the operations inside it.

An entry is everything that waited at the leader in one turn: `[format, lease_now_ms, wall_now_ms, entropy, operations,
origins]`. Each operation is encoded by itself when its request arrives, so that the leader only joins byte strings.
Origins say which process proposed each operation; the machine never looks at them, the proposing node settles its
waiting callers by them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec

FORMAT = 1
FEATURE_LEVEL = 1
OPERATOR = b"operator"  # the actor of a request that carried the operator key
SYSTEM = b"system"  # the actor of what the cluster does by itself

Origin: TypeAlias = tuple[str, int, int]  # node id, session of the process, sequence number within it
Idempotency: TypeAlias = tuple[str, bytes]  # the client's key, fingerprint of method, path and raw body


class Entry(msgspec.Struct, array_like=True, frozen=True):
    """One log entry. Times are milliseconds, stamped by the leader; entropy is 16 random bytes from it."""

    format: int
    lease_now_ms: int
    wall_now_ms: int
    entropy: bytes
    operations: list[bytes]
    origins: list[Origin]


class Command(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One operation of an entry: what to do, in which space, for whom, until when, with which arguments.

    actor: the SHA-256 of an API key's secret, or OPERATOR, or SYSTEM. space: "" for the operator's own operations.
    deadline_ms: lease time after which it must not be applied any more; 0 is never. arguments: JSON of the request.
    """

    name: str
    space: str
    actor: bytes
    deadline_ms: int
    idempotency: Idempotency | None
    arguments: bytes


class FormatError(Exception):
    """An entry that this build cannot read. Another build may have: the process must end before it answers."""


_encoder = msgspec.msgpack.Encoder()
_entry_decoder = msgspec.msgpack.Decoder(Entry)
_command_decoder = msgspec.msgpack.Decoder(Command)


def encode_operation(
    name: str,
    space: str,
    actor: bytes,
    deadline_ms: int,
    idempotency: Idempotency | None,
    arguments: bytes,
) -> bytes:
    """The bytes of one operation, see Command for the arguments."""
    return _encoder.encode((name, space, actor, deadline_ms, idempotency, arguments))


def encode_entry(
    lease_now_ms: int, wall_now_ms: int, entropy: bytes, operations: Sequence[bytes], origins: Sequence[Origin]
) -> bytes:
    """The bytes of one entry, see Entry for the arguments. One origin an operation, in the same order."""
    assert len(operations) == len(origins), (len(operations), len(origins))
    return _encoder.encode((FORMAT, lease_now_ms, wall_now_ms, entropy, operations, origins))


def decode_entry(data: bytes | memoryview) -> Entry:
    """Raises FormatError for anything that encode_entry of this or the previous format did not make."""
    try:
        entry = _entry_decoder.decode(data)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise FormatError(f"a log entry cannot be read: {error}") from error
    if entry.format != FORMAT:
        raise FormatError(f"a log entry has format {entry.format}, this build reads {FORMAT}: start a newer build")
    return entry


def decode_operation(data: bytes) -> Command:
    """Raises FormatError for anything that encode_operation did not make."""
    try:
        return _command_decoder.decode(data)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise FormatError(f"an operation cannot be read: {error}") from error


def genesis_entry(cluster_id: str, members: Mapping[str, int], wall_now_ms: int, entropy: bytes) -> bytes:
    """Entry 1 of a new cluster.

    members: node id to the random incarnation of its journal. wall_now_ms: the time of the bootstrap.
    """
    arguments = {"clusterId": cluster_id, "members": dict(sorted(members.items())), "featureLevel": FEATURE_LEVEL}
    operation = encode_operation(
        "cluster.genesis", "", SYSTEM, 0, None, json.dumps(arguments, separators=(",", ":")).encode()
    )
    return encode_entry(0, wall_now_ms, entropy, [operation], [("", 0, 0)])
