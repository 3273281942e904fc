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
from cluster.archive import Archive
from cluster.clock import LeaseClock, WallClock
from cluster.config import NodeConfig
from cluster.digests import Digests
from cluster.duties import Duties
from cluster.election import Election
from cluster.engine import ENTRY, NO_OP, Engine
from cluster.fatal import Fatal, InvariantBroken, SyncWatch, guarded
from cluster.handover import Handover
from cluster.intake import Intake
from cluster.metrics import Metrics
from cluster.outbox import Outbox, barrier
from cluster.ports import Clocks, JournalPort, Message, TransportPort
from cluster.proposer import Proposer
from cluster.pulse import Pulse
from cluster.quorum import Quorum
from cluster.reads import LeaderReads, Reads
from cluster.replication import Replication
from cluster.rpc import AppendHandler
from statemachine.entry import Entry, decode_entry
from statemachine.machine import Applied, Machine

APPLY_SLICE_S = 0.02
LONG_TURN_S = 0.1
FAREWELL_S = 0.1  # for a last message to leave before the node ends

log = logging.getLogger(__name__)


class Core:
    """rng: for timeouts and nonces. session: random number of this process. end: what ends the node."""

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
        clocks: Clocks,
        rng: random.Random,
        entropy: Callable[[], bytes],
        end: Fatal,
        subscribers: Sequence[Callable[[int, Applied], None]] = (),
        archive: Archive | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._journal = journal
        self._machine = machine
        self._metrics = metrics
        self._clocks = clocks
        self._end = end
        shortest_s, longest_s = (ms / 1000 for ms in config.election_timeout_ms)
        self._heartbeat_s = config.heartbeat_ms / 1000
        self._subscribers = subscribers
        self._archive = archive
        self._joined_at_index: int | None = None  # what was committed when this node first heard a leader
        self._led_term = 0
        self._closed = False
        self.sync_watch = SyncWatch(end)
        self._pulse = Pulse(clocks, end, self._turn, self._tick, self._rings_at)
        self.kick = self._pulse.kick
        self._take_frame = guarded(end, "a received frame", self._dispatch)
        self._take_connection = guarded(end, "a new connection", self._connected)

        self.engine = engine = Engine(config.id, list(config.peers), journal, transport, self)
        self.quorum = Quorum(machine.members, config.id, incarnation)
        self.outbox = Outbox(engine)
        self.lease_clock = LeaseClock(longest_s)
        self.wall_clock = WallClock(self.quorum)
        self.digests = Digests(self.quorum, end, self._tell_divergence_and_end)
        self.replication = Replication(engine, self.outbox, self.quorum, self._stamp, self._heartbeat_s)
        self.proposer = Proposer(engine, self.outbox, metrics, session=session)
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
        self.reads = Reads(engine, self.outbox, self.leader_reads, metrics)
        self.duties = Duties(machine, self.intake, self.lease_clock, self.wall_clock, metrics, self.leads)
        self.handover = Handover(engine, self.outbox, self.replication, self.intake, rng, longest_s)
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
            on_elected=self._on_elected,
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
        transport.before_send = lambda message: barrier(engine, message)
        transport.on_turn = self.kick

    # ------------------------------------------------------------------ life

    def start(self) -> None:
        """Begin to take turns. Genesis is applied at once, so that this node knows the members."""
        once = iter((False,))
        self.engine.apply_committed(lambda: next(once))
        self.sync_watch.start()
        self._pulse.start()

    def close(self) -> None:
        """Take no further turn; whoever waits is told."""
        self._closed = True
        self.sync_watch.stop()
        self._pulse.close()
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
        self._turn()
        self._gauge()

    # ------------------------------------------------------------------ a turn

    def _turn(self) -> None:
        now = self._clocks.monotonic()
        engine = self.engine
        if engine.is_leader:
            self._commit(now)
        self.proposer.turn()
        self.reads.turn(now)
        if engine.is_leader:
            self.intake.append()
            self.duties.turn(now)
            self.replication.send(now, everyone=self.leader_reads.wants_round())
            self.handover.turn()
        self._sync()
        self.outbox.flush()
        if engine.is_leader:
            self._commit(now)
        self._apply()
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

    def _sync(self) -> None:
        if self._journal.dirty:
            self._metrics.sync_seconds.observe(self.sync_watch.run(self._journal.sync))
            self._metrics.syncs += 1

    def _apply(self) -> None:
        if self.engine.applied_index < self.engine.commit_index:
            ends_at = self._clocks.monotonic() + APPLY_SLICE_S
            self.engine.apply_committed(lambda: not self._closed and self._clocks.monotonic() < ends_at)
            if self.engine.applied_index < self.engine.commit_index:
                self.kick()

    # ------------------------------------------------------------------ committed commands (engine.Listener)

    def on_commit(self, index: int, term: int, command: bytes) -> None:
        """Apply one committed command; the engine calls this in log order."""
        if self._archive is not None:
            self._archive.add(index, term, command)
        kind = command[0]
        if kind == ENTRY:
            entry = decode_entry(memoryview(command)[1:])
            self._apply_entry(index, term, entry)
        elif kind == NO_OP:
            self.proposer.on_applied(term, (), ())
        else:
            raise InvariantBroken(f"entry {index} holds a command of type {kind}, which this build does not know")

    def _apply_entry(self, index: int, term: int, entry: Entry) -> None:
        applied = self._machine.apply(index, entry)
        self._metrics.operations_applied += len(applied.outcomes)
        self.digests.on_applied(index, self._machine.chain)
        self.proposer.on_applied(term, entry.origins, applied.outcomes)
        self.duties.on_applied(applied, self._clocks.monotonic())
        for subscriber in self._subscribers:
            subscriber(index, applied)

    # ------------------------------------------------------------------ the network (engine.Listener)

    def on_connected(self, node_id: str) -> None:
        if not self._closed:
            self._take_connection(node_id)

    def _connected(self, node_id: str) -> None:
        self.replication.lost_connection(node_id)
        self.proposer.on_connected(node_id)
        self.reads.on_connected()
        self.kick()

    def on_disconnected(self, node_id: str) -> None:
        self.replication.lost_connection(node_id)

    def on_message(self, node_id: str, message: Message) -> None:
        """A message arrived. A malformed one is dropped; any other exception ends the node."""
        if self._closed:
            return
        try:
            frame = frames.decode(message)
        except frames.MalformedFrame as error:
            self._metrics.malformed_frames += 1
            log.warning("a message of %s is dropped: %s", node_id, error)
            return
        self._take_frame(node_id, frame)
        self._pulse.got_input()

    def _dispatch(self, node_id: str, frame: frames.AnyFrame) -> None:
        now = self._clocks.monotonic()
        match frame:
            case frames.AppendEntries():
                self.append_handler.on_append_entries(node_id, frame, now)
            case frames.Appended():
                self._on_appended(node_id, frame, now)
            case frames.PreVote():
                self.election.on_pre_vote(node_id, frame, now)
            case frames.PreVoteAnswer():
                self.election.on_pre_vote_answer(node_id, frame, now)
            case frames.RequestVote():
                self.election.on_request_vote(node_id, frame, now)
            case frames.Vote():
                self.election.on_vote(node_id, frame, now)
            case frames.Transfer():
                self.election.on_transfer(node_id, frame, now)
            case frames.Propose():
                self.intake.on_propose(node_id, frame)
            case frames.Refused():
                self.proposer.on_refused(node_id, frame)
            case frames.ReadIndex():
                self.reads.on_read_index(node_id, frame)
            case frames.ReadAnswer():
                self.reads.on_read_answer(frame)
            case frames.Expelled():
                self._on_expelled(node_id, frame)
            case frames.Diverged():
                if self.engine.is_leader:
                    self.digests.on_diverged(node_id, frame)

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

    def _tell_divergence_and_end(self, leader_id: str, index: int, chain: bytes, reason: str) -> None:
        self._sync()
        self.outbox.send_now(leader_id, frames.Diverged(self.engine.term, index, chain))
        self.close()
        self._loop.call_later(FAREWELL_S, self._end, reason)

    # ------------------------------------------------------------------ leadership

    def _stamp(self) -> tuple[int, int, tuple[int, bytes] | None]:
        now = self._clocks.monotonic()
        return self.lease_clock.stamp(now), self.wall_clock.stamp(now), self.digests.latest

    def _on_elected(self, now: float) -> None:
        lease_ms, wall_ms = self._machine.lease_now_ms, self._machine.wall_now_ms
        last = self.engine.last_entry()
        if last is not None:
            entry = decode_entry(last)
            lease_ms, wall_ms = max(lease_ms, entry.lease_now_ms), max(wall_ms, entry.wall_now_ms)
        self._led_term = self.engine.term
        self.lease_clock.lead(lease_ms, now)
        self.wall_clock.lead(wall_ms, self._clocks.wall_ms(), now)
        self.replication.lead()
        self.intake.lead()
        self.duties.stop()
        self.kick()

    def _on_deposed(self) -> None:
        self.intake.stop(self._led_term)
        self.leader_reads.stop()
        self.replication.stop()
        self.duties.stop()
        self.handover.stop()
        self.lease_clock.stop(self._clocks.monotonic())
        self.wall_clock.stop()
        self.kick()

    # ------------------------------------------------------------------ gauges

    def _gauge(self) -> None:
        metrics, engine = self._metrics, self.engine
        metrics.term = engine.term
        metrics.is_leader = int(engine.is_leader)
        metrics.commit_index = engine.commit_index
        metrics.applied_index = engine.applied_index
        metrics.last_index = engine.last_index
        metrics.wall_clock_alarm = int(self.wall_clock.alarm)
        metrics.follower_lag = {
            node: engine.last_index - progress.match_index for node, progress in self.replication.progress.items()
        }
        self.proposer.gauge()
