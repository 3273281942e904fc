"""`runstate certs`, and three real nodes that talk by what it made."""

from pathlib import Path

from cluster.certs import peer_contexts, prove
from tests.api.cli_cluster import run


def test_one_call_makes_all_that_three_nodes_need(tmp_path: Path) -> None:
    made = run(tmp_path, "certs", "n1", "n2", "n3")
    assert (made.status, made.err) == (0, "")
    assert made.out.splitlines()[:3] == [
        "certs/ca.key  key of the new authority: keep it safe and off the nodes",
        "certs/ca.pem  tls_ca of every node",
        "certs/n1.pem  tls_certificate of n1",
    ]
    folder = tmp_path / "certs"
    assert sorted(path.name for path in folder.iterdir()) == [
        f"{name}.{kind}" for name in ("ca", "n1", "n2", "n3") for kind in ("key", "pem")
    ]
    server, _ = peer_contexts(folder / "ca.pem", folder / "n2.pem", folder / "n2.key")
    _, client = peer_contexts(folder / "ca.pem", folder / "n3.pem", folder / "n3.key")
    assert prove(server, client).names == {"n2"}


def test_a_second_call_signs_another_node_and_overwrites_nothing(tmp_path: Path) -> None:
    assert run(tmp_path, "certs", "n1", "--dir", "here").status == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "here").iterdir()}
    refused = run(tmp_path, "certs", "n2", "n1", "--dir", "here")
    assert refused.status == 70
    assert refused.err.startswith("runstate: here/n1.pem is there already, and nothing is overwritten: move it away")
    assert {path.name: path.read_bytes() for path in (tmp_path / "here").iterdir()} == before
    more = run(tmp_path, "certs", "n2", "--dir", "here", "--days", "30")
    assert (more.status, len(more.out.splitlines())) == (0, 2)


def test_what_is_no_node_id_is_told(tmp_path: Path) -> None:
    for wrong in ("n1.example.com", "../n1", "ca", ""):
        refused = run(tmp_path, "certs", wrong)
        assert refused.status == 64
        assert "is no node id" in refused.err
    assert run(tmp_path, "certs", "n1", "--days", "0").status == 64
    assert list(tmp_path.iterdir()) == []


def test_without_the_package_it_says_what_to_install(tmp_path: Path) -> None:
    """A package of that name that is as good as none stands in the way."""
    (tmp_path / "cryptography.py").write_text("raise ModuleNotFoundError('gone', name='cryptography')\n")
    refused = run(tmp_path, "certs", "n1", environ={"PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[2]}"})
    assert refused.status == 70
    assert "needs the Python package cryptography, which is not installed: pip install 'runstate-cluster[certs]'" in (
        refused.err
    )
