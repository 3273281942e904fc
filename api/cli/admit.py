"""`runstate node admit`: lists the present incarnation of a node that lost its disk, so that it counts again."""

import argparse
import json
from typing import TYPE_CHECKING
from urllib.parse import quote

from api.cli.calls import operator_call
from api.cli.connection import add_connection_options, find_connection

if TYPE_CHECKING:
    from api.cli.commands import Commands


def register(actions: "Commands") -> None:
    admit = actions.add_parser(
        "admit",
        help="let a node that lost its disk count again",
        description="For a node that came back with an empty directory and follows: without this its votes and "
        "acknowledgements count for nothing. Only one node at a time may have lost its disk.",
    )
    admit.add_argument("node_id", metavar="NODE", help="its id")
    admit.add_argument("--json", action="store_true", help="print the answer as JSON")
    add_connection_options(admit)
    admit.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    path = f"/admin/v1/cluster/nodes/{quote(arguments.node_id, safe='')}/admit"
    admitted = operator_call(find_connection(arguments), "POST", path, {})
    if arguments.json:
        print(json.dumps(admitted, indent=2))
    else:
        print(f"{admitted['nodeId']} counts again, with incarnation {admitted['incarnation']}")
    return 0
