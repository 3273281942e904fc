"""How an operation or a query declares itself, once, beside its function.

Routing, validation, OpenAPI, permissions, metric labels and the catalogue of events are read from these declarations.
An operation changes state and goes through the log; a query reads the node's own state behind a read index.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from msgspec.structs import fields

from statemachine.errors import ErrorCode
from statemachine.store import Topic
from statemachine.types import Answer, InLine, Request

if TYPE_CHECKING:
    from statemachine.context import Context, View


class Permission(StrEnum):
    """What an API key may do in its space."""

    WORK = "work"
    RESOURCE_CONFIG = "resource_config"
    READ = "read"
    ADMIN = "admin"


class Access(StrEnum):
    """Which credential a call needs, and so below which path it lies."""

    SPACE = "space"  # an API key of the space; /v1/spaces/{spaceId}{path}
    KEY = "key"  # any API key; /v1{path}
    OPERATOR = "operator"  # the operator key; /admin/v1{path}
    SYSTEM = "system"  # no path: proposed by the cluster itself, or by a node on behalf of a request


WORK = frozenset({Permission.WORK})
READ = frozenset({Permission.READ})
WORK_OR_READ = frozenset({Permission.WORK, Permission.READ})
ADMIN = frozenset({Permission.ADMIN})
ANY = frozenset(Permission)
NONE: frozenset[Permission] = frozenset()


@dataclass(frozen=True, slots=True)
class Wait:
    """How a request waits for an operation that answered 202 (it stands in a line now).

    The node keeps the request open until the topic named by `topic(answer)` is touched, then proposes `take` with the
    request that `resume(answer, leave=False)` makes; when the time is up or the client has gone, with leave=True, which
    answers as if nobody had waited. `take` itself answers 202 while the caller still stands in line.

    An operation that may answer 202 says so in its return type, with an `InLine` beside its answer. The node repeats
    nothing for a caller with an idempotency key: a repeat is replayed the same 202 and waits in the same place.
    """

    take: str
    topic: Callable[[Any], Topic]
    resume: Callable[[Any, bool], Request]


@dataclass(frozen=True, slots=True)
class Operation:
    """One declared operation. Without method and path it is internal.

    permissions: one of these is needed. repeatable: by nature, so that no idempotency record is kept. urgent: a renewal
    or hand-back, never refused for lack of room and placed before new work. errors: what it may refuse with beyond
    what any operation may. events: the types that it may emit.

    audited: a change of an operator or a configuration; each that changed something leaves a row in the audit record.

    front_fields: fields of the request that the node fills in and that a caller must not send: the API refuses them by
    name like any unknown field, and they appear in no schema, event or audit row. They have defaults, so that what the
    caller sent decodes without them. `hash` is the SHA-256 of a secret that the node just made and that it adds to the
    first answer as `key`, never to a replay; `incarnation` is that of the named node as it is connected now.

    lookup: answers from the state as it is when there is nothing to change, None when the operation must be applied.
    A node asks it first, behind a read index (`Machine.look_up`), and proposes only on None; the machine asks it again
    where the operation is applied. So a PUT of what exists makes no log entry, and needs only `work` or `read`. It may
    refuse, for example what exists with other settings.
    """

    name: str
    method: str
    path: str
    access: Access
    permissions: frozenset[Permission]
    request: type[Request]
    answer: type[Answer]
    repeatable: bool
    urgent: bool
    errors: tuple[ErrorCode, ...]
    events: tuple[str, ...]
    wait: Wait | None
    audited: bool
    front_fields: tuple[str, ...]
    lookup: Callable[[Any, Any], Answer | None] | None
    doc: str
    apply: Callable[[Any, Any], Answer | None]


@dataclass(frozen=True, slots=True)
class Query:
    """One declared query.

    A query that can wait has a field `wait_ms` or `wait_seconds` in its request: it is asked again whenever one of
    `topics(view, request)` is touched, until `settled(answer)` or the time is up.

    again: the request to ask the next time, made from the one just asked and its answer, which was not settled; so a
    reader of a sequence goes on where it was. None: the same request.
    """

    name: str
    method: str
    path: str
    access: Access
    permissions: frozenset[Permission]
    request: type[Request]
    answer: type[Answer]
    errors: tuple[ErrorCode, ...]
    topics: Callable[[View, Any], Sequence[Topic]] | None
    settled: Callable[[Any], bool] | None
    again: Callable[[Any, Any], Request] | None
    doc: str
    answer_from: Callable[[Any, Any], Answer]


OPERATIONS: dict[str, Operation] = {}
QUERIES: dict[str, Query] = {}
EVENT_TYPES: dict[str, str] = {}  # type of event to its meaning

RequestT = TypeVar("RequestT", bound=Request)
AnswerT = TypeVar("AnswerT", bound=Answer)


def operation(
    name: str,
    route: str = "",
    *,
    access: Access = Access.SPACE,
    permissions: frozenset[Permission] = WORK,
    repeatable: bool = False,
    urgent: bool = False,
    errors: tuple[ErrorCode, ...] = (),
    events: tuple[str, ...] = (),
    wait: Wait | None = None,
    audited: bool | None = None,
    front_fields: tuple[str, ...] = (),
    lookup: Callable[[View, Any], Answer | None] | None = None,
) -> Callable[[Callable[[Context, RequestT], AnswerT | None]], Callable[[Context, RequestT], AnswerT | None]]:
    """Declare the decorated function as an operation. route is "METHOD /path/{field}", empty for an internal one.

    audited: by default what only the operator or an `admin` key may do.
    """

    def declare(
        apply: Callable[[Context, RequestT], AnswerT | None],
    ) -> Callable[[Context, RequestT], AnswerT | None]:
        assert name not in OPERATIONS, name
        request, answer, doc = _signature(apply)
        method, _, path = route.partition(" ")
        for event in events:
            assert event in EVENT_TYPES, f"{name} emits {event}, which no table of events names"
        optional = {field.name for field in fields(request) if not field.required}
        assert optional.issuperset(front_fields), f"{name}: the fields of the front need defaults"
        OPERATIONS[name] = Operation(
            name=name,
            method=method,
            path=path,
            access=access if route else Access.SYSTEM,
            permissions=permissions,
            request=request,
            answer=answer,
            repeatable=repeatable,
            urgent=urgent,
            errors=errors,
            events=events,
            wait=wait,
            audited=access is Access.OPERATOR or permissions == ADMIN if audited is None else audited,
            front_fields=front_fields,
            lookup=lookup,
            doc=doc,
            apply=apply,
        )
        return apply

    return declare


def query(
    name: str,
    route: str,
    *,
    access: Access = Access.SPACE,
    permissions: frozenset[Permission] = WORK_OR_READ,
    errors: tuple[ErrorCode, ...] = (),
    topics: Callable[[View, Any], Sequence[Topic]] | None = None,
    settled: Callable[[Any], bool] | None = None,
    again: Callable[[Any, Any], Request] | None = None,
) -> Callable[[Callable[[View, RequestT], AnswerT]], Callable[[View, RequestT], AnswerT]]:
    """Declare the decorated function as a query. route is "GET /path/{field}"."""

    def declare(answer_from: Callable[[View, RequestT], AnswerT]) -> Callable[[View, RequestT], AnswerT]:
        assert name not in QUERIES, name
        request, answer, doc = _signature(answer_from)
        method, _, path = route.partition(" ")
        assert (topics is None) == (settled is None), name
        assert again is None or settled is not None, name
        QUERIES[name] = Query(
            name=name,
            method=method,
            path=path,
            access=access,
            permissions=permissions,
            request=request,
            answer=answer,
            errors=errors,
            topics=topics,
            settled=settled,
            again=again,
            doc=doc,
            answer_from=answer_from,
        )
        return answer_from

    return declare


def event_types(**meanings: str) -> None:
    """Declare event types: `claim_acquired="…"` declares `claim.acquired`."""
    for name, meaning in meanings.items():
        event = name.replace("_", ".", 1).replace("_", "-")
        assert event not in EVENT_TYPES, event
        EVENT_TYPES[event] = meaning


def _signature(function: Callable[..., Any]) -> tuple[type[Request], type[Answer], str]:
    hints = get_type_hints(function)
    request = hints["request"]
    answers = getattr(hints["return"], "__args__", (hints["return"],))
    (answer,) = [hint for hint in answers if hint is not type(None) and not issubclass(hint, InLine)]
    assert issubclass(request, Request), function
    assert issubclass(answer, Answer), function
    assert function.__doc__, function
    return request, answer, function.__doc__
