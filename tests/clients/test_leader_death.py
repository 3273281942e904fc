"""A leader's death is no event for the released clients: requests through the other nodes wait and succeed."""

from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.clients.program import ClientProgram
from tests.integration.cluster import Cluster, Space
from tests.integration.waiting import eventually

ROUNDS = 3


@pytest.mark.timeout(180)
def test_once_sees_no_error(shared_cluster: Cluster, shared_space: Space, tmp_path: Path) -> None:
    executions = tmp_path / "executions"
    executions.touch()

    def done() -> int:
        return len(executions.read_text().splitlines())

    def more(number: int) -> None:
        wanted = done() + number
        eventually(lambda: done() >= wanted, within_seconds=30, what=lambda: f"{wanted} executions; there are {done()}")

    for number in range(ROUNDS):
        leader = shared_cluster.leader()
        with ExitStack() as stack:
            programs = [
                stack.enter_context(
                    ClientProgram(
                        "0.3.0",
                        "once_on_and_on.py",
                        shared_space,
                        node,
                        tmp_path,
                        f"round-{number}-{node.id}",
                        executions,
                        name=f"round-{number}-at-{node.id}",
                        RUNSTATE_RUN=f"round {number}",
                    )
                )
                for node in shared_cluster.followers()
            ]
            more(20)
            leader.program.kill()
            more(20)
            shared_cluster.restart([leader])
            more(20)
            assert [program.program.terminate() for program in programs] == [0, 0], [
                program.program.last_words() for program in programs
            ]
    again = {piece: count for piece, count in Counter(executions.read_text().splitlines()).items() if count > 1}
    assert not again


@pytest.mark.timeout(180)
@pytest.mark.parametrize("version", ["0.1.1", "0.2.0"])
def test_a_claim_renewed_by_its_client_is_kept(
    shared_cluster: Cluster, shared_space: Space, tmp_path: Path, version: str
) -> None:
    leader = shared_cluster.leader()
    with ExitStack() as stack:
        programs = [
            stack.enter_context(
                ClientProgram(
                    version, "claim_on_and_on.py", shared_space, node, tmp_path, node.id, name=f"at-{node.id}"
                )
            )
            for node in shared_cluster.followers()
        ]

        def more(number: int) -> None:
            wanted = {program: len(program.seen()) + number for program in programs}
            eventually(
                lambda: all(program.program.alive and len(program.seen()) >= wanted[program] for program in programs),
                within_seconds=30,
                what=lambda: "\n".join(program.program.last_words() for program in programs),
            )

        more(20)
        leader.program.kill()
        more(20)
        shared_cluster.restart([leader])
        more(20)
        for program in programs:
            assert program.program.terminate() == 0, program.program.last_words()
            said = program.seen()
            generations = [line["generation"] for line in said if "generation" in line]
            assert generations == list(range(1, len(generations) + 1))
