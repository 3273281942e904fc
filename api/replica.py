"""What the HTTP front needs of the node behind it. `cluster.node.Replica` is the one that serves.

All of it is called on the node's event loop. Deadlines are `loop.time()` seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from cluster.metrics import Metrics
from cluster.proposer import OutcomeUnknown, Unavailable
from statemachine.machine import Applied, Machine, Outcome


class MemberStatus(Protocol):
    """What a node knows of a member.

    match_index: known to the leader alone. counts: whether its votes do, with the disk that it has now.
    certificate_ends_at: Unix seconds. Both None where they are not known.
    """

    @property
    def id(self) -> str: ...
    @property
    def match_index(self) -> int | None: ...
    @property
    def connected(self) -> bool: ...
    @property
    def http_url(self) -> str | None: ...
    @property
    def counts(self) -> bool | None: ...
    @property
    def certificate_ends_at(self) -> float | None: ...


class Status(Protocol):
    """A node's view of the cluster at this moment. role: leader, candidate or follower."""

    @property
    def node_id(self) -> str: ...
    @property
    def role(self) -> str: ...
    @property
    def leader_id(self) -> str | None: ...
    @property
    def leader_url(self) -> str | None: ...
    @property
    def leader_pid(self) -> int | None: ...
    @property
    def term(self) -> int: ...
    @property
    def commit_index(self) -> int: ...
    @property
    def applied_index(self) -> int: ...
    @property
    def last_index(self) -> int: ...
    @property
    def members(self) -> Sequence[MemberStatus]: ...


class Replica(Protocol):
    """One node of the replicated machine.

    ready: bootstrapped, has a leader and has caught up. draining: it stops soon and should not keep anybody waiting.
    """

    @property
    def machine(self) -> Machine: ...
    @property
    def metrics(self) -> Metrics: ...
    @property
    def node_id(self) -> str: ...
    @property
    def ready(self) -> bool: ...
    @property
    def draining(self) -> bool: ...

    async def propose(self, operation: bytes, *, urgent: bool, deadline: float) -> Outcome:
        """The outcome of an operation, once it was applied here.

        Raises Unavailable (definitely not applied) or OutcomeUnknown (the deadline passed, it may yet be applied).
        """

    async def read(self, deadline: float) -> int:
        """Return once the machine here is at least as new as the moment of this call. Raises Unavailable."""

    def lease_now_ms(self) -> int:
        """The best estimate of the cluster's lease time."""

    def subscribe(self, callback: Callable[[int, Applied], None]) -> None:
        """Call back with index and effect of every entry, right after it was applied."""

    def subscribe_jumps(self, callback: Callable[[int], None]) -> None:
        """Call back with the index when the machine's state is another one, without the entries up to there."""

    def incarnation_of(self, node_id: str) -> int | None:
        """The incarnation of a member's disk as it is connected now; None when it is not connected."""

    def status(self) -> Status: ...


__all__ = ["MemberStatus", "OutcomeUnknown", "Replica", "Status", "Unavailable"]
