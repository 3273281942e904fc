"""The two clocks that the leader stamps into entries: lease time and wall time.

Both are functions of a monotonic reading that the caller passes in (seconds), and neither ever falls.

Lease time only runs while there is a leader. A new leader starts it at the larger of the last log entry's and the last
heard in a heartbeat, lets it stand still for its first second, so that renewals come before anything lapses, and then
adds its own monotonic time. So a change of leader never makes a live holder lose its lease. A leader that stood still
itself (a stopped process, a frozen machine) was not there either: nobody could renew, and it goes on as a new one.

Wall time follows the median of the members' clocks. It runs with the leader's monotonic clock, at most 0.1 % faster or
5 % slower while it steers, and steps forward only by what a majority of clocks, which agree within two seconds, says.
Without such a majority it runs on and raises an alarm. So one bad clock can neither end runs nor freeze windows.
"""

from collections.abc import Mapping

from cluster.fatal import InvariantBroken
from cluster.quorum import Quorum

STANDSTILL_S = 1.0
AGREEMENT_MS = 2_000
STEP_MS = 1_000  # beyond it a leader steps; below it steers
FASTEST = 1.001
SLOWEST = 0.95
SAMPLE_LIVES_S = 10.0
ROUNDING_S = 0.0001  # a time that is reached is reached in whole milliseconds as well


class LeaseClock:
    """Lease time in milliseconds. longest_s: how long a leader may be silent; for so long a follower extrapolates what
    it heard, and one that was not looked at for longer stood still.
    """

    def __init__(self, longest_s: float) -> None:
        self._longest_s = longest_s
        self._heard_ms = 0
        self._heard_at = float("-inf")
        self._start_ms = 0
        self._led_since: float | None = None
        self._looked_at = float("-inf")
        self._stamped_ms = 0

    def hear(self, lease_now_ms: int, now: float) -> None:
        """A heartbeat told the leader's lease time."""
        if lease_now_ms >= self._heard_ms:
            self._heard_ms = lease_now_ms
            self._heard_at = now

    def lead(self, logged_ms: int, now: float) -> None:
        """This node leads from now on. logged_ms: lease time of the last entry in its log."""
        self._start_ms = self._stamped_ms = max(logged_ms, self._heard_ms)
        self._led_since = self._looked_at = now

    def look(self, now: float) -> None:
        """At the leader, before anything is stamped in a turn: the time for which it stood still does not count."""
        if self._led_since is not None:
            if now - self._looked_at > self._longest_s:
                self._start_ms = max(self._stamped_ms, self.now_ms(self._looked_at))
                self._led_since = now
            self._looked_at = now

    def stop(self, now: float) -> None:
        """This node leads no more."""
        if self._led_since is not None:
            self.look(now)
            self.hear(self.now_ms(now), now)
            self._led_since = None

    def now_ms(self, now: float) -> int:
        """At the leader: lease time. Elsewhere: the best estimate; it stands still when no leader is heard."""
        if self._led_since is None:
            return self._heard_ms + int(1000 * min(max(now - self._heard_at, 0.0), self._longest_s))
        return self._start_ms + int(1000 * max(now - self._led_since - STANDSTILL_S, 0.0))

    def stamp(self, now: float) -> int:
        """At the leader: lease time for an entry or a heartbeat."""
        stamp = self.now_ms(now)
        if self._led_since is None or stamp < self._stamped_ms:
            raise InvariantBroken(f"lease time {self._stamped_ms} would become {stamp}")
        self._stamped_ms = stamp
        return stamp

    def reaches_at(self, lease_ms: int) -> float:
        """At the leader: the monotonic reading at which lease time reaches lease_ms."""
        if self._led_since is None:
            return float("inf")
        if lease_ms <= self._start_ms:
            return self._led_since
        return self._led_since + STANDSTILL_S + (lease_ms - self._start_ms) / 1000 + ROUNDING_S


class WallClock:
    """The cluster's wall time in milliseconds."""

    def __init__(self, quorum: Quorum) -> None:
        self._quorum = quorum
        self._base_ms = 0.0  # wall time at _base_at, running at _rate from there
        self._base_at = float("-inf")
        self._rate = 1.0
        self._leads = False
        self._samples: dict[str, tuple[float, float]] = {}  # peer to (clock minus our monotonic in ms, heard at)
        self._stamped_ms = 0
        self.alarm = False

    def hear(self, wall_now_ms: int, now: float) -> None:
        """A heartbeat told the cluster's wall time."""
        self._base_ms, self._base_at, self._rate = float(wall_now_ms), now, 1.0

    def sample(self, node_id: str, wall_ms: int, now: float) -> None:
        """A peer told its own clock."""
        self._samples[node_id] = (wall_ms - now * 1000, now)

    def lead(self, logged_ms: int, own_ms: int, now: float) -> None:
        """This node leads from now on. logged_ms: wall time of the last entry in its log. own_ms: its own clock."""
        self._base_ms = max(float(logged_ms), self._at(now))
        self._base_at, self._rate = now, 1.0
        self._leads = True
        self._stamped_ms = logged_ms
        self.steer(own_ms, now)

    def stop(self) -> None:
        """This node leads no more; it extrapolates until it hears a heartbeat."""
        self._leads = False
        self._rate = 1.0
        self.alarm = False

    def _at(self, now: float) -> float:
        if self._base_at == float("-inf"):
            return 0.0
        return self._base_ms + 1000 * (now - self._base_at) * self._rate

    def stamp(self, now: float) -> int:
        """At the leader: wall time for an entry or a heartbeat."""
        stamp = int(self._at(now))
        if not self._leads or stamp < self._stamped_ms:
            raise InvariantBroken(f"wall time {self._stamped_ms} would become {stamp}")
        self._stamped_ms = stamp
        return stamp

    def reaches_at(self, wall_ms: int) -> float:
        """At the leader: the monotonic reading at which wall time reaches wall_ms, if it runs on as it does."""
        if not self._leads:
            return float("inf")
        return self._base_at + (wall_ms - self._base_ms) / 1000 / self._rate + ROUNDING_S

    def is_off(self, own_ms: int, now: float) -> bool:
        """Whether this node's own clock is far from the wall time that the last leader told."""
        return self._base_at != float("-inf") and abs(own_ms - self._at(now)) > AGREEMENT_MS

    def steer(self, own_ms: int, now: float) -> None:
        """At the leader, a few times a second: approach the members' median. own_ms: this node's own clock."""
        if not self._leads:
            return
        current = self._at(now)
        target = self._agreed(own_ms, now)
        self.alarm = target is None
        if target is not None and target - current > STEP_MS:
            current, rate = target, 1.0
        elif target is None or abs(target - current) < 1.0:
            rate = 1.0
        else:
            rate = FASTEST if target > current else SLOWEST
        self._base_ms, self._base_at, self._rate = current, now, rate

    def _agreed(self, own_ms: int, now: float) -> float | None:
        """The median of the listed members' clocks, if a majority of them is near it."""
        clocks = sorted(self._clocks(own_ms, now).values())
        median = clocks[(len(clocks) - 1) // 2]
        agreeing = sum(abs(clock - median) <= AGREEMENT_MS for clock in clocks)
        return median if agreeing >= self._quorum.size else None

    def _clocks(self, own_ms: int, now: float) -> Mapping[str, float]:
        clocks = {self._quorum.node_id: float(own_ms)}
        for node_id in self._quorum.members:
            offset_ms, heard_at = self._samples.get(node_id, (0.0, float("-inf")))
            if node_id != self._quorum.node_id and now - heard_at <= SAMPLE_LIVES_S:
                clocks[node_id] = offset_ms + now * 1000
        return clocks
