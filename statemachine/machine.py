"""One pure, deterministic program: an entry in, one outcome an operation out.

Every replica runs it over the same log and reaches the same state. It does no input or output, reads no clock and draws
no random number. A refused operation changes nothing at all; a defect inside one is undone and answered INTERNAL, the
same on every replica; anything else ends the process before an outcome leaves, because another replica may not have it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import blake2b
from operator import gt
from typing import Any

import msgspec

from statemachine import audit, idempotency, image_state, registry, spaces
from statemachine.authorize import identify, permit
from statemachine.cluster_record import Awaited, cluster
from statemachine.context import Context, View
from statemachine.declare import OPERATIONS, QUERIES, WORK_OR_READ, Operation
from statemachine.entry import SYSTEM, Command, Entry, FormatError, decode_operation
from statemachine.errors import (
    INTERNAL,
    UNAVAILABLE,
    VALIDATION_FAILED,
    Refused,
)
from statemachine.image_state import Frozen, Values
from statemachine.keys import ApiKey
from statemachine.store import DUE_KINDS, Store, Topic
from statemachine.types import Answer

SWEPT_MAX = 256  # live due items of one clock that one entry works off
CHANGED_MAX = 16_384  # changes of records after which a sweep stops early, for one item may change a thousand
DEFECTS = (AssertionError, KeyError, TypeError, ValueError)

_encode = msgspec.json.Encoder().encode


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """What became of one operation.

    status: of HTTP; 202 means that the caller stands in a line, see `declare.Wait`. code: of the error table, "" for
    success. body: JSON; of a refusal `{"error": {"code", "message", "details"?}}`. index, position: the entry that
    decided and the place in it (of a replayed answer: the first one's).
    """

    status: int
    code: str
    body: bytes
    index: int
    position: int
    replayed: bool = False
    retry_after_ms: int | None = None


class Applied(msgspec.Struct, frozen=True):
    """What one entry did: an outcome for each operation, and the topics whose readers want to look again."""

    outcomes: list[Outcome]
    touched: list[Topic]


class Machine:
    """One replica's state and the program that changes it."""

    def __init__(self) -> None:
        assert registry.PRIMITIVES
        self.store = Store()
        self.index = 0
        self.lease_now_ms = 0
        self.wall_now_ms = 0
        self.chain = bytes(32)
        self.defects = 0  # operations and due items undone because of a defect; for the metric only
        self.on_defect: Callable[[Exception], None] = lambda _: None  # told of each, so that the node can log it
        self._decoders = {name: msgspec.json.Decoder(declared.request) for name, declared in OPERATIONS.items()}

    # ------------------------------------------------------------------ what the cluster asks

    @property
    def cluster_id(self) -> str:
        known = cluster(self.store)
        return "" if known is None else known.cluster_id

    @property
    def feature_level(self) -> int:
        known = cluster(self.store)
        return 0 if known is None else known.feature_level

    def members(self) -> Mapping[str, int]:
        """The members that count: node id to the listed incarnation of its journal."""
        known = cluster(self.store)
        return {} if known is None else known.members

    def awaited(self) -> Mapping[str, Awaited]:
        """The members that do not count now, by node id."""
        known = cluster(self.store)
        return {} if known is None else known.awaited

    def member_ids(self) -> list[str]:
        """All members, whether they count or not, in order."""
        return sorted([*self.members(), *self.awaited()])

    @property
    def due_lease_ms(self) -> int | None:
        """Lease time of the earliest due item of that clock."""
        first = self.store.due["lease"].first()
        return None if first is None else first[0]

    @property
    def due_wall_ms(self) -> int | None:
        """Wall time of the earliest due item of that clock."""
        first = self.store.due["wall"].first()
        return None if first is None else first[0]

    def view(self, space: str, actor: bytes) -> View:
        """The state as a reader sees it, at the clocks of the last applied entry."""
        return View(self.store, space, actor, self.index, self.lease_now_ms, self.wall_now_ms)

    # ------------------------------------------------------------------ applying

    def apply(self, index: int, entry: Entry) -> Applied:
        """Run one entry.

        index: of the entry in the log, above every one before. Raises only what must end the process.
        """
        assert index > self.index, (index, self.index)
        self.index = index
        self.lease_now_ms = max(self.lease_now_ms, entry.lease_now_ms)
        self.wall_now_ms = max(self.wall_now_ms, entry.wall_now_ms)
        self._sweep("lease", self.lease_now_ms, entry.entropy, position=-2)
        self._sweep("wall", self.wall_now_ms, entry.entropy, position=-1)
        chain = blake2b(self.chain, digest_size=32)
        chain.update(b"%d %d %d %d" % (index, self.lease_now_ms, self.wall_now_ms, len(self.store.changes)))
        outcomes: list[Outcome] = []
        for position, data in enumerate(entry.operations):
            outcome = self._run(index, position, data, entry.entropy)
            outcomes.append(outcome)
            chain.update(b"%d %d %b" % (outcome.status, len(outcome.body), outcome.body))
        self.chain = chain.digest()
        return Applied(outcomes, self.store.settle())

    def _run(self, index: int, position: int, data: bytes, entropy: bytes) -> Outcome:
        command = decode_operation(data)
        declared = OPERATIONS.get(command.name)
        if declared is None:
            raise FormatError(f"the log holds operation {command.name!r}, which this build does not know")
        context = Context(
            self.store,
            command.space,
            command.actor,
            index,
            self.lease_now_ms,
            self.wall_now_ms,
            position=position,
            entropy=entropy,
        )
        mark = len(self.store.changes)
        try:
            return self._execute(context, declared, command, mark)
        except Refused as refused:
            self.store.undo(mark)
            return refusal(refused, index, position)
        except DEFECTS as defect:
            self.store.undo(mark)
            self.defects += 1
            self.on_defect(defect)
            message = f"a defect of the server ({type(defect).__name__}); nothing was changed"
            return refusal(Refused(INTERNAL, message), index, position)

    def _execute(self, context: Context, declared: Operation, command: Command, mark: int) -> Outcome:
        if 0 < command.deadline_ms < self.lease_now_ms:
            raise Refused(UNAVAILABLE, "the request's time ran out before it was applied; nothing was changed")
        key = identify(context, declared)
        keyed = context.keyed = None if declared.repeatable else command.idempotency
        if keyed is not None:
            answered = idempotency.recall(context, *keyed)
            if answered is not None:
                return Outcome(answered.status, "", answered.body, answered.index, answered.position, replayed=True)
        found = None if declared.lookup is None else self._look_up(context, key, declared, self._decode(command))
        if found is not None:
            return Outcome(200, "", _encode(found), context.index, context.position)
        permit(key, declared)
        request = self._decode(command)
        new_work = not declared.urgent and command.actor != SYSTEM
        full = spaces.full(context) if new_work else None
        kept = None if full is None else spaces.kept(context)
        answer = declared.apply(context, request)
        if context.refused is not None:
            return refusal(context.refused, context.index, context.position)
        status = 204 if answer is None else 202 if context.waiting else 201 if context.created else 200
        body = b"" if answer is None else _encode(answer)
        if len(self.store.changes) > mark:
            # Said last, for an ended run or a lost token matters more; and whoever learns of what exists adds nothing.
            if full is not None and kept is not None and any(map(gt, spaces.kept(context), kept)):
                raise full
            if new_work and context.keyed is not None and answer is not None:
                idempotency.make_room(context)
            if declared.audited:
                audit.record(context, declared, None if key is None else key.id, request, body)
            if context.keyed is not None and answer is not None:
                idempotency.keep(context, *context.keyed, status, body)
            spaces.note_usage(context)
        return Outcome(status, "", body, context.index, context.position)

    def _decode(self, command: Command) -> Any:
        try:
            return self._decoders[command.name].decode(command.arguments)
        except (msgspec.ValidationError, msgspec.DecodeError) as error:
            raise Refused(VALIDATION_FAILED, str(error)) from error

    @staticmethod
    def _look_up(view: View, key: ApiKey | None, declared: Operation, request: Any) -> Answer | None:
        assert declared.lookup is not None
        permit(key, declared, WORK_OR_READ)
        return declared.lookup(view, request)

    def _sweep(self, clock: str, now_ms: int, entropy: bytes, position: int) -> None:
        """Work off due items, oldest first, a bounded number; what is left makes the leader propose again at once."""
        items = self.store.due[clock]
        failed: list[tuple[str, Any]] = []
        context = Context(
            self.store, "", SYSTEM, self.index, self.lease_now_ms, self.wall_now_ms, position=position, entropy=entropy
        )
        begun = len(self.store.changes)
        for _ in range(SWEPT_MAX):
            item = items.first()
            if item is None or item[0] > now_ms or len(self.store.changes) - begun >= CHANGED_MAX:
                break
            _, kind, key = item
            table, due = DUE_KINDS[kind]
            record = self.store.rows(table)[key]
            context.space = "" if table.space is None else table.space(record)
            mark = len(self.store.changes)
            try:
                due.run(context, record)
                assert items.first() != item, f"{kind} left {key!r} due"
            except (Refused, *DEFECTS) as defect:
                self.store.undo(mark)
                self.defects += 1
                self.on_defect(defect)
                failed.append((kind, key))
                items.set(kind, key, None)  # out of the way of the others until this sweep is over
        for kind, key in failed:
            table, due = DUE_KINDS[kind]
            left = self.store.rows(table).get(key)  # another item may have changed or removed it meanwhile
            items.set(kind, key, None if left is None else due.at(left))

    # ------------------------------------------------------------------ images

    def freeze(self) -> Frozen:
        """The machine as it is, for an image: its values, and the records changed since the last call. O(1).

        Only between two entries. Changes are noted from the first call on, so that a machine of which nobody takes
        images keeps none.
        """
        level = self.feature_level
        values = Values(
            image_state.format_of(level),
            level,
            self.cluster_id,
            self.index,
            self.lease_now_ms,
            self.wall_now_ms,
            self.chain,
        )
        return Frozen(values, self.store.take_dirty())

    def restore(self, values: Values, store: Store) -> Store:
        """Become the machine that an image was taken of. Returns the store that was in place before.

        values: as `image_state.check_values` approves them. store: loaded from the records of the same image.
        """
        assert not self.store.changes, "an entry is being applied"
        before, self.store = self.store, store
        self.index = values.index
        self.lease_now_ms, self.wall_now_ms = values.lease_now_ms, values.wall_now_ms
        self.chain = values.chain
        return before

    # ------------------------------------------------------------------ reading

    def answer(self, name: str, request: Any, space: str, actor: bytes) -> Any:
        """Answer a declared query from this replica's state. Raises Refused."""
        declared = QUERIES[name]
        view = self.view(space, actor)
        permit(identify(view, declared), declared)
        return declared.answer_from(view, request)

    def look_up(self, name: str, request: Any, space: str, actor: bytes) -> Answer | None:
        """What the operation of that name would answer if it has nothing to change, None if it must be proposed.

        Only for operations declared with `lookup`, and only behind a read index. Raises Refused.
        """
        declared = OPERATIONS[name]
        view = self.view(space, actor)
        return self._look_up(view, identify(view, declared), declared, request)


def refusal(refused: Refused, index: int, position: int) -> Outcome:
    """The outcome of an operation that was refused."""
    error: dict[str, Any] = {"code": refused.error.code, "message": refused.message}
    if refused.details:
        error["details"] = refused.details
    return Outcome(
        refused.error.status,
        refused.error.code,
        _encode({"error": error}),
        index,
        position,
        retry_after_ms=refused.retry_after_ms,
    )
