# SPDX-License-Identifier: Apache-2.0
"""A base module of OpenStackClient for Placement: what its own tree may have in a later release.

``openstack`` imports it at its start, so it imports nothing of the tests.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

from osc_lib.command import command

API_NAME = "placement"
API_VERSION_OPTION = "os_placement_api_version"
DEFAULT_API_VERSION = "1"
API_VERSIONS = ("1", *(f"1.{minor}" for minor in range(40)))

#: The entry points of a distribution with this module.
ENTRY_POINTS = f"""\
[openstack.cli.base]
{API_NAME} = {__name__}
[openstack.placement.v1]
trait_list = {__name__}:ListTrait
"""

OPTION_HELP = "The version option of the base module"


def build_option_parser(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add a version option."""
    default = os.environ.get("OS_PLACEMENT_API_VERSION")
    parser.add_argument("--os-placement-api-version", default=default, help=OPTION_HELP)
    return parser


def make_client(_: Any) -> str:
    """``client_manager.placement``."""
    return "base"


class ListTrait(command.Lister):
    """The ``trait list`` of the base module: it shows whose client it has."""

    auth_required = False

    def take_action(self, _: argparse.Namespace) -> tuple[tuple[str], list[tuple[str]]]:
        manager: Any = self.app.client_manager
        return ("client",), [(str(manager.placement),)]
