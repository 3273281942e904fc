"""Claims against a naive model, written apart from the code: what was promised, step by step, with two clocks.

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
TAKE_MS = 5_000
FORGET_MS = 300_000
KEYS = ("a", "b/ü")
NAMES = st.sampled_from(("a", "a", "a", "b/ü"))
RUNS = st.sampled_from((0, 0, 0, 1))
HOLDERS = ("ann", "bob")
SECONDS = st.sampled_from([1, 5, 30])
STEPS_MS = st.sampled_from([0, 1, 999, 1_000, 4_999, 5_000, 12_000, 30_000, 299_999, 300_000])


@dataclass
class Owner:
    holder: str
    generation: int
    token: str | None  # not known while nobody has fetched it
    seconds: int
    acquired_ms: int
    until_ms: int
    waiter: str | None = None


@dataclass
class Place:
    waiter: str
    holder: str
    seconds: int
    until_ms: int


@dataclass
class Key:
    """A key that the run remembers: its owner or how the last one ended, and who waits for it."""

    generation: int
    owner: Owner | None = None
    ended: str = ""
    returned: tuple[str | None, Any] | None = None  # token and observation of the release that ended the last one
    observation: Any = None
    free_since_ms: int = 0
    line: list[Place] = field(default_factory=list)


@dataclass
class Run:
    deadline_ms: int | None
    cancelled: bool = False
    floor: int = 0
    keys: dict[str, Key] = field(default_factory=dict)


class ClaimsModel(RuleBasedStateMachine):
    @initialize(deadline_ms=st.sampled_from([None, 20_000]))
    def begin(self, deadline_ms: int | None) -> None:
        self.driver = Driver(reload_every=3)
        self.driver.space = self.driver.new_space("model", max_hold_seconds=HOLD_MAX_MS // 1000)
        self.driver.actor = self.driver.key("worker", "work", "read")
        self.admin = self.driver.key("boss", "admin")
        self.runs: dict[str, Run] = {}
        for deadline in (None, deadline_ms):
            at_ms = None if deadline is None else self.driver.wall_ms + deadline
            made = self.driver.do("scopes.create", deadline=None if at_ms is None else time_text(at_ms))
            self.runs[made["id"]] = Run(at_ms)
        self.tokens: list[tuple[str, str, str]] = []  # run, key, token
        self.waits: list[tuple[str, str, Result]] = []
        self.generations: dict[tuple[str, str], int] = {}  # the highest that any owner of the key had

    # ------------------------------------------------------------------ what time does

    def now(self) -> int:
        return self.driver.lease_ms

    def tick(self) -> None:
        """What the next entry finds due, by the clocks that it will have."""
        for run_id, run in self.runs.items():
            for name, key in list(run.keys.items()):
                if self.ended(run):
                    key.line.clear()
                key.line = [place for place in key.line if place.until_ms > self.now()]
                if key.owner is not None and key.owner.until_ms <= self.now():
                    self.end(run_id, name, "LAPSED")
                elif key.owner is None and key.free_since_ms + FORGET_MS <= self.now():
                    run.floor = max(run.floor, key.generation)
                    del run.keys[name]

    def ended(self, run: Run) -> str:
        if run.cancelled:
            return "SCOPE_CANCELLED"
        past = run.deadline_ms is not None and run.deadline_ms <= self.driver.wall_ms
        return "DEADLINE_EXCEEDED" if past else ""

    def end(self, run_id: str, name: str, how: str, returned: tuple[str | None, Any] | None = None) -> None:
        key = self.runs[run_id].keys[name]
        key.owner, key.ended, key.returned, key.free_since_ms = None, how, returned, self.now()
        if returned is not None:
            key.observation = returned[1]
        if key.line and not self.ended(self.runs[run_id]):
            place = key.line.pop(0)
            self.own(run_id, name, place.holder, None, place.seconds, TAKE_MS, place.waiter)

    def own(
        self, run_id: str, name: str, holder: str, token: str | None, seconds: int, for_ms: int, waiter: str | None
    ) -> Owner:
        run = self.runs[run_id]
        key = run.keys.setdefault(name, Key(run.floor))
        assert key.owner is None
        key.generation += 1
        assert key.generation > self.generations.get((run_id, name), 0), "a generation was used again"
        self.generations[run_id, name] = key.generation
        key.returned = None
        key.owner = Owner(holder, key.generation, token, seconds, self.now(), self.now() + for_ms, waiter)
        return key.owner

    def until_text(self, until_ms: int) -> str:
        return time_text(self.driver.wall_ms + until_ms - self.now())

    def run(self, number: int) -> tuple[str, Run]:
        return list(self.runs.items())[number % len(self.runs)]

    def check_held(self, result: Result, key: Key | None) -> None:
        assert result.code == "CLAIM_HELD", result
        owner = None if key is None else key.owner
        if owner is None:
            assert result.details == {}
            return
        assert result.details == {
            "holder": owner.holder,
            "generation": owner.generation,
            "leaseExpiresAt": self.until_text(owner.until_ms),
        }
        assert result.retry_after_ms == owner.until_ms - self.now()

    # ------------------------------------------------------------------ acquiring

    @rule(number=RUNS, name=NAMES, holder=st.sampled_from(HOLDERS), seconds=SECONDS)
    def acquire(self, number: int, name: str, holder: str, seconds: int) -> None:
        self.tick()
        run_id, run = self.run(number)
        result = self.driver.do(
            "claims.acquire", key=name, scope_id=run_id, holder=holder, holder_session="s1", lease_seconds=seconds
        )
        key = run.keys.get(name)
        if self.ended(run):
            assert result.code == self.ended(run)
        elif key is not None and key.owner is not None:
            self.check_held(result, key)
        else:
            owner = self.own(run_id, name, holder, None, seconds, seconds * 1000, None)
            self.granted(result, run_id, name, owner)

    def granted(self, result: Result, run_id: str, name: str, owner: Owner) -> None:
        assert result.status == 201, result
        assert (result["key"], result["scopeId"], result["generation"]) == (name, run_id, owner.generation)
        assert result["leaseExpiresAt"] == self.until_text(owner.until_ms)
        if owner.token is None:
            owner.token = result["token"]
            assert all(owner.token != token for _, _, token in self.tokens), "a token was given twice"
            self.tokens.append((run_id, name, owner.token))
        assert result["token"] == owner.token

    @rule(
        number=RUNS,
        name=NAMES,
        holder=st.sampled_from(HOLDERS),
        seconds=SECONDS,
        wait_ms=st.sampled_from([1, 6_000, 30_000]),
    )
    def acquire_waiting(self, number: int, name: str, holder: str, seconds: int, wait_ms: int) -> None:
        self.tick()
        run_id, run = self.run(number)
        result = self.driver.do(
            "claims.acquire",
            key=name,
            scope_id=run_id,
            holder=holder,
            holder_session="s1",
            lease_seconds=seconds,
            wait_ms=wait_ms,
        )
        key = run.keys.get(name)
        if self.ended(run):
            assert result.code == self.ended(run)
        elif key is not None and key.owner is not None:
            assert result.status == 202, result
            key.line.append(Place(result["waiterId"], holder, seconds, self.now() + wait_ms))
            self.waits.append((run_id, name, result))
        else:
            self.granted(result, run_id, name, self.own(run_id, name, holder, None, seconds, seconds * 1000, None))

    @precondition(lambda self: self.unfetched())
    @rule(leave=st.sampled_from((False, False, True)))
    def resume_the_next(self, leave: bool) -> None:
        owner = self.unfetched()[0]
        (which,) = (place for place, (_, _, wait) in enumerate(self.waits) if wait["waiterId"] == owner.waiter)
        self.resume(which, leave)

    def unfetched(self) -> list[Owner]:
        owners = [key.owner for run in self.runs.values() for key in run.keys.values() if key.owner is not None]
        return [owner for owner in owners if owner.token is None]

    @precondition(lambda self: self.waits)
    @rule(which=st.integers(0, 50), leave=st.booleans())
    def resume_any(self, which: int, leave: bool) -> None:
        self.resume(which, leave)

    def resume(self, which: int, leave: bool) -> None:
        self.tick()
        run_id, name, waiting = self.waits[which % len(self.waits)]
        run = self.runs[run_id]
        key = run.keys.get(name)
        waiter = waiting["waiterId"]
        place = next((place for place in key.line if place.waiter == waiter), None) if key is not None else None
        owner = key.owner if key is not None and key.owner is not None and key.owner.waiter == waiter else None
        result = self.driver.resume(waiting, leave=leave)
        if self.ended(run):
            assert result.code == self.ended(run)
        elif not leave and place is not None:
            assert result.status == 202
            assert result.body == waiting.body
        elif not leave and owner is not None:
            if owner.token is None:
                owner.until_ms = self.now() + owner.seconds * 1000
            self.granted(result, run_id, name, owner)
        else:
            if key is not None and place is not None:
                key.line.remove(place)
            elif owner is not None and owner.token is None:
                self.end(run_id, name, "RELEASED", (None, None))
            self.check_held(result, key)

    # ------------------------------------------------------------------ owning

    @precondition(lambda self: self.tokens)
    @rule(which=st.integers(0, 50), seconds=st.none() | SECONDS)
    def renew(self, which: int, seconds: int | None) -> None:
        self.tick()
        run_id, name, token = self.tokens[which % len(self.tokens)]
        owner = self.owner_of(run_id, name, token)
        result = self.driver.do("claims.renew", key=name, token=token, lease_seconds=seconds)
        if owner is None:
            assert result.code == "STALE_CLAIM"
        elif self.ended(self.runs[run_id]):
            assert result.code == self.ended(self.runs[run_id])
        elif self.now() - owner.acquired_ms >= HOLD_MAX_MS:
            assert result.code == "LEASE_RENEWALS_EXHAUSTED"
        else:
            owner.seconds = owner.seconds if seconds is None else seconds
            owner.until_ms = self.now() + owner.seconds * 1000
            expected = {"leaseExpiresAt": self.until_text(owner.until_ms), "generation": owner.generation}
            assert result.body == expected

    def owner_of(self, run_id: str, name: str, token: str) -> Owner | None:
        key = self.runs[run_id].keys.get(name)
        return key.owner if key is not None and key.owner is not None and key.owner.token == token else None

    @precondition(lambda self: self.tokens)
    @rule(which=st.integers(0, 50), observation=st.sampled_from([None, {"n": 1}]), elsewhere=st.booleans())
    def release(self, which: int, observation: Any, elsewhere: bool) -> None:
        self.tick()
        run_id, name, token = self.tokens[which % len(self.tokens)]
        path = name if not elsewhere else KEYS[1 - KEYS.index(name)]
        result = self.driver.do("claims.release", key=path, token=token, observation=observation)
        key = self.runs[run_id].keys.get(name)
        if elsewhere or key is None:
            assert result.code == "STALE_CLAIM"
        elif self.owner_of(run_id, name, token) is not None:
            assert result.body == {"released": True}
            self.end(run_id, name, "RELEASED", (token, observation))
        elif key.returned == (token, observation):
            assert result.body == {"released": True}
            assert not self.driver.applied.touched
        else:
            assert result.code == "STALE_CLAIM"

    @rule(number=RUNS, name=NAMES, generation=st.none() | st.integers(1, 3))
    def revoke(self, number: int, name: str, generation: int | None) -> None:
        self.tick()
        run_id, run = self.run(number)
        result = self.driver.do(
            "claims.revoke", actor=self.admin, key=name, scope_id=run_id, reason="test", generation=generation
        )
        key = run.keys.get(name)
        if key is None or key.owner is None or generation not in (None, key.owner.generation):
            assert result.code == "CONFLICT"
        else:
            assert result.body == {"revoked": True}
            self.end(run_id, name, "REVOKED")

    # ------------------------------------------------------------------ time and runs

    @rule(lease_ms=STEPS_MS, wall_ms=STEPS_MS)
    def let_time_pass(self, lease_ms: int, wall_ms: int) -> None:
        self.wait(lease_ms, wall_ms)

    def wait(self, lease_ms: int, wall_ms: int) -> None:
        self.driver.lease_ms += lease_ms
        self.driver.wall_ms += wall_ms
        self.tick()
        self.driver.apply()

    @rule()
    def wait_until_keys_are_forgotten(self) -> None:
        for _ in range(2):
            self.wait(FORGET_MS, 0)

    @rule(number=RUNS, sure=st.integers(0, 9))
    def cancel(self, number: int, sure: int) -> None:
        if sure:
            return
        self.tick()
        run_id, run = self.run(number)
        self.driver.do("scopes.cancel", scope_id=run_id)
        run.cancelled = run.cancelled or not self.ended(run)
        self.tick()
        self.driver.apply()  # works off what waits in it

    # ------------------------------------------------------------------ always

    @invariant()
    def tokens_are_current_or_lost(self) -> None:
        """At most one token of a key is valid, and it is the owner's."""
        for run_id, name, token in getattr(self, "tokens", ()):
            owner = self.owner_of(run_id, name, token)
            expected: dict[str, Any] = {"valid": False}
            if owner is not None:
                until = self.until_text(owner.until_ms)
                expected = {"valid": True, "generation": owner.generation, "leaseExpiresAt": until}
            assert self.driver.ask("claims.verify", key=name, token=token).body == expected

    @invariant()
    def lists_say_who_owns_what(self) -> None:
        for run_id, run in getattr(self, "runs", {}).items():
            listed = {row["key"]: row for row in self.driver.ask("claims.list", scope_id=run_id)["claims"]}
            assert listed.keys() == {name for name, key in run.keys.items() if key.owner is not None}
            for name in KEYS:
                rows = self.driver.ask("claims.list", scope_id=run_id, key=name)["claims"]
                key = run.keys.get(name)
                assert len(rows) == (key is not None)
                if key is not None:
                    self.check_row(rows[0], key)

    def check_row(self, row: dict[str, Any], key: Key) -> None:
        owner = key.owner
        assert "token" not in row
        assert row["generation"] == key.generation
        assert row["waiting"] == len(key.line)
        assert row.get("observation") == key.observation
        if owner is None:
            assert (row["state"], row["leaseExpiresAt"]) == (key.ended, None)
        else:
            assert (row["state"], row["holder"]) == ("HELD", owner.holder)
            assert row["leaseExpiresAt"] == self.until_text(owner.until_ms)


ClaimsModel.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestClaims = ClaimsModel.TestCase
