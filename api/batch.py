"""Many operations of a space in one request: each is checked, proposed and answered by itself, in one go.

They are proposed in the order in which they stand, and usually land in one entry, but nothing joins them: one may be
refused and the next one succeed. What this saves is round trips, above all for the renewals of many leases.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from api.call import Call
from api.damage import explain
from api.endpoint import Endpoint, NoAnswer
from api.failures import as_refused
from api.gate import Gate
from api.limits import BATCH_OPERATIONS
from api.measures import Measures
from api.nowhere import Nowhere, stand_in
from api.operations import OperationEndpoint
from api.own import OwnEndpoint
from api.phrases import bounds, sentence
from api.replica import Replica
from api.respond import with_request_id
from api.router import PREFIXES, Router
from api.urls import segments, split_target
from statemachine.declare import Access
from statemachine.errors import VALIDATION_FAILED, Refused
from statemachine.machine import Outcome, refusal


class BatchItem(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """path: below the space, such as `/claims/KEY/renew`, or whole. idempotency_key: as the header of that name."""

    method: str
    path: Annotated[str, Meta(max_length=16_384)]
    body: Raw | UnsetType = UNSET
    idempotency_key: str | None = None


class Batch(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    operations: Annotated[list[BatchItem], Meta(max_length=BATCH_OPERATIONS)]


class BatchResult(msgspec.Struct, frozen=True, rename="camel"):
    """body: the answer or the error envelope, null without one. index, position: of the entry that decided."""

    status: int
    body: Raw
    index: int
    position: int
    replayed: bool | UnsetType = UNSET


class BatchResults(msgspec.Struct, frozen=True, rename="camel"):
    results: list[BatchResult]


class Batches:
    def __init__(self, replica: Replica, measures: Measures) -> None:
        self._gate = Gate(replica)
        self._measures = measures
        self._decode = msgspec.json.Decoder(Batch).decode
        self._bounds = bounds(Batch)
        self._router: Router
        self._nowhere: Nowhere

    def begin(self, router: Router, nowhere: Nowhere) -> None:
        """Where the operations are looked up: the table that this endpoint is part of itself."""
        self._router, self._nowhere = router, nowhere

    def endpoint(self) -> OwnEndpoint:
        return OwnEndpoint(
            "batch",
            "POST",
            PREFIXES[Access.SPACE] + "/batch",
            Access.SPACE,
            "Up to 256 operations in one request, each with its own outcome, answered in their order. Not atomic; "
            "no waits, no reads, no batch in a batch.",
            self.respond,
            request=Batch,
            response=BatchResults,
            errors=(VALIDATION_FAILED,),
        )

    async def respond(self, call: Call) -> Outcome:
        try:
            items = self._read(call)
        except Refused:
            await self._gate.admit(call, stand_in(Access.SPACE))
            raise
        if not items:
            await self._gate.require(call, stand_in(Access.SPACE))
        answers = await asyncio.gather(*[self._one(call, item) for item in items], return_exceptions=True)
        results: list[BatchResult] = []
        last = (call.read_index, 0)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
            if answer.status >= 400:
                body = with_request_id(answer.body, call.id)
            else:
                body = answer.body or b"null"
            last = max(last, (answer.index, answer.position))
            replayed = True if answer.replayed else UNSET
            results.append(BatchResult(answer.status, Raw(body), answer.index, answer.position, replayed))
        return Outcome(200, "", msgspec.json.encode(BatchResults(results)), *last)

    def _read(self, call: Call) -> list[BatchItem]:
        if call.invalid is not None:
            raise call.invalid
        if call.query:
            raise Refused(VALIDATION_FAILED, "query: a batch takes no query parameters")
        try:
            return self._decode(call.body or b"{}").operations
        except msgspec.ValidationError as error:
            raise Refused(VALIDATION_FAILED, sentence(str(error), self._bounds)) from None
        except (msgspec.DecodeError, RecursionError) as error:
            raise Refused(VALIDATION_FAILED, explain(call.body, error)) from None

    async def _one(self, batch: Call, item: BatchItem) -> Outcome:
        path, query = split_target(item.path)
        prefix = f"/v1/spaces/{batch.space}"
        call = Call(
            batch.id,
            item.method,
            path if path.startswith(prefix + "/") else prefix + path,
            query,
            item.idempotency_key,
            None,
            batch.started,
            batch.deadline,
        )
        call.actor, call.space = batch.actor, batch.space
        body = b"" if item.body is UNSET else bytes(item.body)
        call.body = b"" if body == b"null" else body
        endpoint = self._find(call)
        try:
            outcome: Any = await endpoint.answer(call)
        except NoAnswer:
            raise
        except Exception as error:
            outcome = refusal(as_refused(error), call.read_index, 0)
        assert isinstance(outcome, Outcome)
        self._measures.requests[endpoint.name, outcome.status, outcome.code] += 1
        return outcome

    def _find(self, call: Call) -> Endpoint:
        try:
            parts = segments(call.path)
        except Refused as invalid:
            call.invalid = invalid
            parts = call.path.split("/")[1:]
        found = self._router.match(call.method, parts)
        if found is None:
            return self._nowhere.endpoint(call, parts)
        endpoint, values = found
        if not isinstance(endpoint, OperationEndpoint) or endpoint.access is not Access.SPACE:
            why = Refused(VALIDATION_FAILED, f"path: {call.method} {call.path[:200]} is no operation for a batch")
            return self._nowhere.refusing(Access.SPACE, why)
        call.values = values[1:]
        return endpoint
