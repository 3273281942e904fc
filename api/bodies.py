"""The body of a request, up to its bound and no further."""

from __future__ import annotations

import asyncio

from aiohttp import web

from api.limits import BODY_BYTES, BODY_SECONDS
from statemachine.errors import VALIDATION_FAILED, Refused

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


async def read_body(request: web.BaseRequest) -> bytes:
    """All of the body. Raises VALIDATION_FAILED when it is too long, comes too slowly or is broken on the way.

    A refused body is not read to its end; the connection has to be closed behind the answer.
    """
    content = request.content
    length = request.headers.get("Content-Length")
    if length is not None and int(length) > BODY_BYTES:
        raise _too_long()
    if request.headers.get("Expect", "").lower() == "100-continue" and request.transport is not None:
        request.transport.write(_CONTINUE)
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while not content.at_eof():
                part = await content.readany()
                size += len(part)
                if size > BODY_BYTES:
                    raise _too_long()
                parts.append(part)
    except TimeoutError:
        raise Refused(VALIDATION_FAILED, f"body: did not come within {BODY_SECONDS:g} s") from None
    except web.RequestPayloadError as error:
        raise Refused(VALIDATION_FAILED, f"body: is broken: {str(error).splitlines()[0]}") from None
    return b"".join(parts)


def _too_long() -> Refused:
    return Refused(VALIDATION_FAILED, f"body exceeds {BODY_BYTES} bytes")
