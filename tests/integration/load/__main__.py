"""`python -m tests.integration.load NAME SCOPE RECORDS [--…]`: load until SIGTERM, then end what was begun.

The cluster comes from the environment, as for every program: RUNSTATE_ENDPOINTS, RUNSTATE_SPACE_ID, RUNSTATE_API_KEY.
Exit status 0 when every keyed request and read had an answer, however long the cluster was hurt; else a traceback.
"""

import argparse
import asyncio
import os
import random
import signal

import aiohttp

from tests.integration.load.client import ATTEMPT_SECONDS, Client
from tests.integration.load.work import KINDS, repeat


async def run(arguments: argparse.Namespace, records: int) -> None:
    urls = os.environ["RUNSTATE_ENDPOINTS"].split(",")
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with (
        aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {os.environ['RUNSTATE_API_KEY']}"},
            timeout=aiohttp.ClientTimeout(total=ATTEMPT_SECONDS, connect=2.0),
            connector=aiohttp.TCPConnector(limit=0),
        ) as session,
        asyncio.TaskGroup() as group,
    ):
        for kind, clients in (pair.split("=") for pair in arguments.clients.split(",")):
            for task in range(int(clients)):
                name = f"{arguments.name}-{kind}-{task}"
                dice = random.Random(f"{arguments.seed} {name}")
                client = Client(name, session, urls, os.environ["RUNSTATE_SPACE_ID"], records, dice)
                group.create_task(repeat(KINDS[kind], client, arguments.scope, stop, arguments.pause_ms / 1000))


def main() -> None:
    parser = argparse.ArgumentParser(prog="tests.integration.load", description=__doc__)
    parser.add_argument("name")
    parser.add_argument("scope", help="id of the run that all of it happens in")
    parser.add_argument("records", help="file that gets a line a request")
    parser.add_argument("--clients", default="claims=2,once=2,scopes=2,runs=1,watch=1", help="how many of each kind")
    parser.add_argument("--pause-ms", type=float, default=5.0, help="between two rounds of a client")
    parser.add_argument("--seed", default="1")
    arguments = parser.parse_args()
    records = os.open(arguments.records, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    asyncio.run(run(arguments, records))


if __name__ == "__main__":
    main()
