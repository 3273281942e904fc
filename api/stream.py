"""Events as Server-Sent Events: the same watch, without asking again.

An event's id is the cursor behind it, so `Last-Event-ID` resumes where a connection broke. While nothing matches, the
cursor still moves: a comment every few seconds carries it, so that a reader with a narrow filter that comes back later
is not behind what is retained. The stream ends when its client goes, when the node drains, or with an `error` event.
"""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import Any

import msgspec
from aiohttp import web

from api.call import Call
from api.endpoint import NoAnswer, Page, Result
from api.failures import as_refused
from api.gate import Gate
from api.own import OwnEndpoint
from api.presence import Presence
from api.replica import Replica
from api.requests import QueryDoor
from api.respond import Responder, with_request_id
from api.router import PREFIXES
from api.waiting import Hub, Over
from statemachine.declare import QUERIES, Access, Query
from statemachine.errors import Refused
from statemachine.machine import refusal
from statemachine.watch import EventPage, WatchEvents

EVENT_STREAM = "text/event-stream"
BREATH_SECONDS = 10.0  # between two signs of life; balancers cut connections that say nothing for long

_encode = msgspec.json.Encoder().encode


class EventStream:
    def __init__(self, replica: Replica, hub: Hub, responder: Responder) -> None:
        self._replica = replica
        self._hub = hub
        self._responder = responder
        self._gate = Gate(replica)
        self._watch: Query = QUERIES["events.watch"]
        self._door = QueryDoor(self._watch, ())
        self._now = asyncio.get_running_loop().time

    def endpoint(self) -> OwnEndpoint:
        return OwnEndpoint(
            "events.stream",
            "GET",
            PREFIXES[Access.SPACE] + "/watch/stream",
            Access.SPACE,
            "Events that match, as Server-Sent Events, from now on or behind the cursor; Last-Event-ID resumes.",
            self.respond,
            content_type=EVENT_STREAM,
            query=WatchEvents,
            errors=self._watch.errors,
        )

    async def respond(self, call: Call) -> Result:
        request = await self._request(call)
        await self._replica.read(call.deadline)
        page = self._ask(call, request)
        if call.method == "HEAD":
            return Page(200, EVENT_STREAM, b"")
        assert call.request is not None
        assert call.connection is not None
        call.waited = True
        response = web.StreamResponse(headers=self._headers(call))
        response.force_close()
        await response.prepare(call.request)
        with closing(Presence()) as presence:
            presence.join(call.connection)
            try:
                await self._follow(call, request, page, response, presence)
            except ConnectionError:
                raise NoAnswer from None
            except Exception as error:
                failed = refusal(as_refused(error), call.read_index, 0).body
                await response.write(b"event: error\ndata: %b\n\n" % with_request_id(failed, call.id))
        return response

    async def _request(self, call: Call) -> WatchEvents:
        try:
            if call.invalid is not None:
                raise call.invalid
            request: WatchEvents = self._door.read((), call.query)
        except Refused:
            await self._gate.admit(call, self._watch)
            raise
        assert call.request is not None
        last = call.request.headers.get("Last-Event-ID")
        return request if not last else msgspec.structs.replace(request, cursor=last)

    def _ask(self, call: Call, request: WatchEvents) -> EventPage:
        machine = self._replica.machine
        call.read_index = machine.index
        page: EventPage = machine.answer(self._watch.name, request, call.space, call.actor)
        return page

    async def _follow(
        self, call: Call, request: WatchEvents, page: EventPage, response: web.StreamResponse, presence: Presence
    ) -> None:
        watch = self._watch
        assert watch.topics is not None
        await response.write(_breath(page))
        while True:
            for event in page.events:
                await response.write(_event(event))
            request = msgspec.structs.replace(request, cursor=page.next_cursor)
            if page.more is not True:
                with self._hub.poll(presence, self._now() + BREATH_SECONDS) as poll:
                    await poll.touched(watch.topics(self._replica.machine.view(call.space, call.actor), request))
                    if poll.over is Over.GONE or poll.over is Over.DRAINING:
                        return
                    if poll.over is Over.TIME:
                        await response.write(_breath(page))
            page = self._ask(call, request)

    def _headers(self, call: Call) -> dict[str, str]:
        headers = {
            "Content-Type": EVENT_STREAM,
            "Cache-Control": "no-store",
            "X-Request-Id": call.id,
            "X-Raft-Index": f"{call.read_index}/0",
        }
        leader_url = self._responder.leader_url()
        return headers | ({"X-Raft-Leader": leader_url} if leader_url else {})


def _event(event: Any) -> bytes:
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (event.event_id.encode(), event.type.encode(), _encode(event))


def _breath(page: EventPage) -> bytes:
    """A comment that moves the reader's cursor: an id without data is remembered and not told to anybody."""
    return b": up to here\nid: %b\n\n" % page.next_cursor.encode()
