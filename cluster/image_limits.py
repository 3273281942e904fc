"""How often images are taken, how much of the log is kept behind them, and how they travel. All bounds in one place.

Tests make them small; a running node uses them as they are, but for `kept_entries`, which is an option.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class ImageLimits:
    """every_s: pause between two images, which is about how much of the log a restart applies.

    kept_entries, kept_bytes: of the log, kept behind the image for followers that are a little slow; whichever is less.
    A follower that needs more gets an image. chunk_bytes, window_chunks: how an image is sent, and how much of it may
    be on its way. transfer_log_bytes: how much the log may grow while one is sent; then the transfer begins again, with
    a newer image. stalled_s: a transfer without progress for so long is given up. again_s: pause after one that failed.
    compare_every_s: how often the nodes compare the contents of their images.
    """

    every_s: float = 0.5
    kept_entries: int = 10_000
    kept_bytes: int = 64 << 20
    chunk_bytes: int = 256 << 10
    window_chunks: int = 4
    transfer_log_bytes: int = 1 << 30
    stalled_s: float = 30.0
    again_s: float = 1.0
    compare_every_s: float = 60.0
