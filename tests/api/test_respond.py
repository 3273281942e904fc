"""Results as bytes on the wire."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from api.endpoint import Page
from api.respond import Responder, with_request_id
from statemachine.errors import (
    CLAIM_HELD,
    METHOD_NOT_ALLOWED,
    RATE_LIMITED,
    STALE_CLAIM,
    UNAUTHENTICATED,
    UNAVAILABLE,
    Refused,
)
from statemachine.machine import Outcome, refusal
from tests.api.local import LocalReplica


def rendered(render: Callable[[Responder], Any]) -> tuple[str, dict[str, str], bytes]:
    async def scenario() -> bytes:
        data: bytes = render(Responder(LocalReplica(url="http://leader"))).data
        return data

    head, _, body = asyncio.run(scenario()).partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    return status, dict(line.split(": ", 1) for line in lines), body


def test_an_outcome() -> None:
    outcome = Outcome(201, "", b'{"a":1}', 12, 3)
    status, headers, body = rendered(lambda responder: responder.render("req_1", outcome))
    assert (status, body) == ("HTTP/1.1 201 Created", b'{"a":1}')
    assert headers.pop("Date").endswith(" GMT")
    assert headers == {
        "Content-Type": "application/json",
        "Content-Length": "7",
        "X-Request-Id": "req_1",
        "X-Raft-Index": "12/3",
        "X-Raft-Leader": "http://leader",
    }


def test_a_replay_says_so_and_a_204_is_empty() -> None:
    replay = Outcome(200, "", b"{}", 1, 0, replayed=True)
    assert rendered(lambda responder: responder.render("r", replay))[1]["Idempotency-Replayed"] == "true"
    status, headers, body = rendered(lambda responder: responder.render("r", Outcome(204, "", b"", 1, 0)))
    assert (status, body) == ("HTTP/1.1 204 No Content", b"")
    assert not {"Content-Length", "Content-Type"} & set(headers)


def test_a_refusal_gets_the_request_id_into_its_envelope() -> None:
    refused = Refused(CLAIM_HELD, "held", retry_after_ms=2_500, holder="h")
    status, headers, body = rendered(lambda responder: responder.refused("req_1", refused, 5))
    assert status == "HTTP/1.1 409 Conflict"
    assert (headers["Retry-After"], headers["X-Raft-Index"]) == ("2.5", "5/0")
    assert json.loads(body) == {
        "error": {"code": "CLAIM_HELD", "message": "held", "details": {"holder": "h"}, "requestId": "req_1"}
    }
    assert with_request_id(refusal(Refused(STALE_CLAIM), 1, 0).body, 'a"b').endswith(b',"requestId":"a\\"b"}}')


@pytest.mark.parametrize(
    ("refused", "seconds"),
    [
        (Refused(RATE_LIMITED), "1"),
        (Refused(UNAVAILABLE), "0.5"),
        (Refused(RATE_LIMITED, retry_after_ms=0), "0.05"),
        (Refused(CLAIM_HELD, retry_after_ms=1_234), "1.234"),
        (Refused(CLAIM_HELD, retry_after_ms=3_600_000), "30"),
        (Refused(CLAIM_HELD), None),
        (Refused(STALE_CLAIM), None),
    ],
)
def test_when_to_come_again(refused: Refused, seconds: str | None) -> None:
    assert rendered(lambda responder: responder.refused("r", refused, 0))[1].get("Retry-After") == seconds


def test_headers_that_a_status_asks_for() -> None:
    refused = Refused(METHOD_NOT_ALLOWED, "no", allow=["GET", "POST"])
    assert rendered(lambda responder: responder.refused("r", refused, 0))[1]["Allow"] == "GET, POST"
    refused = Refused(UNAUTHENTICATED)
    _, headers, _ = rendered(lambda responder: responder.refused("r", refused, 0))
    assert headers["WWW-Authenticate"] == "Bearer"
    assert "X-Raft-Index" not in headers


def test_closing_and_head() -> None:
    page = Page(200, "text/plain", b"hello")
    _, headers, body = rendered(lambda responder: responder.render("r", page, keep_alive=False, with_body=False))
    assert (headers["Connection"], headers["Content-Length"], body) == ("close", "5", b"")
