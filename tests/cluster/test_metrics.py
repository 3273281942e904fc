"""Histograms count what they are given, by upper bound."""

from cluster.metrics import Histogram, Metrics


def test_observations_are_counted_by_upper_bound() -> None:
    histogram = Histogram((0.1, 1.0))
    for seconds in (0.05, 0.1, 0.5, 3.0):
        histogram.observe(seconds)
    assert histogram.buckets == [2, 1, 1]
    assert histogram.count == 4
    assert histogram.sum == 3.65


def test_nodes_share_no_counters() -> None:
    one, other = Metrics(), Metrics()
    one.commit_seconds.observe(1.0)
    one.follower_lag["n2"] = 1
    assert other.commit_seconds.count == 0
    assert other.follower_lag == {}
