"""Replication: all input and output, clocks and entropy of the core."""
