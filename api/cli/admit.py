"""`runstate node admit`: lets a node that lost its disk count again, with the disk that it has now.

The cluster takes the old disk off its list at once, and lists the new one by itself as soon as that has what the others
have. The command waits for that; when it is not there in time, nothing needs to be done again.
"""

import argparse
import json
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from api.cli.calls import operator_call
from api.cli.connection import Connection, add_connection_options, find_connection
from api.cli.failure import CommandError

if TYPE_CHECKING:
    from api.cli.commands import Commands

WAIT_SECONDS = 60
LOOK_AGAIN_SECONDS = 0.2


def register(actions: "Commands") -> None:
    admit = actions.add_parser(
        "admit",
        help="let a node that lost its disk count again",
        description="For a node that came back with an empty directory and follows: without this its votes and "
        "acknowledgements count for nothing. Only one node at a time may have lost its disk. Its old disk counts for "
        "nothing from then on; the new one does as soon as it has what the others have, which is waited for.",
    )
    admit.add_argument("node_id", metavar="NODE", help="its id")
    admit.add_argument(
        "--wait",
        type=int,
        default=WAIT_SECONDS,
        metavar="SECONDS",
        help="for how long to wait until it counts (default: %(default)s)",
    )
    admit.add_argument("--json", action="store_true", help="print the answer as JSON")
    add_connection_options(admit)
    admit.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    connection, node_id = find_connection(arguments), arguments.node_id
    path = f"/admin/v1/cluster/nodes/{quote(node_id, safe='')}/admit"
    admitted = operator_call(connection, "POST", path, {})
    if not admitted["counts"]:
        _wait(connection, node_id, arguments.wait)
        admitted["counts"] = True
    if arguments.json:
        print(json.dumps(admitted, indent=2))
    else:
        print(f"{admitted['nodeId']} counts, with incarnation {admitted['incarnation']}")
    return 0


def _wait(connection: Connection, node_id: str, seconds: float) -> None:
    ends_at = time.monotonic() + seconds
    while True:
        members = operator_call(connection, "GET", "/admin/v1/cluster")["members"]
        member: dict[str, Any] = next(member for member in members if member["id"] == node_id)
        if member["counts"]:
            return
        if time.monotonic() >= ends_at:
            lag = "" if member["lag"] is None else f" ({member['lag']} entries behind)"
            raise CommandError(
                f"{node_id} is admitted and does not have what the others have yet{lag}. It will count as soon as it "
                "has, nothing needs to be done again: `runstate status` shows when"
            )
        time.sleep(LOOK_AGAIN_SECONDS)
