"""The directory of a local cluster: what it holds, and what is said when it cannot be used."""

import socket
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from api.cli.failure import CommandError
from api.cli.local_cluster import LocalCluster, free_block
from cluster.config import load


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def refusal(directory: Path, nodes: int = 3, port: int = 7070) -> str:
    with pytest.raises(CommandError) as caught:
        LocalCluster(directory, nodes, port)
    return str(caught.value)


def test_ports_are_in_a_row(tmp_path: Path) -> None:
    with closing(LocalCluster(tmp_path / "d", 3, 7070)) as local:
        assert [(m.id, m.port, m.peer_port) for m in local.members] == [
            ("n1", 7070, 7073),
            ("n2", 7071, 7074),
            ("n3", 7072, 7075),
        ]


@pytest.mark.parametrize("nodes", [1, 3])
def test_the_nodes_files_are_good_configurations(tmp_path: Path, nodes: int) -> None:
    with closing(LocalCluster(tmp_path / 'a "quoted" directory', nodes, 7070)) as local:
        local.write_node_files()
        for member in local.members:
            config = load(member.config_path, {}, {})
            assert config.id == member.id
            assert config.advertise == member.url
            assert config.peer_listen == member.peer_address
            assert config.data == member.folder / "data"
            assert config.local
            assert config.operator_key_file is not None
            assert config.operator_key_file.read_text().strip() == local.operator_key


def test_secrets_are_the_owners_alone(tmp_path: Path) -> None:
    with closing(LocalCluster(tmp_path / "d", 3, 7070)) as local:
        assert stat.S_IMODE((local.directory / "operator.key").stat().st_mode) == 0o600
        assert stat.S_IMODE(local.directory.stat().st_mode) == 0o700


def test_a_directory_keeps_its_key_and_what_is_known_of_the_cluster(tmp_path: Path) -> None:
    with closing(LocalCluster(tmp_path / "d", 3, 7070)) as local:
        key = local.operator_key
        local.state.cluster_id, local.state.space_id = "cluster", "space"
        local.save()
    with closing(LocalCluster(tmp_path / "d", 3, 8080)) as local:
        assert local.operator_key == key
        assert (local.state.cluster_id, local.state.space_id) == ("cluster", "space")


def test_another_number_of_nodes_is_refused(tmp_path: Path) -> None:
    LocalCluster(tmp_path / "d", 3, 7070).close()
    said = refusal(tmp_path / "d", nodes=1)
    assert said.startswith(
        f"{tmp_path}/d holds a cluster of 3: use --nodes 3, or start a new cluster of 1 with another"
    )
    # A refusal gives the directory back.
    LocalCluster(tmp_path / "d", 3, 7070).close()


def test_two_at_once_are_refused(tmp_path: Path) -> None:
    with closing(LocalCluster(tmp_path / "d", 3, 7070)):
        said = refusal(tmp_path / "d", port=9090)
    assert said.startswith(f"`runstate up` runs on {tmp_path}/d already (process ")


@pytest.mark.parametrize("nodes", [-1, 0, 2, 4, 9])
def test_a_cluster_has_an_odd_number_of_nodes(tmp_path: Path, nodes: int) -> None:
    assert refusal(tmp_path / "d", nodes=nodes) == f"--nodes {nodes}: a cluster has 1, 3, 5 or 7 nodes"
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize("port", [0, -5, 65531, 70000])
def test_all_ports_must_exist(tmp_path: Path, port: int) -> None:
    assert refusal(tmp_path / "d", port=port) == f"--port {port}: must be from 1 to 65530, 3 nodes use 6 ports"


def test_a_directory_of_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    assert refusal(tmp_path) == (
        f"{tmp_path} holds other things (thesis.tex) and no cluster; give --data a directory of its own"
    )
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("below", [False, True])
def test_what_is_no_directory_is_refused(tmp_path: Path, below: bool) -> None:
    (tmp_path / "file").write_text("")
    directory = tmp_path / "file" / "d" if below else tmp_path / "file"
    said = refusal(directory)
    assert said.startswith(f"{directory} cannot be used: ")
    assert said.endswith("; give --data a directory that you can write")


def test_a_damaged_state_is_named(tmp_path: Path) -> None:
    LocalCluster(tmp_path / "d", 3, 7070).close()
    (tmp_path / "d" / "cluster.json").write_text("{")
    assert refusal(tmp_path / "d").startswith(f"{tmp_path}/d/cluster.json cannot be read: ")


def test_ports_in_use_are_found(tmp_path: Path, taken: int) -> None:
    port = min(taken - 1, 65530)
    with closing(LocalCluster(tmp_path / "d", 3, port)) as local:
        assert taken in local.busy_ports()


def test_a_free_block_has_no_port_that_is_taken(taken: int) -> None:
    found = free_block(max(1024, taken - 3), 3)
    assert found is None or not found <= taken < found + 6
