"""What a node says about itself to anybody who asks: `/readyz`."""

from typing import Any

import msgspec

from api.cli.calls import Unreachable, request

# The node answers from memory, so a longer wait would only mean that it hangs.
PROBE_SECONDS = 2.0


class Probe(msgspec.Struct, frozen=True):
    """One look at one node. `problem` says in few words why it is not ready; empty when it is."""

    endpoint: str
    reachable: bool
    problem: str
    said: dict[str, Any]


def probe(endpoint: str) -> Probe:
    """Ask a node whether it is ready. Never raises for a node that is not there: that is an answer too."""
    try:
        answer = request(endpoint, "GET", "/readyz", timeout_seconds=PROBE_SECONDS)
    except Unreachable as error:
        return Probe(endpoint, reachable=False, problem=str(error), said={})
    problem = "" if answer.status == 200 else str(answer.body.get("reason") or "not ready")
    return Probe(endpoint, reachable=True, problem=problem, said=answer.body)
