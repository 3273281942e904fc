"""A child process that never outlives its supervisor, even when the supervisor is killed.

Linux sends the chosen signal when the parent is gone (`prctl(2)`, PR_SET_PDEATHSIG). SIGKILL is chosen because a node
loses nothing by it, and because no handler can be late or stuck. The setting is made by the child itself, so the parent
may be gone already: then nothing would ever be sent, and the child has to look.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with(parent_pid: int) -> bool:
    """Tie this process to its parent. False when the parent is gone already: the caller must end at once.

    Only Linux has the signal; elsewhere a child of a killed supervisor has to be stopped by hand.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    return os.getppid() == parent_pid
