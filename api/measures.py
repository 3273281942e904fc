"""What the HTTP front counts. Plain numbers that the loop changes; `metrics` gives them their exported form.

Labels come from the declarations and the table of errors alone, never from a request, so their number is bounded.
"""

from __future__ import annotations

from collections import defaultdict

from cluster.metrics import Histogram


class Measures:
    """requests: by (operation, status, code). seconds: to answer, by operation, without those that wait on purpose.

    commit_seconds: from the proposal of an operation to its outcome at this node.
    """

    def __init__(self) -> None:
        self.requests: dict[tuple[str, int, str], int] = defaultdict(int)
        self.seconds: dict[str, Histogram] = defaultdict(Histogram)
        self.commit_seconds = Histogram()
        self.forwarded = 0  # operations that this node sent on to the leader
        self.unanswered = 0  # connections closed because nobody knows the outcome
        self.gone = 0  # requests whose client did not wait for the answer
