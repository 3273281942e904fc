"""Log lines about the same trouble, once a minute and not for each attempt."""

import logging
import time
from collections.abc import Callable

AGAIN_SECONDS = 60.0
KEPT_MAX = 100


class Complaints:
    """log: where the lines go. clock: monotonic seconds."""

    def __init__(self, log: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._logged_at: dict[tuple[str, str], float] = {}

    def tell(self, who: str, reason: str) -> None:
        now = self._clock()
        last = self._logged_at.get((who, reason))
        if last is not None and now - last < AGAIN_SECONDS:
            return
        if len(self._logged_at) >= KEPT_MAX:
            self._logged_at.clear()
        self._logged_at[who, reason] = now
        self._log.warning("no connection with %s: %s", who, reason)

    def over(self, who: str) -> None:
        """All is well with them now; the next trouble is news."""
        self._logged_at = {key: at for key, at in self._logged_at.items() if key[0] != who}
