"""Fixtures of the tests with released clients: one cluster a file, and every release installed once."""

from collections.abc import Iterator

import pytest

from tests.clients.released import VERSIONS, installed
from tests.integration.cluster import Cluster, Space
from tests.integration.conftest import pytest_runtest_makereport as pytest_runtest_makereport


@pytest.fixture(scope="session", autouse=True)
def _released_clients() -> None:
    for version in VERSIONS:
        installed(version)


@pytest.fixture(scope="module")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes for the tests of a file, which leave them as they found them."""
    with Cluster(tmp_path_factory.mktemp("cluster")) as nodes:
        yield nodes.start()


@pytest.fixture(scope="module")
def shared_space(shared_cluster: Cluster) -> Space:
    """The default permissions: what a program of a user has."""
    return shared_cluster.space(permissions=("work", "resource_config", "read"))
