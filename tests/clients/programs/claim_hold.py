"""0.1.1, 0.2.0: wait for a claim, hold it, and say when it is lost; until killed."""

import asyncio
import json
import sys

from runstate import AsyncRunstate

scope_id, key, lease_seconds = sys.argv[1], sys.argv[2], int(sys.argv[3])


async def main() -> None:
    async with AsyncRunstate() as client:
        print(json.dumps({"asks": True}))
        lease = await client.scope(scope_id).claim(key).acquire(lease_seconds=lease_seconds, wait=True)
        print(json.dumps({"generation": lease.generation}))
        await lease.lost_event.wait()
        print(json.dumps({"lost": True}))


asyncio.run(main())
