"""How many connections this process may hold: one open file each, and some left for everything else."""

from __future__ import annotations

import resource

from api.limits import CONNECTIONS

RESERVED = 256  # journal, connections of other members, listening sockets, standard streams


def connections_allowed(most: int = CONNECTIONS) -> int:
    """Raise the soft limit on open files as far as the hard one allows, and return how many connections fit.

    most: connections that are wanted.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = most + RESERVED
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return most if soft == resource.RLIM_INFINITY else max(1, min(most, soft - RESERVED))
