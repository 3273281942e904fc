"""Whether a node lives and whether it serves: for balancers, supervisors and people, without a key."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import UNSET, UnsetType

from api.call import Call
from api.endpoint import Page
from api.own import OwnEndpoint
from api.replica import Replica
from api.respond import JSON, with_request_id
from statemachine.errors import UNAVAILABLE, Refused
from statemachine.machine import refusal


class Alive(msgspec.Struct, frozen=True, rename="camel"):
    status: str
    node: str


class Readiness(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """reason: why the node does not serve; absent when it does. leader_pid: only where all members share a machine."""

    node: str
    role: str
    leader: str | None
    leader_url: str | None
    term: int
    applied: int
    commit: int
    leader_pid: int | UnsetType = UNSET
    reason: str | UnsetType = UNSET


class Health:
    """draining: whether this front takes no new requests any more."""

    def __init__(self, replica: Replica, draining: Callable[[], bool]) -> None:
        self._replica = replica
        self._draining = draining

    def endpoints(self) -> list[OwnEndpoint]:
        return [
            OwnEndpoint("healthz", "GET", "/healthz", None, "The process lives.", self.alive, response=Alive),
            OwnEndpoint(
                "readyz",
                "GET",
                "/readyz",
                None,
                "Whether the node serves: 200, or 503 with the reason. The rest is its view of the cluster.",
                self.ready,
                response=Readiness,
                errors=(UNAVAILABLE,),
            ),
        ]

    async def alive(self, _: Call) -> Page:
        return Page(200, JSON, msgspec.json.encode(Alive(status="ok", node=self._replica.node_id)))

    async def ready(self, call: Call) -> Page:
        status = self._replica.status()
        reason = self._reason()
        body = msgspec.json.encode(
            Readiness(
                node=status.node_id,
                role=status.role,
                leader=status.leader_id,
                leader_url=status.leader_url,
                term=status.term,
                applied=status.applied_index,
                commit=status.commit_index,
                leader_pid=UNSET if status.leader_pid is None else status.leader_pid,
                reason=reason or UNSET,
            )
        )
        if not reason:
            return Page(200, JSON, body)
        error = with_request_id(refusal(Refused(UNAVAILABLE, reason), 0, 0).body, call.id)
        return Page(503, JSON, body[:-1] + b"," + error[1:])

    def _reason(self) -> str:
        replica = self._replica
        if self._draining() or replica.draining:
            return "the node drains and stops soon"
        if replica.ready:
            return ""
        if not replica.machine.cluster_id:
            return "the node waits for the bootstrap of its cluster, or has not read its log yet"
        return "there is no leader" if replica.status().leader_id is None else "the node catches up with the leader"
