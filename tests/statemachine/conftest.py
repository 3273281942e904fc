"""Fixtures of the machine's tests."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from tests.statemachine.driver import Driver
from tests.statemachine.specimens import declared


@pytest.fixture
def driver() -> Driver:
    """Two replicas with a space and a key in it."""
    return Driver()


@pytest.fixture
def specimens() -> Iterator[SimpleNamespace]:
    """The primitive of specimens.py, declared for one test."""
    with declared() as specimen:
        yield specimen
