# SPDX-License-Identifier: Apache-2.0
"""The commands of osc-placement 4, and its plugin module: the API name ``placement``.

A client that has ``placement`` in its own tree skips this module, and the commands whose entry
points are here. Nothing else is lost: the entry points of all other commands are in ``v1``, and
the global options and the client in ``plugin``. Each module has a command class where 4.x had it
(``trait.ListTrait``), and the constants that plugins import (``trait.RP_TRAITS_URL``).
"""

from __future__ import annotations

import argparse
from importlib import metadata
from typing import Any

from osc_placement import plugin

API_NAME = "placement"
API_VERSION_OPTION = plugin.API_VERSION_OPTION
DEFAULT_API_VERSION, API_VERSIONS = plugin.DEFAULT_API_VERSION, plugin.API_VERSIONS


def build_option_parser(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add nothing: the global options are those of ``plugin``."""
    return parser


def make_client(instance: Any) -> Any:
    """``client_manager.placement``: the client of all commands, for other plugins.

    A client that has ``placement`` in its own tree skips this module too late: it has replaced its
    own function by this one. So it returns the client of that module.
    """
    for point in metadata.entry_points(group="openstack.cli.base", name=API_NAME):
        return point.load().make_client(instance)
    return getattr(instance, plugin.API_NAME)
