"""`runstate space`: the spaces of a cluster, through the operator API."""

import argparse
import json
from typing import TYPE_CHECKING

from api.cli.calls import operator_call, operator_list
from api.cli.connection import add_connection_options, find_connection
from api.cli.table import table

if TYPE_CHECKING:
    from api.cli.commands import Commands


def register(commands: "Commands") -> None:
    space = commands.add_parser("space", help="create and list spaces").add_subparsers(metavar="ACTION", required=True)

    create = space.add_parser("create", help="create a space and print its id")
    create.add_argument("name", metavar="NAME", help="for people; 1 to 256 characters")
    create.add_argument("--organization", metavar="ID", help="whose plan it counts against (default: default)")
    _finish(create, _create)

    _finish(space.add_parser("list", help="list the spaces"), _list)


def _finish(parser: argparse.ArgumentParser, run: object) -> None:
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")
    add_connection_options(parser)
    parser.set_defaults(run=run)


def _create(arguments: argparse.Namespace) -> int:
    body = {"name": arguments.name}
    if arguments.organization:
        body["organizationId"] = arguments.organization
    made = operator_call(find_connection(arguments), "POST", "/admin/v1/spaces", body)
    print(json.dumps(made, indent=2) if arguments.json else made["id"])
    return 0


def _list(arguments: argparse.Namespace) -> int:
    spaces = operator_list(find_connection(arguments), "/admin/v1/spaces", "spaces")
    if arguments.json:
        print(json.dumps(spaces, indent=2))
        return 0
    rows = [
        (space["id"], space["name"], "suspended" if space["suspended"] else "", space["records"]) for space in spaces
    ]
    print(table(("ID", "NAME", "STATE", "RECORDS"), rows))
    return 0
