"""Run as a script: `python -IS tied.py PARENT COMMAND…` becomes the command, and is killed when the parent is gone.

Programs of the tests must not outlive a pytest that was killed. The setting survives exec; it is made here because a
process with threads must not run Python between fork and exec.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:
        sys.exit("the test run that wanted this is gone")
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
