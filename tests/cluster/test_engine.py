"""The engine refuses what Raft forbids, and the library behind it is the one that was reviewed."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import pysyncobj
import pytest

from cluster.engine import Engine, Role
from cluster.fatal import InvariantBroken
from cluster.ports import Message
from tests.simulation.disk import Disk, SimulatedJournal
from tests.simulation.lone import ScriptedTransport, command

# A changed module must be read before it runs: what of it we use, and what of it stays closed, is written in DESIGN.md.
REVIEWED = {
    "__init__.py": "4966a9dd893542b1b0e0fcef3d2ea44f2f40919d66b684992e5511be7503c036",
    "atomic_replace.py": "43a5252a241939b7f457cbbf39480260c91f0d2035a62b170bf1e1d20d0f9c1d",
    "batteries.py": "e05ad7e8d18a7d4854c6e487fab4d152194054f9ac3451568fe2101d54d6edca",
    "config.py": "fbbc7ff9f18e4d15a7fd563376e42f5bd192956879d4b810b056d5248b955698",
    "dns_resolver.py": "4b88da2b45e20fbb299fb7a21f2595369b6314700b687fb8858891999bce14e0",
    "encryptor.py": "db20725465efdfc6d7a3b5b2112f53bc5426d36c56312ebdf5fbcf05423a7c19",
    "fast_queue.py": "8477fe5fdf36d9766df933310d3d66ee953d1afc195b1e6482b3a1498fc517bd",
    "journal.py": "9cf1eaf6acc704581a4cf7d3de330a404403913107adc91c929778b7e3f35edf",
    "monotonic.py": "d116df70e1f81bcab1fb89191fe2fe18486bc25187401d73fd6101cfe686e0a3",
    "node.py": "e4a3f027cd8291f558334bb9c977e952f6b6989e7e1fa1588d3005ef0b990e2c",
    "pickle.py": "e9327780738065cec5d600484b936c91e7c13875206cb584d5ff7f5d0dc9c474",
    "pipe_notifier.py": "587d964bfa5d62320f3541cbb283ff3e282cb2db95e1b8cfd888dc3d53af82aa",
    "poller.py": "f69ac749fb410670282fd9520c5805ffc684c8a5f762a927127753d9be8551e6",
    "serializer.py": "4d39fde2f15000ad8f507ec229ebd4f6a86371b6f84d4dc1439a9cccd52857ee",
    "syncobj.py": "e8bdf06797085d734df86e24ab4802fe87893dff77268565ec036f7ad4a1cfe4",
    "syncobj_admin.py": "f32531e2f78a7708cf50164544352ffc68d7e0b9cda622dc267744bae39c4761",
    "tcp_connection.py": "7784ed8da031369fe36f805cb186a2e94a3bd6f10fed2dd59c8cc3713fd6331c",
    "tcp_server.py": "bde2f216c1a585029188d0438b44762e2e797dfc53bbce387839daaa46b9a60d",
    "transport.py": "0c9d89f9c4781ec9772df8011d7975a1a4a1a5f541357e12eae85a813e92b50b",
    "utility.py": "1aa0c49d3558c5df6489235b94ae44357b382f9f0792b9d72ae6e5ae0c0039ea",
    "version.py": "0b8426a8b52ecf874193897d26c4214acbd85335145ea9ff17e27a22b1132943",
    "win_inet_pton.py": "75315fdf68bfa4219c2952b21077387be45a02c4f01db45c7355cdc883c8e9cc",
}


def test_the_library_is_the_one_that_was_reviewed() -> None:
    folder = Path(pysyncobj.__file__).parent
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.py")}
    assert found == REVIEWED
    assert not [path for path in folder.iterdir() if path.is_dir() and path.name != "__pycache__"]


class _Deaf:
    def on_message(self, node_id: str, message: Message) -> None: ...
    def on_connected(self, node_id: str) -> None: ...
    def on_disconnected(self, node_id: str) -> None: ...


def _engine(records: int = 1, commit_index: int = 1, applied_index: int = 0) -> Engine:
    disk = Disk.with_genesis(b"genesis")
    disk.records += [(command(f"o{index}"), index, 1) for index in range(2, records + 1)]
    disk.commit_index = commit_index
    return Engine("n1", ["n1", "n2", "n3"], SimulatedJournal(disk), ScriptedTransport("n1"), _Deaf(), applied_index)


def test_a_restarted_node_believes_its_own_commit_index_as_far_as_its_log_goes() -> None:
    assert _engine(5, 3).commit_index == 3
    assert _engine(5, 9).commit_index == 5
    assert _engine(5, 0).commit_index == 1
    assert _engine(5, 3).applied_index == 0


def test_an_empty_journal_is_refused_and_no_entry_is_made_up() -> None:
    with pytest.raises(InvariantBroken, match="genesis"):
        Engine("n1", ["n1"], SimulatedJournal(Disk()), ScriptedTransport("n1"), _Deaf())


def _lead(engine: Engine) -> None:
    engine.become_candidate()
    engine.journal.sync()
    engine.become_leader()


def _forbidden() -> list[Callable[[Engine], object]]:
    def votes_twice(engine: Engine) -> None:
        engine.vote_for("n2")
        engine.vote_for("n3")

    def follows_two(engine: Engine) -> None:
        engine.follow("n2")
        engine.follow("n3")

    def leads_and_follows(engine: Engine) -> None:
        _lead(engine)
        engine.follow("n2")

    def leads_before_its_vote_is_durable(engine: Engine) -> None:
        engine.become_candidate()
        engine.become_leader()

    return [
        votes_twice,
        follows_two,
        leads_and_follows,
        leads_before_its_vote_is_durable,
        lambda engine: engine.become_leader(),
        lambda engine: engine.adopt_term(engine.term),
        lambda engine: engine.advance_commit(engine.commit_index - 1),
        lambda engine: engine.advance_commit(engine.last_index + 1),
        lambda engine: engine.truncate_from(engine.commit_index),
        lambda engine: engine.trim_to(engine.applied_index + 1),
        lambda engine: engine.jump_to(engine.commit_index),
        lambda engine: engine.jump_to(engine.last_index + 1),
        lambda engine: engine.append(b"entry"),
        lambda engine: engine.store(engine.last_index + 2, 1, b"x"),
        lambda engine: engine.store(engine.last_index + 1, 2, b"x"),
    ]


@pytest.mark.parametrize("step", _forbidden())
def test_what_raft_forbids_is_refused(step: Callable[[Engine], object]) -> None:
    with pytest.raises(InvariantBroken):
        step(_engine(5, 3))


def test_a_node_goes_on_behind_the_entry_of_its_image() -> None:
    engine = _engine(9, 3, applied_index=6)
    assert (engine.applied_index, engine.commit_index) == (6, 6)
    applied: list[int] = []
    engine.advance_commit(8)
    engine.apply_committed(lambda index, term, command: applied.append(index), lambda: True)
    assert applied == [7, 8]
    engine.trim_to(7)
    assert (engine.first_index, engine.last_index) == (7, 9)
    engine.trim_to(7)
    with pytest.raises(InvariantBroken, match="would be trimmed to 6"):
        engine.trim_to(6)
    engine.jump_to(9)
    assert (engine.applied_index, engine.commit_index) == (9, 9)


def test_an_image_of_an_entry_that_is_not_in_the_log_is_refused() -> None:
    with pytest.raises(InvariantBroken, match="not in the log"):
        _engine(5, 3, applied_index=6)


def test_a_leadership_begins_with_an_entry_of_its_own_term() -> None:
    engine = _engine(5, 3)
    _lead(engine)
    assert engine.role is Role.LEADER
    assert engine.leader_id == "n1"
    assert (engine.term, engine.no_op_index, engine.last_index, engine.last_term) == (2, 6, 6, 2)
    assert engine.records(6, 1, 1) == [(b"\x01", 6, 2)]
    assert engine.append(b"entry") == 7


def test_the_last_entry_that_is_not_applied_is_found_behind_no_ops() -> None:
    engine = _engine(5, 3)
    _lead(engine)
    assert engine.last_entry() == command("o5")[1:]
    assert _engine(1).last_entry() == b"genesis"
