# SPDX-License-Identifier: Apache-2.0
"""The options of ``osc-placement-server``, and the application that they describe."""

from __future__ import annotations

import argparse
import ipaddress
import logging
import pathlib
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any

from osc_placement.engine import standard
from osc_placement.engine.candidates.forest import Strategy
from osc_placement.errors import MissingPackage
from osc_placement.model import json_text
from osc_placement.samples import sample
from osc_placement.server import app, auth, context, policy
from osc_placement.server.store import errors

LOG = logging.getLogger(__name__)


class CannotStart(Exception):
    """The server cannot start; the text has the reason and the remedy."""


#: The errors of ``create``.
CANNOT_START = (
    errors.StoreError,
    CannotStart,
    MissingPackage,
    auth.AuthConfigInvalid,
    policy.PolicyFileInvalid,
)

DESCRIPTION = "A reference server of the OpenStack Placement API, for tests, rehearsal and labs."
EPILOG = (
    "The state is in memory unless --database names a file. The server prints its URL when it"
    " is ready, and SIGTERM or SIGINT close every connection. Limits:"
    " bodies of 16 MiB, request line with headers 64 KiB,"
    " 120 s of silence, 500 connections, 8 requests at the same time."
)


def parser() -> argparse.ArgumentParser:
    """The argument parser."""
    arguments = argparse.ArgumentParser(
        "osc-placement-server", description=DESCRIPTION, epilog=EPILOG
    )
    arguments.add_argument(
        "--debug", action="store_true", help="log the options and every request, on stderr"
    )
    arguments.add_argument(
        "--version",
        action="version",
        version=f"%(prog)s {metadata.version('osc-placement')}",
        help="print the version and exit",
    )
    arguments.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    arguments.add_argument(
        "--port", type=_port, default=8778, help="port to listen on, 0 for any (%(default)s)"
    )
    arguments.add_argument(
        "--allow-remote-noauth",
        action="store_true",
        help="listen on other addresses than loopback although noauth2 trusts every client",
    )
    arguments.add_argument(
        "--cors-allowed-origin",
        action="append",
        default=[],
        metavar="URL",
        help="origin that browsers may send requests from; repeatable",
    )
    _add_state(arguments.add_argument_group("state"))
    _add_limits(arguments.add_argument_group("limits"))
    _add_access(arguments.add_argument_group("access"))
    return arguments


def _add_state(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--database", metavar="FILE", help="SQLite file to keep the state in")
    group.add_argument(
        "--load",
        metavar="FILE",
        help=(
            "JSON document with the initial state of an empty database, or the"
            f" name of a sample cloud: {', '.join(sample.sample_cloud_names())}"
        ),
    )
    group.add_argument(
        "--exit",
        action="store_true",
        help="exit when --load is in the --database, without serving",
    )
    group.add_argument(
        "--export",
        metavar="FILE",
        help="write the whole state as a JSON document, - for standard output, and exit",
    )
    group.add_argument(
        "--check",
        metavar="FILE",
        help="check the SQLite file, report every problem in it, and exit",
    )


def _add_limits(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--max-allocation-candidates",
        type=_candidates,
        metavar="N",
        default="-1",
        help="end a search after this many candidates, -1 for no limit (%(default)s)",
    )
    group.add_argument(
        "--allocation-candidates-generation-strategy",
        choices=[str(strategy) for strategy in Strategy],
        default=Strategy.DEPTH_FIRST,
        help="find all candidates of a tree before the next tree, or one of each tree in turn"
        " (%(default)s)",
    )


def _add_access(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--auth",
        choices=app.STRATEGIES,
        default=app.NOAUTH2,
        help="authentication strategy: trust each token, or validate it in keystone (%(default)s)",
    )
    group.add_argument(
        "--config-file",
        metavar="FILE",
        help=f"for --auth keystone: file with a section [{auth.GROUP}]",
    )
    group.add_argument("--policy-file", metavar="FILE", help="oslo.policy file")
    group.add_argument(
        "--legacy-rbac",
        action="store_true",
        help="admin may reshape too; without it, only service may",
    )


def create(options: argparse.Namespace) -> app.App:
    """The application. Errors: CANNOT_START."""
    # The import takes seconds while a large request is computed: do it before the first one.
    standard.traits()
    for name, value in sorted(vars(options).items()):
        LOG.debug("option %s = %s", name, value)
    if options.auth == app.NOAUTH2:
        _check_address(options.host, options.allow_remote_noauth)
    return app.create_app(
        options.database,
        auth=options.auth,
        config_file=options.config_file,
        policy_file=options.policy_file,
        legacy_rbac=options.legacy_rbac,
        cors_allowed_origins=options.cors_allowed_origin,
        load=_document(options.load),
        request_limits=context.Limits(
            max_candidates=options.max_allocation_candidates,
            strategy=Strategy(options.allocation_candidates_generation_strategy),
        ),
    )


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options of a command line; exits with a usage error."""
    options = parser().parse_args(arguments)
    if options.exit and None in (options.load, options.database):
        parser().error("--exit requires --load and --database")
    if options.check and any((options.database, options.load, options.export)):
        parser().error("--check is not allowed with --database, --load or --export")
    return options


def _number(text: str, is_valid: Callable[[int], bool], otherwise: str) -> int:
    """The number of an option; ``otherwise`` says what an invalid one is."""
    try:
        number = int(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"invalid int value: {text!r}") from error
    if not is_valid(number):
        raise argparse.ArgumentTypeError(f"{text} is {otherwise}")
    return number


def _port(text: str) -> int:
    return _number(text, lambda port: 0 <= port <= 65535, "not a port: use 0 to 65535")


def _candidates(text: str) -> int | None:
    """A number of candidates; None for -1, as in openstack-placement."""
    most = _number(text, lambda n: n == -1 or n >= 1, "neither -1 nor at least 1")
    return None if most == -1 else most


def _check_address(host: str, allowed: bool) -> None:
    """Without authentication, refuse addresses other than loopback."""
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = host == "localhost"
    if loopback:
        return
    if not allowed:
        raise CannotStart(
            f"{host} is not a loopback address, and with noauth2 every client may"
            " do everything: add --allow-remote-noauth if that is intended"
        )
    sys.stderr.write(f"warning: without authentication, every client of {host} may do everything\n")


def _document(path: str | None) -> Any:
    if path is None:
        return None
    if path in sample.sample_cloud_names():
        return sample.sample_cloud(path)
    try:
        document = json_text.read(pathlib.Path(path))
    except OSError as error:
        samples = ", ".join(sample.sample_cloud_names())
        raise CannotStart(
            f"{path} cannot be read: {error.strerror}. The sample clouds are {samples}"
        ) from error
    except ValueError as error:
        raise CannotStart(f"{error}: this is not a JSON document") from error
    if document is None:
        # None is the state of a server without --load.
        raise CannotStart(f"{path}: it is not a JSON object")
    return document
