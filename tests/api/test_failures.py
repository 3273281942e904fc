"""Failures of endpoints as refusals."""

from __future__ import annotations

import logging

import pytest

from api.failures import as_refused
from api.replica import Unavailable
from statemachine.errors import CONFLICT, INTERNAL, UNAVAILABLE, Refused


def test_a_refusal_stays_what_it_is() -> None:
    refused = Refused(CONFLICT, "other settings", differs=["units"])
    assert as_refused(refused) is refused


def test_want_of_a_leader_says_that_nothing_was_changed() -> None:
    refused = as_refused(Unavailable("no leader took it"))
    assert (refused.error, refused.message) == (UNAVAILABLE, "no leader took it; nothing was changed")


def test_everything_else_is_a_defect_that_is_logged_but_not_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "runstate.http"):
        refused = as_refused(KeyError("secret"))
    assert refused.error is INTERNAL
    assert "secret" not in refused.message
    assert "secret" in caplog.text
