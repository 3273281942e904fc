"""The log of a node: plain lines on standard error, `time level logger: message`, time in UTC.

Nothing that is logged may hold a key, a token or a payload. That is the duty of whoever logs; there is no filter that
could be trusted to find them.
"""

import logging
import time


def log_to_stderr(level: str) -> None:
    """Send the records of all loggers from this level on ("debug", "info", "warning", "error") to standard error."""
    formatter = logging.Formatter("%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
