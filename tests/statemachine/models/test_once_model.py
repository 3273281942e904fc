"""Keys that are run once, against a naive model written apart from the code: one result, whatever happens to holders.

The driver compares two replicas after every entry, one of them loaded anew from its dump, and compares the state around
every refusal. The model says what each call has to answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from statemachine.types import time_text
from tests.statemachine.driver import Driver, Result

HOLD_MAX_MS = 40_000
MAX_LAPSES = 2
KEPT_DAYS = 2
DAY_MS = 86_400_000
KEYS = ("a", "b")
NAMES = st.sampled_from(("a", "a", "a", "b"))
RUNS = st.sampled_from((0, 0, 0, 1))
SECONDS = st.sampled_from([1, 5, 30])
LEASE_STEPS_MS = st.sampled_from([0, 1, 999, 1_000, 5_000, 30_000, 60_000])
WALL_STEPS_MS = st.sampled_from([0, 1, 999, 1_000, DAY_MS - 1, DAY_MS])
CONTENTS = st.sampled_from([None, 1, "x"])


@dataclass
class Key:
    """state as of the last tick. last: the call that ended the last hold: what it was, its token, its content."""

    generation: int = 0
    state: str = "OPEN"
    attempts: int = 0
    lapses: int = 0
    token: str = ""
    seconds: int = 0
    acquired_ms: int = 0
    until_ms: int = 0
    used_ms: int = 0
    result: Any = None
    error: str | None = None
    last: tuple[Any, ...] = ()


@dataclass
class Run:
    deadline_ms: int | None
    cancelled: bool = False
    ended_ms: int | None = None
    forgotten: bool = False
    floor: int = 0
    keys: dict[str, Key] = field(default_factory=dict)


class OnceModel(RuleBasedStateMachine):
    @initialize(deadline_ms=st.sampled_from([None, 3 * DAY_MS]))
    def begin(self, deadline_ms: int | None) -> None:
        self.driver = Driver(reload_every=3)
        bounds = {"max_hold_seconds": HOLD_MAX_MS // 1000, "max_lapses": MAX_LAPSES, "result_days": KEPT_DAYS}
        self.driver.space = self.driver.new_space("model", **bounds)
        self.driver.actor = self.driver.key("worker", "work", "read")
        self.runs: dict[str, Run] = {}
        for deadline in (None, deadline_ms):
            at_ms = None if deadline is None else self.driver.wall_ms + deadline
            made = self.driver.do("scopes.create", deadline=None if at_ms is None else time_text(at_ms))
            self.runs[made["id"]] = Run(at_ms)
        self.tokens: list[tuple[str, str, str]] = []  # run, key, token
        self.outcomes: dict[tuple[str, str, int], tuple[str, Any]] = {}  # of a key, until it is forgotten
        self.forgotten = 0

    # ------------------------------------------------------------------ what time does

    def now(self) -> int:
        return self.driver.lease_ms

    def tick(self) -> None:
        """What the next entry finds due, by the clocks that it will have."""
        for run in self.runs.values():
            if self.ended(run) and run.ended_ms is None:
                run.ended_ms = self.driver.wall_ms
            if run.ended_ms is not None and run.ended_ms + 7 * DAY_MS <= self.driver.wall_ms:
                run.forgotten = True
                run.keys.clear()
            for name, key in list(run.keys.items()):
                if key.state == "HELD" and key.until_ms <= self.now():
                    self.lapse(key)
                elif (
                    key.state != "HELD"
                    and run.deadline_ms is None
                    and key.used_ms + KEPT_DAYS * DAY_MS <= self.driver.wall_ms
                ):
                    run.floor = max(run.floor, key.generation)
                    del run.keys[name]
                    self.forgotten += 1

    def lapse(self, key: Key) -> None:
        key.lapses += 1
        key.state, key.last, key.used_ms = "OPEN", (), self.driver.wall_ms
        if key.lapses == MAX_LAPSES:
            key.state = "FAILED"
            key.error = f"held {MAX_LAPSES} times in a row by someone who did not renew and did not hand back a result"

    def ended(self, run: Run) -> str:
        if run.forgotten:
            return "NOT_FOUND"
        if run.cancelled:
            return "SCOPE_CANCELLED"
        past = run.deadline_ms is not None and run.deadline_ms <= self.driver.wall_ms
        return "DEADLINE_EXCEEDED" if past else ""

    def until_text(self, until_ms: int) -> str:
        return time_text(self.driver.wall_ms + until_ms - self.now())

    def run(self, number: int) -> tuple[str, Run]:
        return list(self.runs.items())[number % len(self.runs)]

    def view(self, key: Key) -> dict[str, Any]:
        expected: dict[str, Any] = {"state": key.state, "attempts": key.attempts}
        if key.state == "HELD":
            expected["leaseExpiresAt"] = self.until_text(key.until_ms)
        if key.state == "DONE":
            expected["result"] = key.result
        elif key.error is not None:
            expected["lastError"] = key.error
        return expected

    # ------------------------------------------------------------------ calls

    @rule(number=RUNS, name=NAMES, seconds=SECONDS, key_used=st.sampled_from(["", "", "i", "j"]))
    def acquire(self, number: int, name: str, seconds: int, key_used: str) -> None:
        self.tick()
        run_id, run = self.run(number)
        idempotency = (key_used + str(len(self.driver.log)), b"f") if key_used else None
        call = {"key": name, "scope_id": run_id, "holder": "ann", "holder_session": "s1", "lease_seconds": seconds}
        result = self.driver.do("once.acquire", **call, idempotency=idempotency)
        if self.ended(run):
            assert result.code == self.ended(run)
            return
        key = run.keys.get(name)
        if key is not None and key.state != "OPEN":
            assert result.body == self.view(key)
            if self.driver.wall_ms - key.used_ms >= DAY_MS:
                key.used_ms = self.driver.wall_ms
            assert not idempotency or not self.driver.do("once.acquire", **call, idempotency=idempotency).replayed
            return
        self.hold(result, run_id, name, seconds)
        if idempotency:
            again = self.driver.do("once.acquire", **call, idempotency=idempotency)
            assert (again.replayed, again.body) == (True, result.body)

    def hold(self, result: Result, run_id: str, name: str, seconds: int) -> None:
        run = self.runs[run_id]
        key = run.keys.setdefault(name, Key(run.floor))
        key.generation += 1
        key.state, key.seconds, key.last = "HELD", seconds, ()
        key.acquired_ms, key.until_ms = self.now(), self.now() + seconds * 1000
        key.token, key.used_ms = result["token"], self.driver.wall_ms
        assert all(token != key.token for _, _, token in self.tokens), "a token was given twice"
        self.tokens.append((run_id, name, key.token))
        assert result.body == {
            "state": "ACQUIRED",
            "attempts": key.attempts,
            "token": key.token,
            "generation": key.generation,
            "leaseExpiresAt": self.until_text(key.until_ms),
        }

    def held(self, run_id: str, name: str, token: str) -> Key | None:
        key = self.runs[run_id].keys.get(name)
        return key if key is not None and key.state == "HELD" and key.token == token else None

    def remembered(self, run_id: str, name: str, call: tuple[Any, ...]) -> Key | None:
        """The key whose last hold was ended by this very call."""
        key = self.runs[run_id].keys.get(name)
        return key if key is not None and key.last == call else None

    @precondition(lambda self: self.tokens)
    @rule(back=st.sampled_from((1, 1, 1, 2, 5)), seconds=st.none() | SECONDS)
    def renew(self, back: int, seconds: int | None) -> None:
        self.tick()
        run_id, name, token = self.tokens[-min(back, len(self.tokens))]
        result = self.driver.do("once.renew", key=name, scope_id=run_id, token=token, lease_seconds=seconds)
        key, run = self.held(run_id, name, token), self.runs[run_id]
        if key is None:
            assert result.code == "STALE_CLAIM"
        elif self.ended(run):
            assert result.code == self.ended(run)
        elif self.now() - key.acquired_ms >= HOLD_MAX_MS:
            assert result.code == "LEASE_RENEWALS_EXHAUSTED"
        else:
            key.seconds = key.seconds if seconds is None else seconds
            key.until_ms = self.now() + key.seconds * 1000
            assert result.body == {"leaseExpiresAt": self.until_text(key.until_ms)}

    @precondition(lambda self: self.tokens)
    @rule(back=st.sampled_from((1, 1, 1, 2, 5)), content=CONTENTS)
    def complete(self, back: int, content: Any) -> None:
        self.tick()
        run_id, name, token = self.tokens[-min(back, len(self.tokens))]
        result = self.driver.do("once.complete", key=name, scope_id=run_id, token=token, result=content)
        key = self.held(run_id, name, token)
        if key is not None:
            self.finish(run_id, name, key, "DONE", content)
            key.lapses, key.result, key.last = 0, content, ("complete", token, content)
            assert result.body == {"state": "DONE"}
        elif self.remembered(run_id, name, ("complete", token, content)) is not None:
            assert result.body == {"state": "DONE"}
        else:
            assert result.code == "STALE_CLAIM"

    @precondition(lambda self: self.tokens)
    @rule(back=st.sampled_from((1, 1, 1, 2, 5)), error=st.sampled_from(["bad", "worse"]), tries=st.integers(1, 3))
    def fail(self, back: int, error: str, tries: int) -> None:
        self.tick()
        run_id, name, token = self.tokens[-min(back, len(self.tokens))]
        call = {"key": name, "scope_id": run_id, "token": token, "error": error, "max_attempts": tries}
        result = self.driver.do("once.fail", **call)
        key = self.held(run_id, name, token)
        if key is not None:
            key.attempts += 1
            key.lapses, key.error, key.last = 0, error, ("fail", token, error, tries)
            if key.attempts >= tries:
                self.finish(run_id, name, key, "FAILED", error)
            else:
                key.state, key.used_ms = "OPEN", self.driver.wall_ms
            assert result.body == {"state": key.state, "attempts": key.attempts}
        elif (same := self.remembered(run_id, name, ("fail", token, error, tries))) is not None:
            assert result.body == {"state": same.state, "attempts": same.attempts}
        else:
            assert result.code == "STALE_CLAIM"

    def finish(self, run_id: str, name: str, key: Key, state: str, content: Any) -> None:
        assert (run_id, name, self.forgotten) not in self.outcomes or key.state == "HELD"
        key.state, key.used_ms = state, self.driver.wall_ms
        self.outcomes[run_id, name, self.forgotten] = (state, content)

    # ------------------------------------------------------------------ time and runs

    @rule(lease_ms=LEASE_STEPS_MS, wall_ms=WALL_STEPS_MS)
    def wait(self, lease_ms: int, wall_ms: int) -> None:
        self.driver.lease_ms += lease_ms
        self.driver.wall_ms += wall_ms
        self.tick()
        self.driver.apply()

    @rule(number=RUNS, sure=st.integers(0, 9))
    def cancel(self, number: int, sure: int) -> None:
        if sure:
            return
        self.tick()
        run_id, run = self.run(number)
        self.driver.do("scopes.cancel", scope_id=run_id)
        run.cancelled = run.cancelled or not self.ended(run)
        run.ended_ms = self.driver.wall_ms if run.ended_ms is None else run.ended_ms

    # ------------------------------------------------------------------ always

    @invariant()
    def reads_agree(self) -> None:
        for run_id, run in getattr(self, "runs", {}).items():
            for name in KEYS:
                answer = self.driver.ask("once.get", key=name, scope_id=run_id)
                if run.forgotten:
                    assert answer.code == "NOT_FOUND"
                    continue
                found = dict(answer.body)
                assert ("scopeState" in found) == bool(self.ended(run))
                found.pop("scopeState", None)
                assert found == self.view(run.keys.get(name, Key()))

    @invariant()
    def an_outcome_stands(self) -> None:
        """What a key once ended with is what everybody is told, as long as it is remembered."""
        for (run_id, name, forgotten), (state, content) in getattr(self, "outcomes", {}).items():
            if forgotten == self.forgotten and name in self.runs[run_id].keys:
                answer = self.driver.ask("once.get", key=name, scope_id=run_id)
                assert (answer["state"], answer["result" if state == "DONE" else "lastError"]) == (state, content)


OnceModel.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestOnce = OnceModel.TestCase
