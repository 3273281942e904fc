"""Fixtures of the integration tests: a cluster of real processes, and what its nodes said when a test fails."""

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.integration.cluster import Cluster, Space


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    """Three nodes of the test's own, ready. A parameter, if there is one, is their options."""
    with Cluster(tmp_path / "cluster", options=getattr(request, "param", {})) as nodes:
        yield nodes.start()


@pytest.fixture
def space(cluster: Cluster) -> Space:
    """A space of the test's own cluster."""
    return cluster.space()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for value in getattr(item, "funcargs", {}).values():
            if isinstance(value, Cluster):
                report.sections += [(f"log of {name}", text) for name, text in value.logs()]
    return report
