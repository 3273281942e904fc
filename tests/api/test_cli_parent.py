"""A child that dies with its supervisor, with real processes."""

import signal
import subprocess
import sys

import pytest

CHILD = """
import os, signal, sys
from api.cli.parent import die_with
print(die_with(int(sys.argv[1])), os.getpid(), flush=True)
signal.pause()
"""

# Starts the child, passes on its line, and waits to be killed.
SUPERVISOR = f"""
import os, signal, subprocess, sys
subprocess.Popen([sys.executable, "-c", {CHILD!r}, str(os.getpid())])
signal.pause()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent died")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_child_dies_when_its_supervisor_is_killed(number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", SUPERVISOR], stdout=subprocess.PIPE, text=True) as supervisor:
        assert supervisor.stdout is not None
        tied = supervisor.stdout.readline()
        assert tied.startswith("True ")
        supervisor.send_signal(number)
        supervisor.wait(20)
        # The pipe ends when the last process that holds it is gone.
        assert supervisor.stdout.read() == ""


def test_a_parent_that_is_gone_already_is_noticed() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", CHILD.replace("signal.pause()", ""), "0"], capture_output=True, text=True, check=True
    )
    assert ran.stdout.split()[0] == "False"
