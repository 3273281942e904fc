"""HTTP of the commands, against a server that answers as told and one that does not answer."""

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from api.cli.calls import Answer, Unreachable, operator_call, operator_list, request
from api.cli.connection import Connection
from api.cli.failure import CommandError


class Served:
    """A server on a free port: answers every request with `status` and `content`, and keeps what it was asked."""

    def __init__(self) -> None:
        served = self
        self.status, self.content = 200, b"{}"
        self.following: list[bytes] = []  # contents of the answers after the next
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                served.asked.append((self.command, self.path, dict(self.headers), body))
                self.send_response(served.status)
                self.send_header("Content-Length", str(len(served.content)))
                self.end_headers()
                self.wfile.write(served.content)
                if served.following:
                    served.content = served.following.pop(0)

            do_GET = do_POST = do_DELETE = answer  # noqa: N815 - names of http.server

            def log_message(self, format: str, *args: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def served() -> Iterator[Served]:
    server = Served()
    yield server
    server.close()


@pytest.fixture
def nobody() -> Iterator[str]:
    """A URL on which nobody listens, and nobody else can begin to while the test runs."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"


def error(code: str, message: str) -> bytes:
    return json.dumps({"error": {"code": code, "message": message, "requestId": "r"}}).encode()


def test_a_request_carries_body_and_keys(served: Served) -> None:
    served.status, served.content = 201, b'{"id": "s"}'
    answer = request(served.url, "POST", "/x", body={"name": "ü"}, key="k", idempotency_key="i")
    assert answer == Answer(201, {"id": "s"})
    ((method, path, headers, body),) = served.asked
    assert (method, path, json.loads(body)) == ("POST", "/x", {"name": "ü"})
    assert headers["Authorization"] == "Bearer k"
    assert headers["Idempotency-Key"] == "i"
    assert headers["Content-Type"] == "application/json"


def test_an_empty_answer_is_an_empty_object(served: Served) -> None:
    served.content = b""
    assert request(served.url, "GET", "/x").body == {}


def test_nobody_listens(nobody: str) -> None:
    with pytest.raises(Unreachable, match=r"^connection refused$"):
        request(nobody, "GET", "/")


def test_nobody_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(Unreachable, match=r"^no answer within 0\.2 s$"):
            request(url, "GET", "/", timeout_seconds=0.2)


@pytest.mark.parametrize("content", [b"<html>", b"[]", b'"text"', b"\xff"])
def test_what_is_no_json_object_is_no_node(served: Served, content: bytes) -> None:
    served.content = content
    with pytest.raises(Unreachable, match="is this a node of runstate"):
        request(served.url, "GET", "/")


def test_a_proxy_of_the_environment_is_not_asked(served: Served, nobody: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", nobody)
    assert request(served.url, "GET", "/").status == 200


def test_the_next_node_is_asked_with_the_same_idempotency_key(served: Served, nobody: str) -> None:
    failing = Served()
    try:
        failing.status, failing.content = 503, error("UNAVAILABLE", "no leader")
        served.content = b'{"id": "s"}'
        connection = Connection((nobody, failing.url, served.url), "k")
        assert operator_call(connection, "POST", "/admin/v1/spaces", {"name": "n"}) == {"id": "s"}
        (first,), (second,) = failing.asked, served.asked
        assert first[2]["Idempotency-Key"] == second[2]["Idempotency-Key"]
    finally:
        failing.close()


def test_a_refusal_is_final(served: Served) -> None:
    served.status, served.content = 409, error("CONFLICT", "exists")
    with pytest.raises(CommandError, match=r"^CONFLICT: exists$"):
        operator_call(Connection((served.url, served.url), "k"), "POST", "/x")
    assert len(served.asked) == 1


def test_when_nobody_answers_every_reason_is_said(served: Served, nobody: str) -> None:
    served.status, served.content = 503, error("UNAVAILABLE", "no leader")
    with pytest.raises(CommandError) as caught:
        operator_call(Connection((nobody, served.url), "k"), "GET", "/x")
    assert str(caught.value).split("\n") == [
        "none of 2 nodes answered:",
        f"  {nobody}: connection refused",
        f"  {served.url}: UNAVAILABLE: no leader",
    ]


def test_a_list_is_all_its_pages(served: Served) -> None:
    pages = [b'{"spaces": [{"id": "a"}], "nextCursor": "a b"}', b'{"spaces": [{"id": "b"}], "nextCursor": null}']
    served.content, served.following = pages[0], pages[1:]
    rows = operator_list(Connection((served.url,), "k"), "/admin/v1/spaces", "spaces")
    assert rows == [{"id": "a"}, {"id": "b"}]
    assert [path for _, path, _, _ in served.asked] == [
        "/admin/v1/spaces?limit=1000",
        "/admin/v1/spaces?limit=1000&cursor=a+b",
    ]


def test_without_an_operator_key_nothing_is_sent(served: Served) -> None:
    with pytest.raises(CommandError, match="needs the operator key"):
        operator_call(Connection((served.url,)), "GET", "/x")
    assert served.asked == []
