"""What arrives from the other members: connections that come and go, and frames, each to the part that it concerns.

A malformed message is dropped and counted, because its sender may be of another version; an exception out of a handler
ends the node. Nothing is handled after `close`.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from cluster import frames
from cluster.fatal import Fatal, guarded
from cluster.frames import AnyFrame, Frame
from cluster.metrics import Metrics
from cluster.ports import Clocks, Message

Handler: TypeAlias = Callable[[str, Any, float], None]  # (sender, frame, monotonic reading)

log = logging.getLogger(__name__)


class Reception:
    """The engine's listener. got_input: called after each frame. connected, disconnected: called with a node id."""

    def __init__(
        self,
        clocks: Clocks,
        metrics: Metrics,
        end: Fatal,
        *,
        got_input: Callable[[], None],
        connected: Callable[[str], None],
        disconnected: Callable[[str], None],
    ) -> None:
        self._clocks = clocks
        self._metrics = metrics
        self._got_input = got_input
        self._handle = guarded(end, "a received frame", self._dispatch)
        self._connected = guarded(end, "a new connection", connected)
        self._disconnected = guarded(end, "a lost connection", disconnected)
        self._handlers: Mapping[type[Frame], Handler] = {}
        self._closed = False

    def open(self, handlers: Mapping[type[Frame], Handler]) -> None:
        """handlers: for every kind of frame."""
        self._handlers = handlers

    def close(self) -> None:
        self._closed = True

    def on_connected(self, node_id: str) -> None:
        if not self._closed:
            self._connected(node_id)

    def on_disconnected(self, node_id: str) -> None:
        if not self._closed:
            self._disconnected(node_id)

    def on_message(self, node_id: str, message: Message) -> None:
        if self._closed:
            return
        try:
            frame = frames.decode(message)
        except frames.MalformedFrame as error:
            self._metrics.malformed_frames += 1
            log.warning("a message of %s is dropped: %s", node_id, error)
            return
        self._handle(node_id, frame)
        self._got_input()

    def _dispatch(self, node_id: str, frame: AnyFrame) -> None:
        self._handlers[type(frame)](node_id, frame, self._clocks.monotonic())
