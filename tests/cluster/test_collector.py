"""A calmed process collects what is young and never walks everything."""

import subprocess
import sys


def test_full_collections_end_and_young_ones_go_on() -> None:
    program = """
import gc
from cluster.collector import calm_collector
kept = [[number] for number in range(100_000)]
calm_collector()
assert gc.get_freeze_count() > 100_000
before = [generation["collections"] for generation in gc.get_stats()]
for _ in range(2_000_000):
    cycle = []
    cycle.append(cycle)
young, middle, full = (after["collections"] - n for after, n in zip(gc.get_stats(), before))
assert young > 50 and middle > 2 and full == 0, (young, middle, full)
assert len(gc.get_objects()) < 100_000
"""
    subprocess.run([sys.executable, "-c", program], check=True)
