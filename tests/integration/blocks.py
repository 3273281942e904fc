"""Ports for one cluster at a time, never shared between test processes of one machine.

A block is ten ports. Its first port is kept bound as long as the block is in use: whoever else wants the block sees
that, also another pytest run. Blocks lie below the range from which the kernel takes ports of outgoing connections.
"""

import os
import socket
from types import TracebackType

HOST = "127.0.0.1"
FIRST, LAST, SIZE = 17_000, 31_000, 10
_STRIDE = 40  # blocks between the starts of two workers' searches


class PortBlock:
    """Nine free ports in a row, `ports`, until `close`."""

    def __init__(self) -> None:
        blocks = (LAST - FIRST) // SIZE
        worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
        start = worker * _STRIDE
        for step in range(blocks):
            first = FIRST + (start + step) % blocks * SIZE
            guard = _bind(first)
            if guard is None:
                continue
            ports = range(first + 1, first + SIZE)
            if all(_is_free(port) for port in ports):
                self._guard = guard
                self.ports = list(ports)
                return
            guard.close()
        raise RuntimeError(f"no {SIZE} free ports in a row between {FIRST} and {LAST}")

    def close(self) -> None:
        self._guard.close()

    def __enter__(self) -> "PortBlock":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _bind(port: int) -> socket.socket | None:
    probe = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # As servers bind: a port whose last connections linger is free.
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        probe.bind((HOST, port))
        # Two sockets that only bind can share a port; one that listens excludes all others.
        probe.listen(1)
    except OSError:
        probe.close()
        return None
    return probe


def _is_free(port: int) -> bool:
    probe = _bind(port)
    if probe is None:
        return False
    probe.close()
    return True
