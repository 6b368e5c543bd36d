"""Nova, for the commands that hold Placement against it: the cloud's, or answers in a file."""

from __future__ import annotations

import argparse
import pathlib
import types
from typing import TYPE_CHECKING, Any

from osc_placement import errors
from osc_placement.v1 import base

if TYPE_CHECKING:
    from osc_placement.neutron import api as neutron_api
    from osc_placement.nova import api as nova_api


def add_recording(parser: argparse.ArgumentParser) -> None:
    """Declare ``--nova-recording``."""
    parser.add_argument(
        "--nova-recording",
        metavar="<file>",
        help='Take nova\'s answers from this JSON file ({"GET /v2.1/os-aggregates": ...}) instead'
        " of asking nova; 12-hosts is the sample cloud's. To rehearse on a"
        " --os-placement-database.",
    )


def reached(command: base.PlacementCommand, parsed_args: argparse.Namespace) -> nova_api.Nova:
    """Who answers for nova. Errors: PlacementError where there is neither cloud nor file."""
    from osc_placement.nova import api as nova_api

    if parsed_args.nova_recording is not None:
        return _recorded(parsed_args.nova_recording)
    shell: Any = command.app
    if not command.auth_required:
        _authenticate(shell)
    return nova_api.SessionNova(shell.client_manager.sdk_connection)


def ports(asked: nova_api.Nova, command: base.PlacementCommand) -> neutron_api.Neutron:
    """Who answers for neutron: the same cloud as ``reached``, or the same file."""
    from osc_placement.neutron import api as neutron_api
    from osc_placement.nova import api as nova_api

    if isinstance(asked, nova_api.RecordedNova):
        return neutron_api.RecordedNeutron(asked.recorded, asked.source)
    shell: Any = command.app
    return neutron_api.SessionNeutron(shell.client_manager.sdk_connection)


def _recorded(given: str) -> nova_api.RecordedNova:
    from osc_placement.nova import api as nova_api
    from osc_placement.samples import sample

    if not pathlib.Path(given).exists():
        try:
            return nova_api.RecordedNova(sample.sample_nova(given), f"the sample {given}")
        except sample.UnknownSample:
            pass
    return nova_api.read_recording(pathlib.Path(given))


def _authenticate(shell: Any) -> None:
    """Log in for nova alone, as the shell does it: Placement is embedded and needs no login."""
    try:
        shell.prepare_to_run_command(types.SimpleNamespace(auth_required=True))
    except Exception as error:  # osc-lib, the SDK and keystoneauth each raise their own.
        raise errors.PlacementError(
            "this command asks nova: choose a cloud (--os-cloud), or give nova's answers in a"
            f" file (--nova-recording): {error}"
        ) from error
