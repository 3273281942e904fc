"""What a query and an operation may know and do besides their request.

A `View` reads: the state, the space and actor of the request, both clocks as the last entry left them. A `Context` also
changes: new ids, tokens, events. Nothing else reaches an operation: no clock, no randomness, no input or output.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, TypeVar

from statemachine import events
from statemachine.cluster_record import numbered, was_lost
from statemachine.entry import Idempotency
from statemachine.errors import Refused
from statemachine.store import Rows, Store, Table
from statemachine.types import Record, time_text

R = TypeVar("R", bound=Record)
INDEX_SHIFT = 28  # of the entry's index in a number; below it 12 bits for the place in the entry, 16 for the ordinal
DUE_PLACES = 2  # due work of the lease clock is at position -2 of its entry, that of the wall clock at -1


def last_number(view: View) -> int:
    """The highest number that anything of the view's entry, or of one before, can have."""
    return ((numbered(view.store, view.index) + 1) << INDEX_SHIFT) - 1


def numbers_lost(view: View, number: int) -> bool:
    """Whether the number can only have been given by an entry that the cluster lost and went on without."""
    return was_lost(view.store, number >> INDEX_SHIFT)


class View:
    """The state as one reader sees it.

    space: id of the space, "" for the operator's calls. actor: SHA-256 of the key's secret, OPERATOR or SYSTEM.
    lease_now_ms, wall_now_ms: the clocks of the last applied entry. index: that entry's index.
    """

    __slots__ = ("actor", "index", "lease_now_ms", "space", "store", "wall_now_ms")

    def __init__(self, store: Store, space: str, actor: bytes, index: int, lease_now_ms: int, wall_now_ms: int) -> None:
        self.store = store
        self.space = space
        self.actor = actor
        self.index = index
        self.lease_now_ms = lease_now_ms
        self.wall_now_ms = wall_now_ms

    def rows(self, table: Table[R]) -> Rows[R]:
        return self.store._rows[table]  # as `Store.rows`, one call less where it counts most

    def lease_text(self, deadline_ms: int) -> str:
        """A lease-time deadline as the wall time at which it is expected to come."""
        return time_text(self.wall_now_ms + deadline_ms - self.lease_now_ms)


class Context(View):
    """A view that one operation (or one due item) of an entry may change the state through."""

    __slots__ = ("_entropy", "_ordinal", "created", "keyed", "position", "refused", "waiting")

    def __init__(
        self,
        store: Store,
        space: str,
        actor: bytes,
        index: int,
        lease_now_ms: int,
        wall_now_ms: int,
        *,
        position: int,
        entropy: bytes,
    ) -> None:
        self.store = store
        self.space = space
        self.actor = actor
        self.index = index
        self.lease_now_ms = lease_now_ms
        self.wall_now_ms = wall_now_ms
        self.position = position
        self._entropy = entropy
        self._ordinal = 0
        self.created = False
        self.waiting = False
        # Under which idempotency key, with which fingerprint, the answer is kept if anything was changed. An operation
        # clears it to have its answer forgotten, or sets it to that of the request that it goes on with.
        self.keyed: Idempotency | None = None
        self.refused: Refused | None = None

    def mark_created(self) -> None:
        """The answer is 201."""
        self.created = True

    def mark_waiting(self) -> None:
        """The answer is 202: the caller stands in a line now, see `declare.Wait`."""
        self.waiting = True

    def refuse(self, refused: Refused) -> None:
        """Answer with a refusal although something was changed: only for a caller that gives up its place in a line.

        Over both operations of such a request nothing but its own place has come and gone.
        """
        self.refused = refused

    def number(self) -> int:
        """Unique over the life of the cluster, rising with every call, entry and operation."""
        self._ordinal += 1
        assert self._ordinal < 1 << 16
        return (numbered(self.store, self.index) << INDEX_SHIFT) | ((self.position + DUE_PLACES) << 16) | self._ordinal

    def new_id(self, prefix: str) -> str:
        """An id such as `clm_…` that sorts by creation."""
        return f"{prefix}_{self.number():020x}"

    def token(self, thing: str, generation: int) -> str:
        """An unguessable token that names the thing that it is for and its generation."""
        self._ordinal += 1
        secret = f"{self.index}.{self.position}.{self._ordinal}.{thing}".encode()
        return f"{thing}.{generation}.{blake2b(secret, key=self._entropy, digest_size=16).hexdigest()}"

    def emit(self, type_: str, aggregate: tuple[str, str], scope_id: str | None = None, **payload: Any) -> None:
        """Record an event of this entry; it is kept, listed and watched like any record.

        aggregate: (kind, id) of what it happened to. payload: camelCase facts as JSON values, never a token.
        """
        events.append(self.store, self.space, self.number(), self.wall_now_ms, type_, aggregate, scope_id, payload)
