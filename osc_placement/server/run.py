"""The command ``osc-placement-server``: options, and the start of a service."""

from __future__ import annotations

import argparse
import gc
import ipaddress
import json
import os
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

from osc_placement.samples import sample
from osc_placement.server import app, keystone, log, policy, serve
from osc_placement.server.store import errors

_CANNOT_START = (
    errors.StoreError,
    serve.CannotStart,
    keystone.AuthConfigInvalid,
    policy.PolicyFileInvalid,
)

DESCRIPTION = "A reference server of the OpenStack Placement API, for tests, rehearsal and labs."
EPILOG = (
    "The state is in memory unless --database names a file. Prints its URL when it is ready,"
    " and ends on SIGTERM or SIGINT after the answers in flight. Limits: bodies of 16 MiB,"
    " request line with headers 64 KiB, 60 s from a request's first byte to its last,"
    " 120 s of silence, 10,000 connections (less where the system allows fewer open files)."
)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser("osc-placement-server", description=DESCRIPTION, epilog=EPILOG)
    made.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    made.add_argument(
        "--port", type=_port, default=8778, help="port to listen on, 0 for any (%(default)s)"
    )
    made.add_argument(
        "--allow-remote-noauth",
        action="store_true",
        help="listen beyond loopback although with noauth2 anybody is trusted",
    )
    made.add_argument(
        "--cors-allowed-origin",
        action="append",
        default=[],
        metavar="URL",
        help="origin that browsers may ask from; repeatable",
    )
    _add_state(made.add_argument_group("state"))
    _add_access(made.add_argument_group("who may"))
    return made


def _add_state(made: argparse._ArgumentGroup) -> None:
    made.add_argument("--database", metavar="FILE", help="SQLite file to keep the state in")
    made.add_argument(
        "--load",
        metavar="FILE",
        help=(
            "JSON document of a whole state to begin with, for a database that is new; or the"
            f" name of a sample cloud: {', '.join(sample.sample_cloud_names())}"
        ),
    )
    made.add_argument(
        "--export",
        metavar="FILE",
        help="write the whole state as a JSON document, - for standard output, and end",
    )
    made.add_argument(
        "--first-generation",
        type=_natural,
        default=0,
        metavar="N",
        help="generation that providers and consumers begin at (%(default)s)",
    )


def _add_access(made: argparse._ArgumentGroup) -> None:
    made.add_argument(
        "--auth",
        choices=app.STRATEGIES,
        default=app.NOAUTH2,
        help="whether tokens are believed, or keystone is asked what they are (%(default)s)",
    )
    made.add_argument(
        "--config-file",
        metavar="FILE",
        help=f"for --auth keystone: file with a section [{keystone.GROUP}], as services have it",
    )
    made.add_argument("--policy-file", metavar="FILE", help="oslo.policy file")
    roles = made.add_mutually_exclusive_group()
    roles.add_argument(
        "--secure-rbac",
        action="store_true",
        help="admin and service may do all, but only service may reshape (default)",
    )
    roles.add_argument("--legacy-rbac", action="store_true", help="admin may reshape too")


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until a signal; 0, or 1 with the reason on stderr."""
    options = _parsed(arguments)
    log.configure()
    serve.raise_file_limit()
    try:
        _check_database(options)
        if options.auth == app.NOAUTH2:
            _check_address(options.host, options.allow_remote_noauth)
        placement = app.create_app(
            options.database,
            auth=options.auth,
            config_file=options.config_file,
            policy_file=options.policy_file,
            legacy_rbac=options.legacy_rbac,
            first_generation=options.first_generation,
            cors_allowed_origins=options.cors_allowed_origin,
            load=_document(options.load),
        )
    except _CANNOT_START as error:
        return _fail(error)
    # What is there will stay: the collector need not look at it again and again.
    gc.freeze()
    try:
        if options.export is not None:
            _export(placement, options.export)
            return 0
        server = serve.Server(placement, options.host, options.port, placement.threads)
        server.stop_on_signals()
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        server.run()
    except serve.CannotStart as error:
        return _fail(error)
    finally:
        placement.close()
    return 0


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    options = parser().parse_args(arguments)
    if options.auth == app.KEYSTONE and not options.config_file:
        parser().error(f"--auth {app.KEYSTONE} needs a --config-file")
    if options.auth != app.KEYSTONE and options.config_file:
        parser().error(f"--config-file goes with --auth {app.KEYSTONE}")
    return options


def _fail(error: Exception) -> int:
    sys.stderr.write(f"osc-placement-server: {error}\n")
    return 1


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"invalid int value: {text!r}") from error


def _port(text: str) -> int:
    port = _whole(text)
    if not 0 <= port <= 65535:
        raise argparse.ArgumentTypeError(f"{text} is no port: 0 to 65535 are")
    return port


def _natural(text: str) -> int:
    number = _whole(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is less than 0")
    return number


def _check_address(host: str, allowed: bool) -> None:
    """Without authentication the service is for this machine alone."""
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = host == "localhost"
    if loopback:
        return
    if not allowed:
        raise serve.CannotStart(
            f"{host} is not a loopback address, and with noauth2 anybody who reaches it may"
            " do everything: add --allow-remote-noauth if that is wanted"
        )
    sys.stderr.write(f"warning: anybody who reaches {host} may do everything here\n")


def _check_database(options: argparse.Namespace) -> None:
    """An export is of what there is: a name mistyped must not make a new database."""
    made = options.load is None and options.database is not None
    if options.export is not None and made and not os.path.exists(options.database):
        raise serve.CannotStart(f"there is no database {options.database} to export")


def _export(placement: app.App, path: str) -> None:
    text = json.dumps(placement.export(), indent=1) + "\n"
    if path == "-":
        sys.stdout.write(text)
        return
    goal = pathlib.Path(path)
    unfinished = pathlib.Path(f"{path}.part")
    try:
        if goal.exists() and not goal.is_file():
            # Nothing takes the place of /dev/null.
            goal.write_text(text, encoding="utf-8")
            return
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(path)
    except OSError as error:
        raise serve.CannotStart(f"{path} cannot be written: {error.strerror}") from error


def _document(path: str | None) -> Any:
    if path is None:
        return None
    if path in sample.sample_cloud_names():
        return sample.sample_cloud(path)
    try:
        with open(path, encoding="utf-8") as source:
            return json.load(source)
    except OSError as error:
        raise serve.CannotStart(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise serve.CannotStart(f"{path} is no JSON document: {error}") from error


if __name__ == "__main__":
    sys.exit(main())
