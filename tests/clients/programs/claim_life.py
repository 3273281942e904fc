"""0.1.1, 0.2.0: the life of a claim between two workers that know one node each."""

import asyncio
import json
import sys

from runstate import AsyncRunstate, LeaseLostError, WaitTimeoutError


async def main() -> None:
    seen = {}
    async with (
        AsyncRunstate(base_url=sys.argv[1], holder="a") as a,
        AsyncRunstate(base_url=sys.argv[2], holder="b") as b,
    ):
        scope = await a.scopes.create()
        mine, theirs = a.scope(scope.id).claim("käse/1:2 %"), b.scope(scope.id).claim("käse/1:2 %")
        first = await mine.acquire(lease_seconds=20)
        expires_at = first.expires_at
        seen["busy"] = (await theirs.try_acquire())["kind"]
        seen["own"] = (await mine.try_acquire())["kind"]
        await first.renew(60)
        seen["renewed"] = (first.expires_at - expires_at).total_seconds() > 30
        try:
            await theirs.acquire(wait=True, timeout_ms=500)
        except WaitTimeoutError as error:
            seen["waited"] = error.code
        await first.release({"note": "done"})
        second = await theirs.acquire(lease_seconds=1)
        seen["generations"] = [first.generation, second.generation]
        seen["tokens_differ"] = first.token() != second.token()
        # No renewal any more: the lease lapses, and the one who waits for it gets it.
        await second.aclose()
        third = await mine.acquire(wait=True)
        seen["generations"].append(third.generation)
        try:
            await second.renew()
        except LeaseLostError as error:
            seen["stale"] = error.code
        await second.release()  # late, which the client forgives
        await third.renew()
        seen["lost"] = third.is_lost
        seen["run"] = None
        await third.release()

        async def handler(lease: object) -> str:
            return "ran"

        seen["run"] = await theirs.run(handler)
        seen["free"] = (await mine.try_acquire())["kind"]
    print(json.dumps(seen))


asyncio.run(main())
