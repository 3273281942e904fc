"""What a record of requests must satisfy, whatever was done to the nodes meanwhile.

These checks see only what clients saw, and they are written apart from the state machine: they know what a claim and a
once key promise, not how they are kept. Leases in the load outlast the test, so nothing lapses, and whoever got a key
holds it until it hands it back.
"""

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from tests.integration.load.record import Request


def judge(requests: list[Request]) -> None:
    """All checks of this file. Raises AssertionError with the requests that do not fit together."""
    assert requests
    no_unexpected_answers(requests)
    claims_have_one_owner(requests)
    reads_see_what_was_written(requests)
    once_has_one_result(requests)
    log_order_respects_real_time(requests)


def no_unexpected_answers(requests: Iterable[Request]) -> None:
    """Only a held claim is refused, and only a request without a key may end without an answer or unapplied.

    A hand-back that had to be repeated may find that the key has its next owner: the first try counted.
    """
    for one in requests:
        expected = one.succeeded or one.code == "CLAIM_HELD" or (one.key is None and one.status in (0, 503))
        assert expected or _released_before(one), one


def _released_before(one: Request) -> bool:
    return one.kind == "claim.release" and one.code == "STALE_CLAIM" and bool(one.faults)


def claims_have_one_owner(requests: Iterable[Request]) -> None:
    """Generations of a key are never given twice, rise with time, and no two owners overlap."""
    acquired: defaultdict[str, list[Request]] = defaultdict(list)
    released: dict[str, Request] = {}
    for one in requests:
        if one.kind == "claim.acquire" and one.succeeded:
            acquired[one.reply["key"]].append(one)
        elif one.kind == "claim.release" and (one.succeeded or _released_before(one)):
            assert one.body is not None
            released[one.body["token"]] = one
    tokens = [owner.reply["token"] for owners in acquired.values() for owner in owners]
    assert len(set(tokens)) == len(tokens), "a token was given twice"
    for owners in acquired.values():
        owners.sort(key=lambda one: one.reply["generation"])
        for earlier, later in pairwise(owners):
            assert earlier.reply["generation"] < later.reply["generation"], (earlier, later)
            end = released.get(earlier.reply["token"])
            assert end is not None, ("taken over from a living owner", earlier, later)
            assert later.ended_ns > end.began_ns, ("two owners at once", earlier, end, later)


def reads_see_what_was_written(requests: Iterable[Request]) -> None:
    """A read through another node shows the write that this client finished before it."""
    last: dict[tuple[str, str], Request] = {}
    for one in requests:
        if not one.succeeded:
            assert one.method != "GET", one
            continue
        if one.kind == "claim.read":
            got = last[one.client, "claim.acquire"].reply
            shown = [(claim["state"], claim["generation"], claim["holder"]) for claim in one.reply["claims"]]
            assert shown == [("HELD", got["generation"], one.client)], (got, one)
        elif one.kind == "scope.read":
            made = last[one.client, "scope.create"].reply
            assert (one.reply["id"], one.reply["name"]) == (made["id"], made["name"]), (made, one)
        last[one.client, one.kind] = one


def once_has_one_result(requests: Iterable[Request]) -> None:
    """Every key was run by one client, and everybody who saw a result saw that one."""
    runners: defaultdict[str, set[str]] = defaultdict(set)
    results: defaultdict[str, list[Any]] = defaultdict(list)
    for one in requests:
        if not one.kind.startswith("once.") or not one.succeeded:
            continue
        key = one.body["key"] if one.body else one.path.partition("key=")[2].partition("&")[0]
        if one.reply["state"] == "ACQUIRED":
            runners[key].add(one.client)
        if one.kind == "once.complete":
            assert one.body is not None
            results[key].append(one.body["result"])
        elif one.reply["state"] == "DONE":
            results[key].append(one.reply["result"])
    for key, clients in runners.items():
        assert len(clients) == 1, (key, clients)
    for key, seen in results.items():
        assert all(result == seen[0] for result in seen), (key, seen)


def log_order_respects_real_time(requests: Iterable[Request]) -> None:
    """What ended before something else began was decided, or read, at no later place in the log."""
    known = [one for one in requests if one.status and one.index and not one.replayed]
    ended = sorted(known, key=lambda one: one.ended_ns)
    place, newest = 0, None
    for one in sorted(known, key=lambda one: one.began_ns):
        while place < len(ended) and ended[place].ended_ns < one.began_ns:
            if newest is None or (ended[place].index, ended[place].position) > (newest.index, newest.position):
                newest = ended[place]
            place += 1
        if newest is not None:
            # Positions count only among writes: a read is at the end of its entry.
            assert newest.index <= one.index, (newest, one)
