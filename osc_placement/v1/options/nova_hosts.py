"""Options that select compute hosts by nova's names."""

from __future__ import annotations

import argparse


def add_hosts(group: argparse._ArgumentGroup, host_aggregate: str) -> None:
    """Add ``--host`` and ``--host-aggregate``, both repeatable.

    ``host_aggregate`` says what a host aggregate selects.
    """
    group.add_argument(
        "--host",
        metavar="<host>",
        action="append",
        default=[],
        help="Only the compute nodes of this host. May be repeated.",
    )
    group.add_argument(
        "--host-aggregate",
        metavar="<aggregate>",
        action="append",
        default=[],
        help=f"{host_aggregate}: name, id or UUID. May be repeated.",
    )
