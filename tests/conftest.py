"""Options and profiles of the whole suite."""

from __future__ import annotations

import pytest
from hypothesis import settings

# A failure prints its blob, with which it replays; `--hypothesis-profile=long` looks much further.
settings.register_profile("default", max_examples=60, stateful_step_count=30, deadline=None, print_blob=True)
settings.register_profile("long", max_examples=5_000, stateful_step_count=100, deadline=None, print_blob=True)
settings.load_profile("default")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite", action="store_true", help="write the outcomes of the golden scripts anew; read the difference"
    )
