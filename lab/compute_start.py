# SPDX-License-Identifier: Apache-2.0
"""Whether nova-compute starts with PCI options, from its own start up to the driver.

Run this with the Python of a release of nova. It reads a JSON list of ``{alias, in_placement}``,
the texts of ``[pci]alias`` and ``pci_in_placement``, and prints a list of nova's errors, empty for
a start.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from typing import Any
from unittest import mock

# The first import selects the backend of threads.
import nova.api.openstack
import nova.conf
from nova.compute import manager
from nova.pci import request


class DriverStarts(BaseException):
    """The start has come to the driver."""


def start(case: Mapping[str, Any]) -> str:
    conf = nova.conf.CONF
    conf.set_override("alias", case["alias"], group="pci")
    if "pci_in_placement" in conf.filter_scheduler:
        conf.set_override("pci_in_placement", case["in_placement"], group="filter_scheduler")
    # Nova reads the aliases once.
    for function in vars(request).values():
        getattr(function, "cache_clear", lambda: None)()
    compute = mock.MagicMock(spec=manager.ComputeManager, host="host")
    compute.driver = mock.Mock()
    compute.driver.init_host.side_effect = DriverStarts
    function = manager.ComputeManager.init_host
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    try:
        function(compute, mock.Mock())
    except DriverStarts:
        return ""
    except Exception as error:  # noqa: BLE001 - nova's own, of any kind
        return f"{type(error).__name__}: {error}"
    raise AssertionError("nova-compute does not start its driver")


def main() -> None:
    nova.conf.CONF([], project="nova", default_config_files=[])
    logging.disable(logging.CRITICAL)
    json.dump([start(case) for case in json.load(sys.stdin)], sys.stdout)


main()
