"""What is said on a peer port before a node has a cluster: who is there, and here is your genesis.

Asked and answered by node and operator alike, on a connection without a hello. A node that has a journal answers the
question too, so that a bootstrap which broke off can be finished, and a node whose disk was lost can find its cluster.
"""

import asyncio
import ssl
from collections.abc import Collection

import msgspec

from cluster.addresses import parse_address
from cluster.certs import certified
from cluster.framing import LENGTH_BYTES, FramingError, body_length, decode_body, encode_frame
from cluster.hello import PROTOCOL, refusal_frame, refusal_reason
from cluster.identity import DataDirectory, DataDirectoryError, read_genesis
from cluster.journal import JournalError

FRAME_MAX_BYTES = 64 << 10
WRITTEN = ["written"]
_ASK = "bootstrap?"
_STANDING = "bootstrap"
_GENESIS = "genesis"


class Standing(msgspec.Struct, frozen=True, array_like=True):
    """How far a node is. cluster_id and genesis (the encoded entry 1): None while its journal is empty."""

    protocol: int
    node_id: str
    incarnation: int
    cluster_id: str | None
    genesis: bytes | None


class Answers:
    """A node's side. members: the ids in its `peers`. genesis: entry 1 of its journal."""

    def __init__(self, directory: DataDirectory, members: Collection[str], genesis: bytes | None = None) -> None:
        self._directory = directory
        self._members = frozenset(members)
        self._genesis = genesis

    def __call__(self, frame: object) -> list[object] | None:
        """The answer to a frame; None when it is none of ours."""
        if frame == [_ASK]:
            standing = Standing(
                PROTOCOL,
                self._directory.node_id,
                self._directory.incarnation,
                self._directory.cluster_id,
                self._genesis,
            )
            return [_STANDING, *msgspec.structs.astuple(standing)]
        if isinstance(frame, list) and len(frame) == 2 and frame[0] == _GENESIS and isinstance(frame[1], bytes):
            refusal = self._write(frame[1])
            return [*WRITTEN] if refusal is None else refusal_frame(refusal)
        return None

    def _write(self, entry: bytes) -> str | None:
        """Begin the journal with this genesis, durably; the reason when that is refused."""
        if entry == self._genesis:
            return None
        try:
            members = read_genesis(entry).members.keys()
            if members != self._members:
                return (
                    f"the genesis has the members {', '.join(sorted(members))}, but {self._directory.node_id} was "
                    f"configured with {', '.join(sorted(self._members))}"
                )
            self._directory.write_genesis(entry)
        except (ValueError, DataDirectoryError, JournalError) as error:
            return str(error)
        self._genesis = entry
        return None


class RequestError(Exception):
    """A node cannot be asked, or does not answer as one of ours."""


class RequestRefused(RequestError):
    """The node answered and said no; asking again would be in vain."""


async def ask_standing(node_id: str, address: str, context: ssl.SSLContext | None, timeout_seconds: float) -> Standing:
    """Ask the node that should be at "host:port". Raises RequestError."""
    answer = await _request(node_id, address, context, [_ASK], timeout_seconds)
    if not isinstance(answer, list) or answer[:1] != [_STANDING] or answer[1:2] != [PROTOCOL]:
        raise RequestRefused("it does not answer as a node of this release")
    try:
        standing = msgspec.convert(answer[1:], Standing, builtin_types=(bytes,))
    except msgspec.ValidationError as error:
        raise RequestRefused(f"its answer is malformed: {error}") from None
    if standing.genesis is not None:
        try:
            read_genesis(standing.genesis)
        except ValueError as error:
            raise RequestRefused(f"its journal begins strangely: {error}") from None
    if standing.node_id != node_id:
        raise RequestRefused(f"{standing.node_id} answers there: check the ids and addresses in `peers`")
    return standing


async def deliver_genesis(
    node_id: str, address: str, context: ssl.SSLContext | None, entry: bytes, timeout_seconds: float
) -> None:
    """Give it to the node; returns once it is durable there. Raises RequestError; repeating it is safe."""
    answer = await _request(node_id, address, context, [_GENESIS, entry], timeout_seconds)
    if answer != WRITTEN:
        raise RequestRefused("it does not answer as a node of this release")


async def _request(
    node_id: str, address: str, context: ssl.SSLContext | None, frame: list[object], timeout_seconds: float
) -> object:
    parsed = parse_address(address)
    if parsed is None:
        raise RequestRefused(f"{address!r} is not host:port")
    try:
        async with asyncio.timeout(timeout_seconds):
            reader, writer = await asyncio.open_connection(
                *parsed, ssl=context, server_hostname=None if context is None else node_id
            )
            try:
                encrypted = writer.get_extra_info("ssl_object")
                if encrypted is not None and node_id not in certified(encrypted).names:
                    raise RequestRefused(f"the certificate at {address} does not speak for {node_id}")
                writer.write(encode_frame(frame))
                length = body_length(await reader.readexactly(LENGTH_BYTES), FRAME_MAX_BYTES)
                answer = decode_body(await reader.readexactly(length))
            finally:
                writer.transport.abort()
    except (OSError, TimeoutError, EOFError) as error:
        raise RequestError(str(error) or "it does not answer") from None
    except FramingError as error:
        raise RequestRefused(str(error)) from None
    refusal = refusal_reason(answer)
    if refusal is not None:
        raise RequestRefused(refusal)
    return answer
