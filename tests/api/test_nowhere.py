"""Paths and methods that nothing stands behind."""

from __future__ import annotations

import pytest

from tests.api.served import OPERATOR_KEY, Api, served


@served
async def test_unknown_paths(api: Api) -> None:
    for method, path, key in (
        ("GET", f"/v1/spaces/{api.space}/nothing", api.key),
        ("POST", f"/v1/spaces/{api.space}", api.key),
        ("GET", f"/v1/spaces/{api.space}/", api.key),
        ("GET", "/v1/nothing", api.key),
        ("GET", "/admin/v1/nothing", OPERATOR_KEY),
        ("GET", "/nothing", None),
        ("GET", "/", None),
        ("GET", "//healthz", None),
    ):
        reply = await api.request(method, path, key=key)
        assert (reply.status, reply.code) == (404, "NOT_FOUND"), path
        assert path in reply.error["message"]


@pytest.mark.parametrize("path", ["/batch/", "/claims/"])
@served
async def test_a_slash_too_many_is_no_redirect_but_a_hint(api: Api, path: str) -> None:
    reply = await api.call("POST", path, {})
    assert reply.status == 404
    assert "without the slash" in reply.error["message"]


@served
async def test_methods_that_a_path_does_not_take(api: Api) -> None:
    for method, path, key, allow in (
        ("DELETE", f"/v1/spaces/{api.space}/claims", api.key, "GET, POST"),
        ("POST", "/v1/whoami", api.key, "GET"),
        ("PUT", "/admin/v1/spaces", OPERATOR_KEY, "GET, POST"),
        ("POST", "/healthz", None, "GET"),
        ("OPTIONS", "/readyz", None, "GET"),
    ):
        reply = await api.request(method, path, key=key)
        assert (reply.status, reply.code) == (405, "METHOD_NOT_ALLOWED"), path
        assert reply.headers["Allow"] == allow


@served
async def test_only_who_may_ask_learns_that_there_is_nothing(api: Api) -> None:
    other = await api.make_space()
    for path in ("nothing", "claims"):
        for key, status in ((None, 401), ("unknown", 401), (OPERATOR_KEY, 401)):
            assert (await api.call("DELETE", f"/{path}", key=key)).status == status, (path, key)
        assert (await api.request("DELETE", f"/v1/spaces/{other}/{path}", key=api.key)).status == 403
    assert (await api.operate("GET", "/nothing", key=api.key)).status == 403
    assert (await api.operate("GET", "/nothing", key=None)).status == 401
    assert (await api.request("GET", "/v1/nothing", key="unknown")).status == 401
