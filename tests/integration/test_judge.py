"""The judge itself: it accepts what may happen, and sees every fault that it is there for."""

from typing import Any

import pytest

from tests.integration.judge import judge
from tests.integration.load.record import Request

A, B = "a", "b"


def request(client: str, kind: str, began: int, ended: int, **fields: Any) -> Request:
    defaults: dict[str, Any] = {"url": "http://n1", "method": "POST", "path": "/", "key": f"{client}-{began}"}
    return Request(client=client, kind=kind, began_ns=began, ended_ns=ended, **{**defaults, **fields})


def acquired(client: str, began: int, ended: int, generation: int, index: int) -> Request:
    reply = {"key": "k", "token": f"t{generation}-{client}", "generation": generation}
    return request(client, "claim.acquire", began, ended, status=201, reply=reply, index=index)


def released(client: str, began: int, ended: int, generation: int, index: int, **fields: Any) -> Request:
    body, reply = {"token": f"t{generation}-{client}"}, {"released": True}
    return request(
        client, "claim.release", began, ended, **{"status": 200, "body": body, "reply": reply, "index": index, **fields}
    )


STALE = {"error": {"code": "STALE_CLAIM", "message": "m", "requestId": "r"}}
UNAVAILABLE = {"error": {"code": "UNAVAILABLE", "message": "m", "requestId": "r"}}

GOOD = [
    acquired(A, 10, 20, 1, 5),
    released(A, 30, 50, 1, 6),
    acquired(B, 35, 60, 2, 7),  # asked while the other was handing back
    released(B, 70, 80, 2, 8),
]


def read(client: str, began: int, generation: int, index: int, state: str = "HELD") -> Request:
    reply = {"claims": [{"state": state, "generation": generation, "holder": client}]}
    return request(client, "claim.read", began, began + 1, method="GET", status=200, reply=reply, index=index, key=None)


def once(client: str, kind: str, began: int, state: str, index: int, **fields: Any) -> Request:
    body = {"key": "w", **fields.pop("body", {})}
    reply = {"state": state, **fields}
    return request(client, kind, began, began + 1, status=200, body=body, reply=reply, index=index)


ONCE = [
    once(A, "once.acquire", 10, "ACQUIRED", 2),
    once(B, "once.acquire", 12, "HELD", 3),
    once(A, "once.complete", 14, "DONE", 4, body={"result": 1}),
    once(B, "once.acquire", 16, "DONE", 5, result=1),
]


@pytest.mark.parametrize(
    "history",
    [
        pytest.param(GOOD, id="one owner after the other"),
        pytest.param([GOOD[0], read(A, 22, 1, 5), *GOOD[1:]], id="a read sees its own claim"),
        pytest.param(
            [GOOD[0], released(A, 30, 90, 1, 9, status=409, reply=STALE, faults=["gone"]), *GOOD[2:]],
            id="a repeated hand-back finds the next owner",
        ),
        pytest.param(ONCE, id="one result for all"),
        pytest.param([request(A, "scope.create", 1, 2, key=None)], id="an unknown outcome without a key"),
    ],
)
def test_it_accepts_what_may_happen(history: list[Request]) -> None:
    judge(history)


@pytest.mark.parametrize(
    "history",
    [
        pytest.param([], id="nothing was recorded"),
        pytest.param([*GOOD, acquired(A, 85, 90, 2, 9)], id="a generation twice"),
        pytest.param([GOOD[0], acquired(B, 21, 25, 2, 6), *GOOD[1:2]], id="two owners at once"),
        pytest.param([GOOD[0], acquired(B, 21, 25, 2, 6)], id="taken from a living owner"),
        pytest.param([GOOD[0], read(A, 22, 1, 5, state="LAPSED")], id="a lease that ended by itself"),
        pytest.param([GOOD[0], read(A, 22, 0, 5)], id="a read of the state before the own write"),
        pytest.param([GOOD[0], read(A, 22, 1, 4)], id="a read at an index before the write"),
        pytest.param([*ONCE, once(B, "once.acquire", 20, "ACQUIRED", 6)], id="run twice"),
        pytest.param([*ONCE, once(B, "once.read", 20, "DONE", 6, result=2)], id="two results"),
        pytest.param([released(A, 30, 50, 1, 6, status=409, reply=STALE)], id="a hand-back refused at once"),
        pytest.param([request(A, "scope.create", 1, 2)], id="no answer to a request with a key"),
        pytest.param(
            [request(A, "scope.create", 1, 2, status=503, reply=UNAVAILABLE)], id="503 to a request with a key"
        ),
        pytest.param(
            [acquired(A, 10, 20, 1, 9), released(A, 30, 50, 1, 6)], id="what came later stands earlier in the log"
        ),
    ],
)
def test_it_sees_what_must_not_happen(history: list[Request]) -> None:
    with pytest.raises(AssertionError):
        judge(history)
