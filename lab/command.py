# SPDX-License-Identifier: Apache-2.0
"""Run a small OpenStack for tests: keystone, placement, nova-api and nova-manage.

The services come from PyPI, run in a separate virtual environment and listen on 127.0.0.1.
Environment variables: OSC_PLACEMENT_LAB, the folder (default: .lab in the checkout);
OSC_PLACEMENT_LAB_PORT, the first of five ports of a new lab (default: 24000);
OSC_PLACEMENT_LAB_PYTHON, the Python of the virtual environment.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from lab import database, lifecycle, place, process


def parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    result = argparse.ArgumentParser(
        "tools/lab", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    verbs = result.add_subparsers(dest="verb", required=True)
    up = verbs.add_parser("up", help="install, configure and start the services")
    up.add_argument(
        "--only",
        nargs="+",
        choices=place.needed(),
        default=(),
        metavar="SERVICE",
        help=f"{', '.join(place.needed())}; with their dependencies (default: all)",
    )
    up.add_argument("--workers", type=int, default=1, help="processes per service (%(default)s)")
    seed = verbs.add_parser("seed", help="create the seeded state, and save it as 'seeded'")
    seed.add_argument("--hosts", type=int, default=12, help="compute hosts (%(default)s)")
    seed.add_argument(
        "--servers",
        type=int,
        default=60,
        help="ordinary servers, in addition to the special ones (%(default)s)",
    )
    seed.add_argument(
        "--ordinary",
        action="store_true",
        help="only ordinary servers, at which nova-manage does not stop",
    )
    for verb, text in (("save", "save the state"), ("reset", "restore a saved state")):
        states = verbs.add_parser(verb, help=f"{text}, while the services run")
        states.add_argument("name", nargs="?", default=database.SEEDED, help="name (%(default)s)")
    down = verbs.add_parser("down", help="stop the services")
    down.add_argument(
        "--purge", action="store_true", help="also remove databases and configuration"
    )
    verbs.add_parser("status", help="show the services; exits with 1 if one is down")
    verbs.add_parser("env", help="print shell commands that set the cloud for openstack")
    manage = verbs.add_parser("manage", help="run the lab's nova-manage")
    manage.add_argument("words", nargs=argparse.REMAINDER, metavar="...")
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand; return 1 after an error, with the reason on stderr."""
    options = parser().parse_args(arguments)
    lab = place.find()
    try:
        return run(lab, options)
    except place.LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1


def run(lab: place.Place, options: argparse.Namespace) -> int:
    """Run a subcommand and return its exit code."""
    if options.verb == "up":
        lifecycle.up(lab, options.only, options.workers)
    elif options.verb == "seed":
        kinds = "ordinary" if options.ordinary else "all"
        lifecycle.seed(lab, options.hosts, options.servers, kinds)
    elif options.verb == "save":
        database.save(lab, options.name)
    elif options.verb == "reset":
        database.reset(lab, options.name)
    elif options.verb == "down":
        lifecycle.down(lab, purge=options.purge)
    elif options.verb == "status":
        return status(lab)
    elif options.verb == "env":
        print(f"export OS_CLIENT_CONFIG_FILE={lab.path('clouds.yaml')} OS_CLOUD=lab")
    elif options.verb == "manage":
        program = lab.program("nova-manage")
        command = [program, "--config-dir", str(lab.path("etc", "nova")), *options.words]
        os.execve(program, command, dict(lab.environment()))
    return 0


def status(lab: place.Place) -> int:
    """Print the state of each service; return 1 if an installed one is down."""
    code = 0
    for name in place.needed():
        number = process.pid(lab, name)
        installed = database.is_made(lab, name)
        up = number is not None and process.answers(lab, name)
        code |= installed and not up
        text = "up" if up else "down" if installed else "not installed"
        print(f"{name:10} port {lab.port(name)}  pid {number or '-':<8} {text}")
    print(f"saved states: {', '.join(database.saved(lab)) or '-'}")
    return code
