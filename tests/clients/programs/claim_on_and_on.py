"""0.1.1, 0.2.0: hold one claim by renewals, and take and release others, until SIGTERM; any error ends the program."""

import asyncio
import json
import signal
import sys

from runstate import AsyncRunstate

prefix = sys.argv[1]


async def main() -> None:
    asked = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
    rounds = 0
    async with AsyncRunstate() as client:
        scope = await client.scopes.create()
        held = await scope.claim(f"{prefix} held").acquire(lease_seconds=3)
        while not asked.is_set():
            lease = await scope.claim(f"{prefix} short").acquire()
            await lease.release()
            rounds += 1
            print(json.dumps({"rounds": rounds, "generation": lease.generation}))
            held.raise_if_lost()
        await held.release()
    print(json.dumps({"done": rounds}))


asyncio.run(main())
