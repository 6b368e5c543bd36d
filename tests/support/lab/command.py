"""A small OpenStack of real services for tests: keystone, placement, nova-api, nova-manage.

They come from PyPI into a virtual environment of their own, and listen on 127.0.0.1.
Environment: OSC_PLACEMENT_LAB, the folder (.lab in the checkout); OSC_PLACEMENT_LAB_PORT,
the first of five ports (24000) for a lab that is made; OSC_PLACEMENT_LAB_PYTHON.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from tests.support.lab import database, lifecycle, place, process


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        "tools/lab", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    verbs = made.add_subparsers(dest="verb", required=True)
    up = verbs.add_parser("up", help="install, configure and start what is missing")
    up.add_argument(
        "--only",
        nargs="+",
        choices=place.needed(),
        default=(),
        metavar="SERVICE",
        help=f"of {', '.join(place.needed())}; with what they need (default: all)",
    )
    up.add_argument("--workers", type=int, default=1, help="processes of each (%(default)s)")
    seed = verbs.add_parser("seed", help="fill it anew, and save that state as 'seeded'")
    seed.add_argument("--hosts", type=int, default=12, help="compute hosts (%(default)s)")
    seed.add_argument(
        "--servers", type=int, default=60, help="ordinary ones, beside the special (%(default)s)"
    )
    seed.add_argument(
        "--ordinary", action="store_true", help="none but those: nothing stops nova-manage"
    )
    for verb, text in (("save", "keep the state"), ("reset", "put a kept state back")):
        kept = verbs.add_parser(verb, help=f"{text} under a name, while the services run")
        kept.add_argument("name", nargs="?", default=database.SEEDED, help="(%(default)s)")
    down = verbs.add_parser("down", help="end the services")
    down.add_argument("--purge", action="store_true", help="remove databases and configuration too")
    verbs.add_parser("status", help="what runs; exits with 1 if anything that was made does not")
    verbs.add_parser("env", help="lines to eval, so that openstack talks to it")
    manage = verbs.add_parser("manage", help="the lab's own nova-manage")
    manage.add_argument("words", nargs=argparse.REMAINDER, metavar="...")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Do one thing; 1 with the reason on stderr when it cannot be done."""
    options = parser().parse_args(arguments)
    lab = place.find()
    try:
        return run(lab, options)
    except place.LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1


def run(lab: place.Place, options: argparse.Namespace) -> int:
    """The exit code of what was asked."""
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
        words = [program, "--config-dir", str(lab.path("etc", "nova")), *options.words]
        os.execve(program, words, dict(lab.environment()))
    return 0


def status(lab: place.Place) -> int:
    """Print what runs; 1 if one that was made does not."""
    code = 0
    for name in place.needed():
        number = process.pid(lab, name)
        made = database.is_made(lab, name)
        up = number is not None and process.answers(lab, name)
        code |= made and not up
        word = "answers" if up else "down" if made else "not made"
        print(f"{name:10} port {lab.port(name)}  pid {number or '-':<8} {word}")
    print(f"saved states: {', '.join(database.saved(lab)) or '-'}")
    return code
