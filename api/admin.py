"""The operator's view of the cluster, and what an operator may have a node do. Changes of state are declared elsewhere.

It is this node's own view and needs no leader: it is asked for when something is wrong.
"""

from __future__ import annotations

import msgspec

from api.call import Call
from api.endpoint import Page
from api.gate import Gate
from api.nowhere import stand_in
from api.own import OwnEndpoint
from api.replica import Replica
from api.respond import JSON
from statemachine.declare import Access
from statemachine.entry import OPERATOR
from statemachine.types import time_text


class MemberView(msgspec.Struct, frozen=True, rename="camel"):
    """match, lag: how far the member's log is and how many entries are missing; only the leader knows. connected: to
    the node that answers. counts: whether its votes and acknowledgements do with the disk that it has now; null when it
    is not connected. certificate_expires_at: of the certificate by which the other members know it."""

    id: str
    url: str | None
    state: str
    match: int | None
    lag: int | None
    connected: bool
    counts: bool | None
    certificate_expires_at: str | None


class ClusterView(msgspec.Struct, frozen=True, rename="camel"):
    """node: the one that answers."""

    node: str
    cluster_id: str
    feature_level: int
    leader: str | None
    leader_url: str | None
    term: int
    commit: int
    applied: int
    last: int
    chain: str
    members: list[MemberView]


class Admin:
    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._gate = Gate(replica)

    def endpoints(self) -> list[OwnEndpoint]:
        return [
            OwnEndpoint(
                "cluster.show",
                "GET",
                "/admin/v1/cluster",
                Access.OPERATOR,
                "The members, who leads, and how far each is. As this node sees it, also without a leader.",
                self.cluster,
                response=ClusterView,
            )
        ]

    async def cluster(self, call: Call) -> Page:
        if call.actor != OPERATOR:
            await self._gate.require(call, stand_in(Access.OPERATOR))
        status, machine = self._replica.status(), self._replica.machine
        members = []
        for member in status.members:
            itself, ends_at = member.id == status.node_id, member.certificate_ends_at
            match = status.last_index if itself and status.role == "leader" else member.match_index
            if member.id == status.leader_id:
                state = "leader"
            elif itself:
                state = status.role
            else:
                state = "follower" if member.connected else "unreachable"
            members.append(
                MemberView(
                    id=member.id,
                    url=member.http_url,
                    state=state,
                    match=match,
                    lag=None if match is None else max(0, status.last_index - match),
                    connected=itself or member.connected,
                    counts=member.counts,
                    certificate_expires_at=None if ends_at is None else time_text(int(ends_at * 1000)),
                )
            )
        view = ClusterView(
            node=status.node_id,
            cluster_id=machine.cluster_id,
            feature_level=machine.feature_level,
            leader=status.leader_id,
            leader_url=status.leader_url,
            term=status.term,
            commit=status.commit_index,
            applied=status.applied_index,
            last=status.last_index,
            chain=machine.chain.hex(),
            members=members,
        )
        return Page(200, JSON, msgspec.json.encode(view))
