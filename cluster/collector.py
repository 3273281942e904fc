"""Python's cyclic garbage collector, kept off the hot path.

A full collection walks every object there is: with a few million records it stops the loop for seconds, long enough to
lose a leadership. What the node keeps is not cyclic, so the oldest generation is never collected by itself; the young
ones still are, and they hold what a request leaves behind.
"""

import gc

# Young collections are cheap and rare; the third number counts middle collections until a full one, which never comes.
THRESHOLDS = (20_000, 20, 1 << 30)


def calm_collector() -> None:
    """Collect once, set aside what exists, and end full collections for this process. For a process that is a node."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
