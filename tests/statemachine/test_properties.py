"""What must hold whatever is asked of the machine, in whatever order and at whatever times.

Any operation with any arguments, by any credential, by clocks that run, jump and fall back. The driver compares both
replicas after every entry, one of which is loaded anew from its dump every few entries, and the whole state around
every refusal; a defect anywhere fails the test. A failure prints its seed and what of its log is needed to repeat it.
"""

from __future__ import annotations

import json
import re
from hashlib import blake2b
from random import Random
from typing import Any

import msgspec
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from statemachine.declare import OPERATIONS, QUERIES, Access
from statemachine.entry import OPERATOR
from statemachine.events import EVENTS
from statemachine.types import time_text
from tests.statemachine.driver import Driver, Result
from tests.statemachine.faults import FaultyDriver
from tests.statemachine.polls import Polls
from tests.statemachine.requests import Asking
from tests.statemachine.shrink import shrunk
from tests.statemachine.state import counted, derived, differences, overdue, rebuilt

SPANS_MS = [0, 0, 1, 500, 500, 1_000, 5_000]
LEAPS_MS = [31_000, 300_000, 3_600_000, 90_000_000, 8 * 86_400_000]
TOKEN = re.compile(r"[a-z]{3}_[0-9a-f]{20}\.\d+\.[0-9a-f]{32}")
OFTEN = 6  # times as often as an operator's call is one of a space made
CALLS = [
    name
    for name, declared in sorted(OPERATIONS.items())
    if name != "cluster.genesis"
    for _ in range(1 if declared.access is Access.OPERATOR else 3 * OFTEN if name.endswith(".acquire") else OFTEN)
]
TAKES = {declared.wait.take for declared in OPERATIONS.values() if declared.wait is not None}
RARE = {"scopes.cancel", "scopes.complete", "spaces.delete", "spaces.change", "spaces.revoke-key", "keys.revoke"}


class Chaos:
    """One driver, and what its answers have said so far."""

    def __init__(self, random: Random, make: type[Driver] = Driver) -> None:
        self._random = random
        self.driver = driver = make(reload_every=random.randint(1, 4))
        self._memory: list[dict[str, Any]] = []
        self._waiting: list[Result] = []
        self._polls = Polls()
        self._asking = Asking(random, self._memory, lambda offset_ms: time_text(max(0, driver.wall_ms + offset_ms)))
        self._spaces = [driver.space, driver.new_space("other"), "spc_unheard"]
        self._actors = [
            driver.key("worker", "work", "read"),
            driver.key("reader", "read"),
            driver.key("stranger", "work", "read", space=self._spaces[1]),
            bytes(32),
        ]
        self._boss = driver.key("boss", "admin", "work", "read", "resource_config")
        for name in ("one", "two"):
            self._remember({}, driver.do("runs.join", name=name))

    def entry(self) -> None:
        """An entry of a few operations, after some time."""
        driver = self.driver
        self._pass_time()
        calls = [self._operation() for _ in range(self._random.randrange(4))]
        self._polls.before(driver.first)
        results = driver.apply([operation for _, operation in calls])
        self._polls.after(driver.first, driver.applied.touched)
        for (said, _), result in zip(calls, results, strict=True):
            assert result.code != "INTERNAL"
            if not result.code:
                self._remember({**said, "$family": result.name.partition(".")[0]}, result)

    def query(self) -> None:
        """Ask something; no token may be in the answer."""
        name = self._random.choice(sorted(QUERIES))
        declared = QUERIES[name]
        raw = self._asking.arguments(declared)
        space, actor = self._credential(declared.access)
        result = self.driver.ask(name, raw=raw, space=space, actor=actor)
        assert result.code != "INTERNAL"
        assert not TOKEN.search(json.dumps(result.body)), result.body
        if not result.code:
            self._remember({}, result)
            self._polls.asked(self.driver.first, name, raw, self.driver.space if space is None else space, actor)

    def settle(self) -> None:
        """What is due by now is worked off, and then nothing is left that records say is due."""
        self._polls.clear()
        self.driver.settle_due()
        machine = self.driver.first
        assert not overdue(machine.store, "lease", min(machine.lease_now_ms, self.driver.lease_ms))
        assert not overdue(machine.store, "wall", min(machine.wall_now_ms, self.driver.wall_ms))

    def check(self) -> None:
        """Indexes, due items and sums are those that follow from the records; no event has a token."""
        store = self.driver.first.store
        assert not (found := differences(derived(store), rebuilt(store))), found
        assert counted(store) == derived(store)["usage"]
        assert not any(TOKEN.search(event.payload.decode()) for event in store.rows(EVENTS)._records.values())

    # ------------------------------------------------------------------ drawing

    def _operation(self) -> tuple[dict[str, Any], bytes]:
        random = self._random
        name = random.choice(CALLS)
        if name in RARE and random.randrange(5):
            name = random.choice(CALLS)
        declared = OPERATIONS[name]
        raw = self._resuming() if name in TAKES else self._asking.arguments(declared)
        space, actor = self._credential(declared.access)
        fingerprint = blake2b(name.encode() + raw, digest_size=16).digest()
        idempotency = None if random.randrange(6) else (random.choice(["one", "two", "three"]), fingerprint)
        deadline_ms = 0 if random.randrange(16) else max(0, self.driver.lease_ms + random.randint(-2, 2))
        data = self.driver.operation(
            name, raw=raw, space=space, actor=actor, idempotency=idempotency, deadline_ms=deadline_ms
        )
        try:
            said = json.loads(raw)
        except ValueError:
            said = {}
        return said if isinstance(said, dict) else {}, data

    def _resuming(self) -> bytes:
        """What a node proposes for a caller in line, for it knows what it asks for; sometimes of a line of the past."""
        if not self._waiting:
            return b"{}"
        waiting = self._random.choice(self._waiting[-4:])
        wait = OPERATIONS[waiting.name].wait
        assert wait is not None
        return msgspec.json.encode(wait.resume(waiting.body, not self._random.randrange(3)))

    def _credential(self, access: Access) -> tuple[str | None, bytes | None]:
        if self._random.randrange(10):
            return None, self._boss if access is not Access.OPERATOR else None
        return self._random.choice([*self._spaces, ""]), self._random.choice([*self._actors, OPERATOR])

    def _pass_time(self) -> None:
        driver = self.driver
        ms = self._random.choice(SPANS_MS if self._random.randrange(12) else LEAPS_MS)
        match self._random.randrange(10):
            case 0:
                driver.lease_ms += ms
            case 1:
                driver.wall_ms += ms
            case 2:
                driver.wall_ms = max(0, driver.wall_ms - ms)
            case 3:
                driver.lease_ms = max(0, driver.lease_ms - ms)
            case _:
                driver.advance(ms)

    def _remember(self, said: dict[str, Any], result: Result) -> None:
        body = result.body or {}
        if result.status == 202 and result.name not in TAKES:
            self._waiting.append(result)
        if not result.name.endswith(".renew"):
            said = {name: value for name, value in said.items() if name != "token"}  # handed back
        self._memory.append({**said, **body})
        for value in body.values():
            if isinstance(value, list):
                self._memory += [row for row in value[-3:] if isinstance(row, dict)]


def happen(seed: int, steps: int, make: type[Driver] = Driver) -> Driver:
    """Let things happen, and check after each of them."""
    random = Random(seed)
    chaos = Chaos(random, make)
    try:
        for _ in range(steps):
            match random.randrange(10):
                case 0 | 1:
                    chaos.query()
                case 2:
                    chaos.settle()
                case _:
                    chaos.entry()
            chaos.check()
    except Exception as failure:
        failure.add_note(f"seed {seed}")
        failure.add_note(shrunk(chaos.driver.log, failure))
        raise
    return chaos.driver


# A seed says nothing about what matters: a failure is shrunk by its log.
seeds = st.integers(0, 2**32 - 1)
unshrunk = settings(phases=[Phase.explicit, Phase.reuse, Phase.generate])


@unshrunk
@given(seeds)
def test_whatever_happens(seed: int) -> None:
    happen(seed, steps=40)


@unshrunk
@given(seeds)
def test_whatever_happens_with_a_defect_in_everything_first(seed: int) -> None:
    happen(seed, steps=15, make=FaultyDriver)
