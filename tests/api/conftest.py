"""A cluster that tests of the command share: they look at it and make spaces and keys, but hurt none of its nodes."""

from collections.abc import Iterator

import pytest

from tests.integration.cluster import Cluster


@pytest.fixture(scope="package")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("shared") / "cluster") as cluster:
        yield cluster.start()
