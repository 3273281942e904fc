"""Plain counters and gauges of the Raft core. The HTTP layer exports them; nothing here formats or labels.

Everything is a number that one thread, the loop's, changes; a reader may see it between two changes of one turn.
"""

from bisect import bisect_left
from dataclasses import dataclass, field

SECONDS = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Histogram:
    """Observations in seconds, counted by upper bound. buckets[i] counts those <= bounds[i]; the last one the rest."""

    def __init__(self, bounds: tuple[float, ...] = SECONDS) -> None:
        self.bounds = bounds
        self.buckets = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, seconds: float) -> None:
        self.buckets[bisect_left(self.bounds, seconds)] += 1
        self.sum += seconds

    @property
    def count(self) -> int:
        return sum(self.buckets)


@dataclass
class Metrics:
    """Counters rise for the life of the process; gauges are as of the last turn.

    follower_lag: node id to entries that it is behind, at the leader only.
    """

    elections: int = 0  # candidacies of this node
    leaderships: int = 0  # elections that it won
    term: int = 0
    is_leader: int = 0
    commit_index: int = 0
    applied_index: int = 0
    last_index: int = 0
    entries_proposed: int = 0  # appended to the log by this node as leader, its no-ops not counted
    operations_proposed: int = 0
    operations_applied: int = 0
    operations_waiting: int = 0  # at this node, not yet on their way
    operations_pending: int = 0  # of this node, on their way, outcome not known yet
    operations_refused: int = 0  # for want of room
    reads: int = 0
    read_rounds: int = 0
    syncs: int = 0
    long_turns: int = 0  # over 100 ms
    malformed_frames: int = 0
    due_stalls: int = 0  # due work that made no progress
    wall_clock_alarm: int = 0  # 1: no majority of clocks agrees, wall time runs on by the monotonic clock
    images: int = 0  # written
    image_records: int = 0  # changed records in them
    image_index: int = 0  # of the last durable one
    installs: int = 0  # images taken from a leader
    commit_seconds: Histogram = field(default_factory=Histogram)  # from append at the leader to commit
    sync_seconds: Histogram = field(default_factory=Histogram)
    turn_seconds: Histogram = field(default_factory=Histogram)
    image_seconds: Histogram = field(default_factory=Histogram)  # from freeze to durable
    follower_lag: dict[str, int] = field(default_factory=dict)
