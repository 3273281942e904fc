"""`runstate key`: the API keys of a space, through the operator API.

A key's secret is shown once, by `create`, on standard output alone; nothing stores or logs it here.
"""

import argparse
import json
import sys
from typing import TYPE_CHECKING
from urllib.parse import quote

from api.cli.calls import operator_call, operator_list
from api.cli.connection import Connection, add_connection_options, find_connection
from api.cli.failure import EXIT_USAGE, CommandError
from api.cli.table import table
from statemachine.declare import Permission

if TYPE_CHECKING:
    from api.cli.commands import Commands

PERMISSIONS = [str(permission) for permission in Permission]


def register(commands: "Commands") -> None:
    key = commands.add_parser("key", help="create, list and revoke API keys").add_subparsers(
        metavar="ACTION", required=True
    )

    create = key.add_parser("create", help="create a key and print its secret, once")
    create.add_argument("--name", metavar="NAME", help="for people")
    create.add_argument(
        "--permissions",
        metavar="LIST",
        help=f"of {', '.join(PERMISSIONS)} (default: all but admin)",
    )
    create.add_argument("--expires-at", metavar="TIME", help="RFC 3339, for example 2030-01-31T12:00:00Z")
    _finish(create, _create)

    _finish(key.add_parser("list", help="list the keys of a space, without secrets"), _list)

    revoke = key.add_parser("revoke", help="end a key for good")
    revoke.add_argument("key_id", metavar="KEY_ID", help="as `runstate key list` shows it; not the secret")
    _finish(revoke, _revoke)


def _finish(parser: argparse.ArgumentParser, run: object) -> None:
    parser.add_argument("--space", metavar="ID", help="of this space [RUNSTATE_SPACE_ID]")
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")
    add_connection_options(parser)
    parser.set_defaults(run=run)


def _path(connection: Connection, key_id: str | None = None) -> str:
    if connection.space_id is None:
        raise CommandError(
            "which space? Give --space or set RUNSTATE_SPACE_ID; `runstate space list` shows them", EXIT_USAGE
        )
    path = f"/admin/v1/spaces/{quote(connection.space_id, safe='')}/keys"
    return path if key_id is None else f"{path}/{quote(key_id, safe='')}"


def _create(arguments: argparse.Namespace) -> int:
    body: dict[str, object] = {}
    if arguments.permissions is not None:
        body["permissions"] = [word.strip() for word in arguments.permissions.split(",")]
    if arguments.name:
        body["name"] = arguments.name
    if arguments.expires_at:
        body["expiresAt"] = arguments.expires_at
    connection = find_connection(arguments)
    made = operator_call(connection, "POST", _path(connection), body)
    if arguments.json:
        print(json.dumps(made, indent=2))
        return 0
    print(made["key"])
    print(f"id {made['id']}, permissions {', '.join(made['permissions'])}; the key is not shown again", file=sys.stderr)
    return 0


def _list(arguments: argparse.Namespace) -> int:
    connection = find_connection(arguments)
    keys = operator_list(connection, _path(connection), "keys")
    if arguments.json:
        print(json.dumps(keys, indent=2))
        return 0
    rows = [(key["id"], key["name"], ",".join(key["permissions"]), key["createdAt"], key["expiresAt"]) for key in keys]
    print(table(("ID", "NAME", "PERMISSIONS", "CREATED", "EXPIRES"), rows))
    return 0


def _revoke(arguments: argparse.Namespace) -> int:
    connection = find_connection(arguments)
    answer = operator_call(connection, "DELETE", _path(connection, arguments.key_id))
    print(json.dumps(answer, indent=2) if arguments.json else f"{arguments.key_id} is revoked")
    return 0
