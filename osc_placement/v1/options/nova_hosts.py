"""Options that select compute hosts by nova's names."""

from __future__ import annotations

import argparse

#: How a host is named, for the help of options that accept providers too.
FORMS = " Nova's name of the host, or name or UUID of a provider. May be repeated."


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
