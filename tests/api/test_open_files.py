"""Room for connections."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest

from api.open_files import RESERVED, connections_allowed


@pytest.fixture(autouse=True)
def limits() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_soft_limit_is_raised_as_far_as_is_needed() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    assert connections_allowed(600) == 600
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (600 + RESERVED, hard)


def test_it_is_never_lowered() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert connections_allowed(10) == 10
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before


def test_what_the_hard_limit_leaves_is_all_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 1024))
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    assert connections_allowed(20_000) == 1024 - RESERVED
