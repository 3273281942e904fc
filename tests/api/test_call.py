"""A call and its idempotency key."""

from __future__ import annotations

from api.call import Call
from tests.api.served import Api, served

CLAIM = {"key": "k", "holder": "h", "holderSession": "s"}


def fingerprint(method: str = "POST", path: str = "/v1/a", body: bytes = b"{}", query: str = "") -> bytes:
    call = Call("req_1", method, path, query, "key", None, 0.0, 8.0)
    call.body = body
    keyed = call.idempotency()
    assert keyed is not None
    assert keyed[0] == "key"
    return keyed[1]


def test_the_fingerprint_is_of_method_path_and_body() -> None:
    assert len(fingerprint()) == 16
    assert fingerprint() == fingerprint()
    others = {
        fingerprint(method="PUT"),
        fingerprint(path="/v1/b"),
        fingerprint(path="/v1/a\n"),
        fingerprint(body=b"{} "),
        fingerprint(body=b""),
        fingerprint(path="/v1/a{}", body=b""),
    }
    assert len(others | {fingerprint()}) == 7


def test_without_a_key_there_is_none() -> None:
    assert Call("req_1", "POST", "/", "", None, None, 0.0, 8.0).idempotency() is None


@served
async def test_idempotency_keys_have_a_bound(api: Api) -> None:
    run = await api.run()
    for key in ("x", "x" * 255, "é" * 100, "with space"):
        claim = {**CLAIM, "key": key, "scopeId": run}
        assert (await api.call("POST", "/claims", claim, idempotency_key=key)).status == 201, key
    for key in ("", "x" * 256):
        reply = await api.call("POST", "/claims", {**CLAIM, "scopeId": run}, idempotency_key=key)
        assert (reply.status, reply.code) == (400, "VALIDATION_FAILED"), key
        assert "Idempotency-Key" in reply.error["message"]


@served
async def test_an_idempotency_key_of_bytes_that_are_no_text(api: Api) -> None:
    request = f"POST /v1/spaces/{api.space}/scopes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {api.key}\r\n"
    answer = await api.wire(
        request.encode() + b"Idempotency-Key: \xff\xfe\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    )
    assert answer.startswith(b"HTTP/1.1 400 "), answer
    assert b"Idempotency-Key: must be UTF-8" in answer
