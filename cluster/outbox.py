"""What leaves a node, and when: the durability barrier.

Messages that promise something (votes, acknowledgements, requests for votes, and all others that are not in
`frames.UNBOUND`) wait here until the journal is synced at the end of the turn. Append-entries leave at once, before the
leader's own sync, so that disks work in parallel.

Invariant, checked at every send: a vote or an acknowledgement never says more than is durable here. A promise of an
earlier term that was still waiting when the term rose is dropped; a lost message is always safe.
"""

from msgspec import structs

from cluster import frames
from cluster.engine import Engine
from cluster.fatal import InvariantBroken
from cluster.frames import AnyFrame, Appended, RequestVote, Vote
from cluster.ports import Message


class Outbox:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._waiting: list[tuple[str, AnyFrame]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def send_now(self, node_id: str, frame: AnyFrame) -> bool:
        """For frames that need no barrier. Returns whether it is on its way."""
        return self._engine.send(node_id, frames.encode(frame))

    def put(self, node_id: str, frame: AnyFrame) -> None:
        """Send after the sync of this turn."""
        if isinstance(frame, Appended) and frame.success:
            self._replace_acknowledgement(node_id, frame)
        else:
            self._waiting.append((node_id, frame))

    def _replace_acknowledgement(self, node_id: str, frame: Appended) -> None:
        """The last of several acknowledgements in one turn says what all of them said."""
        for place in range(len(self._waiting) - 1, -1, -1):
            to, waiting = self._waiting[place]
            if to == node_id:
                if isinstance(waiting, Appended) and waiting.success and waiting.term == frame.term:
                    if waiting.match_index > frame.match_index:  # a heartbeat behind the end of an install
                        frame = structs.replace(frame, match_index=waiting.match_index, hint=waiting.hint)
                    self._waiting[place] = (node_id, frame)
                    return
                break
        self._waiting.append((node_id, frame))

    def flush(self) -> None:
        """Send what waits. The journal must be synced."""
        waiting, self._waiting = self._waiting, []
        for node_id, frame in waiting:
            if self._still_true(node_id, frame):
                self._engine.send(node_id, frames.encode(frame))

    def _still_true(self, node_id: str, frame: AnyFrame) -> bool:
        """Whether the frame may leave. Raises InvariantBroken if it says more than is durable."""
        if not isinstance(frame, Appended | Vote | RequestVote):
            return True
        if frame.term != self._engine.term:
            return False
        journal = self._engine.journal
        if isinstance(frame, Appended):
            kept = not frame.success or journal.durable_index >= frame.match_index
        elif isinstance(frame, Vote):
            kept = not frame.granted or journal.durable_vote == node_id
        else:
            kept = journal.durable_vote == self._engine.node_id
        if journal.durable_term != frame.term or not kept:
            raise InvariantBroken(f"{frame} would promise more than is durable")
        return True


def barrier(engine: Engine, message: Message) -> None:
    """The last check before a message leaves, whoever sends it: given to the transport as its `before_send`."""
    if engine.journal.dirty and message["type"] not in frames.UNBOUND:
        raise InvariantBroken(f"a {message['type']} frame would leave before the journal is synced")
