"""`runstate certs`: a certificate authority for a cluster, and one certificate for each of its nodes.

It works in a folder, on any machine, and asks no cluster. The authority's key is made once and stays there: whoever has
it can make members. Nothing is ever overwritten.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from api.cli.failure import EXIT_USAGE, CommandError
from cluster.config_rules import is_node_id

if TYPE_CHECKING:
    from api.cli.commands import Commands

DEFAULT_DAYS = 730


def register(commands: "Commands") -> None:
    certs = commands.add_parser(
        "certs",
        help="make certificates with which the nodes of a cluster know each other",
        description="Makes an authority in the folder when there is none, and signs a certificate for each node. "
        "Nothing is overwritten: to renew a certificate, move the old one away first.",
    )
    certs.add_argument("node_ids", metavar="NODE", nargs="+", help="id of a node")
    certs.add_argument("--dir", metavar="DIR", default="certs", help="the folder (default: ./certs)")
    certs.add_argument(
        "--days",
        type=int,
        default=DEFAULT_DAYS,
        metavar="NUMBER",
        help="for how many days a certificate is good (default: %(default)s)",
    )
    certs.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    folder, node_ids = Path(arguments.dir), list(dict.fromkeys(arguments.node_ids))
    for node_id in node_ids:
        if not is_node_id(node_id) or node_id == "ca":
            raise CommandError(f"{node_id!r} is no node id: 1 to 63 letters, digits, - and _, and not ca", EXIT_USAGE)
    if arguments.days < 1:
        raise CommandError("--days must be 1 or more", EXIT_USAGE)
    try:
        from cluster.authority import Authority, AuthorityError
    except ModuleNotFoundError as error:
        raise CommandError(
            f"this needs the Python package {error.name}, which is not installed: "
            "pip install 'runstate-cluster[certs]', or pip install cryptography"
        ) from None
    for path in (folder / f"{node_id}{suffix}" for node_id in node_ids for suffix in (".pem", ".key")):
        if path.exists():
            raise CommandError(
                f"{path} is there already, and nothing is overwritten: move it away to make another one, "
                "or leave that node out"
            )
    try:
        authority = Authority(folder)
        if authority.is_new:
            print(f"{authority.key}  key of the new authority: keep it safe and off the nodes")
            print(f"{authority.certificate}  tls_ca of every node")
        for node_id in node_ids:
            certificate, key = authority.sign(node_id, arguments.days)
            print(f"{certificate}  tls_certificate of {node_id}")
            print(f"{key}  tls_key of {node_id}")
    except AuthorityError as error:
        raise CommandError(str(error)) from None
    return 0
