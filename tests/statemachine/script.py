"""Runs a golden script: lines of input at the margin, what came of them indented below.

    # A comment. Times pass as in a cluster with a leader: whatever becomes due on the way is swept at its time.
    $run = runs.join name=nightly
    claims.acquire key=k scopeId=$run holder=a holderSession=1
    & claims.acquire key=k …        in the same entry as the line before
    +5s                             both clocks; `lease +5s` and `wall +5s` move one, `wall -5s` sets it back
    jump +5s                        both clocks, and no entry until the next line (nobody leads)
    key reader read                 an API key of the space `$space`; `key other work space=$other` of another one
    take $place                     asks again for what answered 202; `leave $place` gives the place up
    clocks                          what the machine's clocks show

Beside its arguments an operation takes `@as=reader` (the secret of a key; or `operator`), `@space=$other`, `@key=K`
(idempotency key; the fingerprint is of call and arguments), `@deadline=5s` (lease time from now until which it may be
applied). Every outcome is followed by the events of its entry, each with a star.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import blake2b, sha256
from typing import Any

import msgspec

from statemachine.declare import OPERATIONS, QUERIES
from statemachine.entry import OPERATOR
from statemachine.events import EVENTS, IN_SPACE
from tests.statemachine.driver import WALL_START_MS, Driver, Result
from tests.statemachine.notation import Names, arguments, fields, rows, span_ms, span_text, written

_CALL = re.compile(r"(?:\$(?P<name>\w+) = )?(?P<call>[a-z-]+(?:\.[a-z-]+)?)(?: (?P<arguments>.*))?")
_AGAIN = re.compile(r"(?:\$(?P<name>\w+) = )?(?P<call>take|leave) (?P<waiting>\$\w+)")
_CLOCK = re.compile(r"(?:(?P<which>lease|wall|jump) )?(?P<sign>[+-])(?P<span>\S+)")
_ENVELOPE = re.compile(r"@(as|space|key|deadline)=(\S+)")


class Script:
    """One script being run, against a driver of its own."""

    def __init__(self, driver: Driver | None = None) -> None:
        self.driver = Driver() if driver is None else driver
        self._names = Names()
        self._told = 0  # position of the last event that was written
        self._names.give("space", self.driver.space)

    def run(self, text: str) -> str:
        """The text with all outcomes written anew."""
        output: list[str] = []
        for kept, block in _blocks(text):
            output += kept
            try:
                output += [f"  {line}" for line in self._block(block)]
            except Exception as error:
                error.add_note(f"in the script: {block or kept}")
                raise
        return "\n".join(output).rstrip() + "\n"

    def _block(self, block: list[str]) -> Iterator[str]:
        if not block:
            return
        first = block[0]
        word = first.split(" ", 1)[0]
        if clock := _CLOCK.fullmatch(first):
            yield from self._pass_time(clock)
        elif word == "key":
            self._key(first.split()[1:])
        elif again := _AGAIN.fullmatch(first):
            waiting = self._names.answer(again["waiting"])["$result"]
            result = self.driver.resume(waiting, leave=again["call"] == "leave")
            yield from self._outcomes([(again["name"], result)])
        elif first == "clocks":
            machine = self.driver.first
            lease, wall = span_text(machine.lease_now_ms), span_text(machine.wall_now_ms - WALL_START_MS)
            yield f"lease {lease}, wall T+{wall}"
        else:
            yield from self._calls([line.removeprefix("& ") for line in block])

    # ------------------------------------------------------------------ time

    def _pass_time(self, clock: re.Match[str]) -> Iterator[str]:
        driver, which, span = self.driver, clock["which"], span_ms(clock["span"])
        moved = ("lease_ms", "wall_ms") if which in (None, "jump") else (f"{which}_ms",)
        if clock["sign"] == "-":
            span = -span
        elif which != "jump":
            while (step_ms := self._next_due(moved, span)) is not None:
                span -= step_ms
                self._move(moved, step_ms)
                driver.apply()
                yield from self._events(at=True)
        self._move(moved, span)

    def _next_due(self, moved: tuple[str, ...], span: int) -> int | None:
        """How far the clocks run until something is due, None if that is behind the span."""
        waits = []
        for field in ("lease_ms", "wall_ms"):
            due_ms = getattr(self.driver.first, f"due_{field}")
            if due_ms is None:
                continue
            wait_ms = max(0, due_ms - getattr(self.driver, field))
            if field in moved or wait_ms == 0:
                waits.append(wait_ms)
        return min((wait_ms for wait_ms in waits if wait_ms <= span), default=None)

    def _move(self, moved: tuple[str, ...], ms: int) -> None:
        for field in moved:
            setattr(self.driver, field, getattr(self.driver, field) + ms)

    # ------------------------------------------------------------------ calls

    def _key(self, words: list[str]) -> None:
        space = None
        permissions = []
        for word in words[1:]:
            if word.startswith("space="):
                space = self._names.resolve(word.removeprefix("space="))
            else:
                permissions.append(word)
        self.driver.key(words[0], *permissions, space=space)

    def _calls(self, lines: list[str]) -> Iterator[str]:
        parsed = [_CALL.fullmatch(line) for line in lines]
        assert all(parsed), f"not understood: {lines}"
        named = [(call["name"], call["call"], self._arguments(call["call"], call["arguments"] or ""))
                 for call in parsed if call]  # fmt: skip
        if named[0][1] in QUERIES:
            assert len(named) == 1
            name, call, given = named[0]
            yield from self._outcomes([(name, self.driver.ask(call, **given))])
            return
        operations = []
        for _, call, given in named:
            assert call in OPERATIONS, f"there is no {call}"
            operations.append(self.driver.operation(call, **given))
        results = self.driver.apply(operations)
        yield from self._outcomes([(name, result) for (name, _, _), result in zip(named, results, strict=True)])

    def _arguments(self, call: str, text: str) -> dict[str, Any]:
        driver = self.driver
        envelope = dict(_ENVELOPE.findall(text))
        plain = _ENVELOPE.sub("", text)
        body = arguments(plain, self._names)
        given: dict[str, Any] = {"raw": msgspec.json.encode(body)}
        if "as" in envelope:
            given["actor"] = OPERATOR if envelope["as"] == "operator" else sha256(envelope["as"].encode()).digest()
        if "space" in envelope:
            space = envelope["space"]
            given["space"] = self._names.resolve(space) if space.startswith("$") else space
        if "key" in envelope:
            given["idempotency"] = (envelope["key"], blake2b(call.encode() + given["raw"], digest_size=16).digest())
        if "deadline" in envelope:
            span = envelope["deadline"]
            given["deadline_ms"] = driver.lease_ms + span_ms(span.removeprefix("-")) * (-1 if span[0] == "-" else 1)
        return given

    # ------------------------------------------------------------------ what came of it

    def _outcomes(self, results: list[tuple[str | None, Result]]) -> Iterator[str]:
        for name, result in results:
            if name is not None:
                assert not result.code, f"${name} is refused: {result.code} {result.message}"
                body = result.body or {}
                self._names.give(name, {**body, "$result": result} if result.status == 202 else body)
            for line in _written(result, self._names):
                yield self._names.written(line)
        yield from self._events()

    def _events(self, *, at: bool = False) -> Iterator[str]:
        events = self.driver.first.store.rows(EVENTS)
        fresh = sorted(
            (event for space in self._spaces() for event in events.ordered(IN_SPACE, space, after=self._told)),
            key=lambda event: event.position,
        )
        for event in fresh:
            self._told = event.position
            payload = fields(msgspec.json.decode(event.payload), self._names)
            when = f"at T+{span_text(self.driver.first.wall_now_ms - WALL_START_MS)} " if at else ""
            yield self._names.written(f"{when}* {event.type} {event.aggregate_id} {payload}".rstrip())

    def _spaces(self) -> list[str]:
        return sorted({event.space for event in self.driver.first.store.rows(EVENTS)._records.values()})


def _written(result: Result, names: Names) -> Iterator[str]:
    replayed = " replayed" if result.replayed else ""
    if result.code:
        details = fields(result.details, names)
        retry = "" if result.retry_after_ms is None else f" (retry after {span_text(result.retry_after_ms)})"
        yield f"{result.status} {result.code} {written(result.message)} {details}".rstrip() + retry
        return
    yield f"{result.status}{replayed} {fields(result.body or {}, names)}".rstrip()
    yield from (f"  {row}" for row in rows(result.body or {}, names))


def _blocks(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """Lines to keep as they are, and those of them to run together. Indented lines are old outcomes."""
    kept: list[str] = []
    block: list[str] = []
    for line in text.splitlines():
        if line.startswith("  "):
            continue
        if block and not line.startswith("& "):
            yield kept, block
            kept, block = [], []
        kept.append(line)
        if line and not line.startswith("#"):
            block.append(line)
    yield kept, block
