"""Runs a log from standard input through a machine and prints what came of it, for a process of its own.

One entry a line, in base64; an empty line begins another log. Prints, for each log, the chain digest and the digest of
the dump.
"""

from __future__ import annotations

import sys
from base64 import b64decode
from collections.abc import Iterable
from hashlib import blake2b

import msgspec

from statemachine.entry import decode_entry
from statemachine.machine import Machine


def digests(log: Iterable[bytes]) -> str:
    """The chain digest and the digest of the dump of a machine that ran the log."""
    machine = Machine()
    for index, data in enumerate(log, start=1):
        machine.apply(index, decode_entry(data))
    content = blake2b(msgspec.msgpack.encode(machine.store.dump()), digest_size=16)
    return f"{machine.chain.hex()} {content.hexdigest()}"


if __name__ == "__main__":
    for log in sys.stdin.buffer.read().split(b"\n\n"):
        print(digests(map(b64decode, log.splitlines())))
