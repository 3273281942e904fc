"""How a command fails: one exception with a sentence for the person who typed it, and the exit status.

Commands raise it; `api.cli.main` prints it. A traceback that reaches a terminal is a defect of ours.
"""

# What the shell sees. 1 and 2 mean something of their own in `runstate status`.
EXIT_FAILED = 70
EXIT_USAGE = 64


class CommandError(Exception):
    """The command cannot do what was asked. The message says what is wrong and what to do, without a secret in it."""

    def __init__(self, message: str, exit_status: int = EXIT_FAILED) -> None:
        super().__init__(message)
        self.exit_status = exit_status
