"""The released clients, unmodified, against real nodes."""
