"""0.1.1, 0.2.0: watch a run's claims through one node, go on through another, and list what happened."""

import asyncio
import json
import sys

from runstate import AsyncRunstate

scope_id, here, there, types = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4].split(",")


async def take(client: AsyncRunstate, cursor: "str | None", count: int) -> list:
    events = []
    async for event in client.events.watch(scope_id=scope_id, types=types, cursor=cursor, wait_seconds=5):
        events.append(event)
        print(json.dumps({f"event {len(events)}": [event["type"], event["aggregate"], event["payload"]]}))
        if len(events) == count:
            break
    return events


async def main() -> None:
    async with AsyncRunstate(base_url=here) as first, AsyncRunstate(base_url=there) as second:
        # From the start of what is retained, so that nothing is missed between our start and our first request.
        start = (await first.events.list(limit=1))["nextCursor"]
        print(json.dumps({"watches": True}))
        some = await take(first, start, 1)
        more = await take(second, some[-1]["cursor"], 2)
        listed = []
        cursor = None
        while True:
            page = await second.events.list(cursor=cursor, limit=2)
            listed += page["events"]
            cursor = page["nextCursor"]
            if not page["events"]:
                break
        wanted = [event for event in listed if event["scopeId"] == scope_id and event["type"] in types]
        ids = [event["eventId"] for event in listed]
        seen = {
            "watched": [event["eventId"] for event in some + more],
            "listed": [event["eventId"] for event in wanted],
            "unique": len(set(ids)) == len(ids),
            "in_order": ids == sorted(ids),
        }
    print(json.dumps(seen))


asyncio.run(main())
