"""`runstate bootstrap`: makes a cluster of the empty nodes that a configuration lists, once and explicitly."""

import argparse
import asyncio
from typing import TYPE_CHECKING

from api.cli.failure import CommandError
from api.cli.node import add_node_options, node_config

if TYPE_CHECKING:
    from api.cli.commands import Commands


def register(commands: "Commands") -> None:
    parser = commands.add_parser(
        "bootstrap",
        help="make a cluster of started, empty nodes, once",
        description="Start all nodes first, then run this with the configuration of any one of them.",
    )
    add_node_options(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from cluster.bootstrap import BootstrapError, bootstrap
    from cluster.certs import CertificateError
    from cluster.peer_certificates import certificates_of

    config = node_config(arguments)
    try:
        certificates = certificates_of(config)
        context = None if certificates is None else certificates.client
        cluster_id = asyncio.run(bootstrap(config.peers, context=context))
    except (BootstrapError, CertificateError) as error:
        raise CommandError(str(error)) from None
    print(f"cluster {cluster_id} of {', '.join(config.peers)}")
    return 0
