"""What an endpoint may fail with, as a refusal."""

from __future__ import annotations

import logging

from api.replica import Unavailable
from statemachine.errors import INTERNAL, UNAVAILABLE, Refused

_log = logging.getLogger("runstate.http")


def as_refused(error: Exception) -> Refused:
    """A refusal as it is; UNAVAILABLE for want of a leader; everything else is a defect, logged and INTERNAL."""
    match error:
        case Refused():
            return error
        case Unavailable():
            return Refused(UNAVAILABLE, f"{error}; nothing was changed")
        case _:
            _log.error("a defect while answering a request", exc_info=error)
            return Refused(INTERNAL, f"a defect of the server ({type(error).__name__})")
