"""One node's Raft core put together: what a turn does, and in which order.

Received frames only change state in memory and leave their answers in the outbox. A turn then does the rest once for
all of them: commit, gather proposals, send entries, one journal sync, answers, apply, news of the commit.

Invariant: nothing that promises durability leaves between a change and its sync. Any exception ends the node.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Sequence

from cluster import frames
from cluster.admission import Admission
from cluster.applier import Applier
from cluster.archive import Archive
from cluster.clock import LeaseClock, WallClock
from cluster.config import NodeConfig
from cluster.digests import Digests
from cluster.duties import Duties
from cluster.election import Election
from cluster.engine import Engine
from cluster.fatal import Fatal
from cluster.handover import Handover
from cluster.image import Image
from cluster.image_records import ImageMeta
from cluster.imaging import Imaging
from cluster.intake import Intake
from cluster.leadership import Leadership
from cluster.metrics import Metrics
from cluster.outbox import Outbox, barrier
from cluster.ports import Clocks, JournalPort, TransportPort
from cluster.proposer import Proposer
from cluster.pulse import Pulse
from cluster.quorum import Quorum
from cluster.reads import LeaderReads, Reads
from cluster.reception import Handler, Reception
from cluster.replication import Replication
from cluster.restart import ImageGround
from cluster.rpc import AppendHandler
from statemachine.machine import Applied, Machine

LONG_TURN_S = 0.1
FAREWELL_S = 0.1  # for a last message to leave before the node ends

log = logging.getLogger(__name__)


class Core:
    """session: random number of this process. sync: makes the journal durable, returns the seconds that it took.

    rng: for timeouts and nonces. entropy: 16 random bytes for an entry. end: ends the node. image: the one of which the
    machine was made. jumped: called with the index when a later image took the place of the state.
    """

    def __init__(
        self,
        config: NodeConfig,
        journal: JournalPort,
        transport: TransportPort,
        machine: Machine,
        metrics: Metrics,
        *,
        incarnation: int,
        session: int,
        sync: Callable[[], float],
        clocks: Clocks,
        rng: random.Random,
        entropy: Callable[[], bytes],
        end: Fatal,
        subscribers: Sequence[Callable[[int, Applied], None]] = (),
        images: ImageGround,
        image: Image,
        jumped: Sequence[Callable[[int], None]] = (),
        archive: Archive | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._journal = journal
        self._sync = sync
        self._machine = machine
        self._metrics = metrics
        self._clocks = clocks
        self._end = end
        shortest_s, longest_s = (ms / 1000 for ms in config.election_timeout_ms)
        self._heartbeat_s = config.heartbeat_ms / 1000
        self._jumped = jumped
        self._joined_at_index: int | None = None  # what was committed when this node first heard a leader
        self._pulse = Pulse(clocks, end, self._turn, self._tick, self._rings_at)
        self.kick = self._pulse.kick
        self._reception = Reception(
            clocks,
            metrics,
            end,
            got_input=self._pulse.got_input,
            connected=self._connected,
            disconnected=self._disconnected,
        )

        self.engine = engine = Engine(config.id, list(config.peers), journal, transport, self._reception, image.index)
        self.quorum = Quorum(machine.members, config.id, incarnation)
        self.outbox = Outbox(engine)
        self.lease_clock = LeaseClock(longest_s)
        self.wall_clock = WallClock(self.quorum)
        self.digests = Digests(self.quorum, end, self._tell_divergence_and_end)
        self.replication = Replication(engine, self.outbox, self.quorum, self._stamp, self._heartbeat_s)
        self.proposer = Proposer(engine, self.outbox, metrics, session=session, kick=self.kick)
        self.intake = self.proposer.intake = Intake(
            engine,
            self.outbox,
            clocks,
            self.lease_clock,
            self.wall_clock,
            metrics,
            session=session,
            entropy=entropy,
            give_back=self.proposer.on_given_back,
        )
        self.leader_reads = LeaderReads(engine, self.replication, metrics)
        self.reads = Reads(engine, self.outbox, self.leader_reads, metrics, session=session)
        self.duties = Duties(machine, self.intake, self.lease_clock, self.wall_clock, metrics, self.leads)
        self.applier = Applier(
            engine, machine, self.proposer, self.duties, self.digests, clocks, metrics, subscribers, archive
        )
        self.admission = Admission(engine, machine, self.replication, self.intake)
        self.handover = Handover(engine, self.outbox, self.replication, self.intake, rng, longest_s)
        self.leadership = Leadership(
            engine,
            machine,
            clocks,
            self.lease_clock,
            self.wall_clock,
            self.replication,
            self.intake,
            self.leader_reads,
            self.duties,
            self.handover,
            self.kick,
        )
        self.election = Election(
            engine,
            self.outbox,
            self.quorum,
            clocks,
            rng,
            metrics,
            shortest_s=shortest_s,
            longest_s=longest_s,
            wall_is_off=lambda now: self.wall_clock.is_off(clocks.wall_ms(), now),
            answered_since=self.replication.answered_since,
            on_elected=self.leadership.begin,
            on_deposed=self._on_deposed,
            on_clock=self.wall_clock.sample,
        )
        self.append_handler = AppendHandler(
            engine,
            self.outbox,
            self.quorum,
            clocks,
            self.election,
            self.lease_clock,
            self.wall_clock,
            self._on_news,
        )
        self.imaging = Imaging(
            engine,
            machine,
            self.outbox,
            self.quorum,
            self.replication,
            self.intake,
            self.append_handler,
            clocks,
            metrics,
            images,
            image,
            end,
            leads=self.leads,
            installed=self._on_installed,
            behind=self._on_behind,
            tell_and_end=self._tell_and_end,
            kick=self.kick,
        )
        self.applier.on_applied = self.imaging.on_applied
        if image.meta is not None:
            self.digests.on_restored(machine.index, machine.chain)
        self._reception.open(self._handlers())
        transport.before_send = lambda message: barrier(engine, message)
        transport.on_turn = self.kick

    # ------------------------------------------------------------------ life

    def start(self) -> None:
        """Begin to take turns. Without an image genesis is applied at once, so that this node knows the members."""
        self.applier.apply_first()
        self._pulse.start()

    def close(self) -> None:
        """Take no further turn; whoever waits is told."""
        self._reception.close()
        self._pulse.close()
        self.applier.close()
        self.imaging.close()
        self.proposer.close()
        self.reads.close()

    def is_ready(self) -> bool:
        """Whether there is a leader and this node is as far as the others were when it joined."""
        if self.engine.is_leader:
            return self.leads()
        joined_at = self._joined_at_index
        return self.engine.leader_id is not None and joined_at is not None and self.engine.applied_index >= joined_at

    def leads(self) -> bool:
        """Whether this node leads and its state has everything of the terms before."""
        return self.engine.is_leader and self.engine.applied_index >= self.engine.no_op_index

    # ------------------------------------------------------------------ time

    def _rings_at(self, now: float) -> float:
        at = min(now + self._heartbeat_s, self.duties.due_at())
        return at if self.engine.is_leader else min(at, self.election.deadline)

    def _tick(self) -> None:
        now = self._clocks.monotonic()
        self.election.judge(now)
        self.handover.tick(now)
        self.proposer.tick(now)
        self.reads.tick(now)
        self.wall_clock.steer(self._clocks.wall_ms(), now)
        self.imaging.tick(now)
        self._turn()
        self._gauge()

    # ------------------------------------------------------------------ a turn

    def _turn(self) -> None:
        now = self._clocks.monotonic()
        engine = self.engine
        self.lease_clock.look(now)
        if engine.is_leader:
            self._commit(now)
        self.proposer.turn()
        self.reads.turn(now)
        if engine.is_leader:
            self.intake.append()
            self.duties.turn(now)
            if self.leads():
                self.admission.turn()
            self.imaging.contents.turn(now)
            self.replication.send(now, everyone=self.leader_reads.wants_round())
            self.handover.turn()
        self.imaging.before_sync()
        self._sync_if_dirty()
        self.outbox.flush()
        if engine.is_leader:
            self._commit(now)
        if self.applier.apply_slice():
            self.kick()
        self.imaging.after_apply(now)
        self.leader_reads.settle()
        self.reads.settle()
        if engine.is_leader:
            self.replication.tell_commit(now)
        self.outbox.flush()
        self.election.conclude(now)
        took = self._clocks.monotonic() - now
        self._metrics.turn_seconds.observe(took)
        if took > LONG_TURN_S:
            self._metrics.long_turns += 1
            log.warning("a turn took %.0f ms", took * 1000)

    def _commit(self, now: float) -> None:
        if self.replication.advance_commit():
            self.intake.committed(now)
            if not self.intake.is_idle:
                self.kick()

    def _sync_if_dirty(self) -> None:
        if self._journal.dirty:
            self._metrics.sync_seconds.observe(self._sync())
            self._metrics.syncs += 1

    # ------------------------------------------------------------------ what arrives

    def _handlers(self) -> dict[type[frames.Frame], Handler]:
        return {
            frames.AppendEntries: self.append_handler.on_append_entries,
            frames.Appended: self._on_appended,
            frames.PreVote: self.election.on_pre_vote,
            frames.PreVoteAnswer: self.election.on_pre_vote_answer,
            frames.RequestVote: self.election.on_request_vote,
            frames.Vote: self.election.on_vote,
            frames.Transfer: self.election.on_transfer,
            frames.Propose: lambda node_id, frame, now: self.intake.on_propose(node_id, frame),
            frames.Refused: lambda node_id, frame, now: self.proposer.on_refused(node_id, frame),
            frames.ReadIndex: lambda node_id, frame, now: self.reads.on_read_index(node_id, frame),
            frames.ReadAnswer: lambda node_id, frame, now: self.reads.on_read_answer(frame),
            frames.Expelled: lambda node_id, frame, now: self._on_expelled(node_id, frame),
            frames.Diverged: lambda node_id, frame, now: self._on_diverged(node_id, frame),
            **self.imaging.handlers(self.election.see_term),
        }

    def _connected(self, node_id: str) -> None:
        self.replication.lost_connection(node_id)
        self.imaging.lost_connection(node_id)
        self.proposer.on_connected(node_id)
        self.reads.on_connected()
        self.kick()

    def _disconnected(self, node_id: str) -> None:
        self.replication.lost_connection(node_id)
        self.imaging.lost_connection(node_id)

    def _on_appended(self, node_id: str, frame: frames.Appended, now: float) -> None:
        self.wall_clock.sample(node_id, frame.wall_ms, now)
        if self.wall_clock.alarm:
            self.wall_clock.steer(self._clocks.wall_ms(), now)
        self.election.see_term(frame.term, now)
        if self.engine.is_leader and frame.term == self.engine.term:
            self.replication.on_appended(node_id, frame, now)

    def _on_news(self, leader_id: str, frame: frames.AppendEntries) -> None:
        if self._joined_at_index is None:
            self._joined_at_index = frame.commit_index
        if frame.digest is not None:
            self.digests.on_leader_digest(leader_id, *frame.digest)

    def _on_expelled(self, node_id: str, frame: frames.Expelled) -> None:
        if frame.term == self.engine.term and node_id == self.engine.leader_id:
            self._end(f"the leader {node_id} refuses this node: {frame.reason}")

    def _on_diverged(self, node_id: str, frame: frames.Diverged) -> None:
        if self.engine.is_leader:
            self.digests.on_diverged(node_id, frame)

    def _tell_divergence_and_end(self, leader_id: str, index: int, chain: bytes, reason: str) -> None:
        self._tell_and_end([leader_id], frames.Diverged(self.engine.term, index, chain), reason)

    def _tell_and_end(self, node_ids: Sequence[str], frame: frames.AnyFrame, reason: str) -> None:
        """A last word to these nodes, then the end. Nobody is served meanwhile."""
        self._sync_if_dirty()
        for node_id in node_ids:
            self.outbox.send_now(node_id, frame)
        self.close()
        self._loop.call_later(FAREWELL_S, self._end, reason)

    # ------------------------------------------------------------------ images

    def _on_behind(self, leader_commit_index: int) -> None:
        """An image is on its way: until this node has it, it is not ready."""
        self._joined_at_index = leader_commit_index

    def _on_installed(self, meta: ImageMeta) -> None:
        """The state is that of an image from the leader; entries were jumped over."""
        self.digests.on_restored(self._machine.index, self._machine.chain)
        self.proposer.on_jump(meta.term)
        for jumped in self._jumped:
            jumped(meta.index)
        self.kick()

    def _on_deposed(self) -> None:
        self.leadership.end()
        self.admission.stop()
        self.imaging.lead_no_more()

    def _stamp(self) -> tuple[int, int, tuple[int, bytes] | None]:
        now = self._clocks.monotonic()
        return self.lease_clock.stamp(now), self.wall_clock.stamp(now), self.digests.latest

    # ------------------------------------------------------------------ gauges

    def _gauge(self) -> None:
        engine, metrics = self.engine, self._metrics
        metrics.term, metrics.is_leader = engine.term, int(engine.is_leader)
        metrics.commit_index, metrics.applied_index = engine.commit_index, engine.applied_index
        metrics.last_index = engine.last_index
        metrics.wall_clock_alarm = int(self.wall_clock.alarm)
        metrics.follower_lag = self.replication.lag()
        self.proposer.gauge()
