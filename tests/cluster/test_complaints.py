"""One line a minute about one trouble."""

import logging

import pytest

from cluster.complaints import AGAIN_SECONDS, KEPT_MAX, Complaints


def test_the_same_trouble_is_told_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    complaints = Complaints(logging.getLogger("test"), lambda: now[0])
    for _ in range(5):
        complaints.tell("n2", "no answer")
    complaints.tell("n2", "another reason")
    complaints.tell("n3", "no answer")
    assert [record.getMessage() for record in caplog.records] == [
        "no connection with n2: no answer",
        "no connection with n2: another reason",
        "no connection with n3: no answer",
    ]
    now[0] = AGAIN_SECONDS
    complaints.tell("n2", "no answer")
    assert len(caplog.records) == 4


def test_trouble_after_it_was_over_is_news(caplog: pytest.LogCaptureFixture) -> None:
    complaints = Complaints(logging.getLogger("test"))
    complaints.tell("n2", "no answer")
    complaints.over("n3")
    complaints.tell("n2", "no answer")
    complaints.over("n2")
    complaints.tell("n2", "no answer")
    assert len(caplog.records) == 2


def test_it_remembers_a_bounded_number() -> None:
    complaints = Complaints(logging.getLogger("test"))
    for number in range(3 * KEPT_MAX):
        complaints.tell("stranger", f"garbage {number}")
    assert len(complaints._logged_at) <= KEPT_MAX
