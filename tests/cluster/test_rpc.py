"""Append-entries at the receiver, by figure 2 of the paper. Truncation and conflicts: tests/cluster/test_faults.py."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.frames import Appended
from tests.simulation.lone import LoneNode, alone, command


def test_the_commit_index_rises_to_what_the_frame_proved_and_never_falls() -> None:
    async def scenario(node: LoneNode) -> None:
        engine = node.core.engine
        await node.tell("n2", node.append(3, (1, 1), [(3, command(f"o{n}")) for n in range(9)], commit=1))
        await node.tell("n2", node.append(3, (3, 3), [], commit=99))
        assert engine.commit_index == 3
        await node.tell("n2", node.append(3, (10, 3), [], commit=7))
        assert engine.commit_index == 7
        await node.tell("n2", node.append(3, (10, 3), [], commit=2))
        assert engine.commit_index == engine.applied_index == 7

    alone(scenario)


def test_the_answer_to_an_earlier_term_counts_for_no_round_of_a_later_one() -> None:
    async def scenario(node: LoneNode) -> None:
        await node.tell("n2", node.append(5, (1, 1), []))
        answer = await node.answer("n3", node.append(4, (1, 1), [], round=1000), Appended)
        assert (answer.term, answer.round, answer.success) == (5, 0, False)

    alone(scenario)


def test_a_frame_before_the_first_entry_agrees_and_proves_nothing() -> None:
    async def scenario(node: LoneNode) -> None:
        answer = await node.answer("n2", node.append(3, (0, 0), [], commit=9), Appended)
        assert (answer.success, answer.match_index) == (True, 0)
        assert node.core.engine.commit_index == 1

    alone(scenario)


def test_a_quiet_frame_is_answered_only_when_it_does_not_fit() -> None:
    async def scenario(node: LoneNode) -> None:
        def quiet(previous: tuple[int, int]) -> dict[str, object]:
            frame = node.append(3, previous, [], commit=2)
            return {**_dict(frame), "quiet": True}

        await node.tell("n2", node.append(3, (1, 1), [(3, command("x"))]))
        assert await node.tell("n2", quiet((2, 3))) == []
        assert node.core.engine.commit_index == 2
        assert not (await node.answer("n2", quiet((5, 3)), Appended)).success

    alone(scenario)


def _dict(frame: object) -> dict[str, object]:
    from cluster import frames

    return frames.encode(frame)  # type: ignore[arg-type]


def test_two_leaders_of_one_term_end_the_node() -> None:
    async def scenario(node: LoneNode) -> None:
        await node.tell("n2", node.append(3, (1, 1), []))
        await node.tell("n3", node.append(3, (1, 1), []))
        assert "two leaders" in (node.ended or "")

    alone(scenario, may_end=True)


def test_a_leader_that_differs_in_what_is_committed_ends_the_node() -> None:
    async def scenario(node: LoneNode) -> None:
        await node.tell("n2", node.append(3, (1, 1), [(3, command(f"o{n}")) for n in range(9)], commit=8))
        await node.tell("n3", node.append(4, (6, 2), []))
        assert "entry 6 is committed" in (node.ended or "")

    alone(scenario, may_end=True)


def test_a_log_that_got_shorter_than_what_was_acknowledged_ends_the_node() -> None:
    async def scenario(node: LoneNode) -> None:
        await node.tell("n2", node.append(3, (1, 1), [(3, command(f"o{n}")) for n in range(9)]))
        node.core.engine.truncate_from(8)
        node.journal.sync()
        await node.tell("n2", node.append(3, (7, 3), []))
        assert "10 was acknowledged" in (node.ended or "")

    alone(scenario, may_end=True)


@dataclass
class _Frame:
    """What a leader sends: so many entries of its log from here on, and how much of it is committed."""

    start: int
    count: int
    commit: int


LEADERS_LOG = [1, 2, 2, 2, 4, 4, 6, 6, 6, 6]  # the terms of entries 1 ... 10
STRAYS = [3, 5]  # terms whose leaders committed nothing


@settings(max_examples=40)
@given(
    held=st.integers(1, 10),
    strays=st.lists(st.sampled_from(STRAYS), max_size=6).map(sorted),
    given_frames=st.lists(st.builds(_Frame, st.integers(1, 10), st.integers(0, 9), st.integers(1, 10)), max_size=12),
)
def test_whatever_arrives_in_whatever_order_the_log_becomes_the_leaders(
    held: int, strays: list[int], given_frames: list[_Frame]
) -> None:
    """The node has some of the leader's log, then entries that were never committed. All frames are of term 7."""
    terms = LEADERS_LOG[:held]
    terms += [term for term in strays if term >= terms[-1]]

    async def scenario(node: LoneNode) -> None:
        node.disk.records += [(command(f"o{index}"), index, term) for index, term in enumerate(terms[1:], 2)]
        node.disk.term = 6
        await node.restart()
        engine, acknowledged = node.core.engine, 0
        for number, part in enumerate([*given_frames, _Frame(1, 9, 10)], 1):
            entries = [
                (LEADERS_LOG[index - 1], command(f"o{index}"))
                for index in range(part.start + 1, min(part.start + part.count, 10) + 1)
            ]
            frame = node.append(7, (part.start, LEADERS_LOG[part.start - 1]), entries, commit=part.commit, round=number)
            answer = await node.answer("n2", frame, Appended)
            if answer.success:
                assert answer.match_index == part.start + len(entries)
                acknowledged = max(acknowledged, answer.match_index)
                held_terms = [term for _, _, term in node.disk.records][: answer.match_index]
                assert held_terms == LEADERS_LOG[: answer.match_index]
            else:
                assert 1 < answer.hint <= part.start
            assert engine.last_index >= acknowledged
            assert engine.commit_index <= max(acknowledged, 1)
        assert [term for _, _, term in node.disk.records][:10] == LEADERS_LOG
        assert engine.applied_index == 10

    alone(scenario)


@pytest.mark.parametrize("lease_now_ms", [5_000])
def test_clocks_are_heard(lease_now_ms: int) -> None:
    async def scenario(node: LoneNode) -> None:
        frame = {**_dict(node.append(3, (1, 1), [])), "lease_now_ms": lease_now_ms}
        await node.tell("n2", frame)
        assert node.replica.lease_now_ms() == lease_now_ms

    alone(scenario)
