# SPDX-License-Identifier: Apache-2.0
"""The rule about compute services of the property tests is that of nova's own ComputeFilter.

Hosts in every state of ``compute_services``; nova's own host manager and filter check them, see
lab/compute_filter.py. The property tests of the commands compare with the rule.
"""

from __future__ import annotations

import pytest

from lab import install, place
from lab.tests.test_request import RELEASES
from osc_placement.testing import uuid_of
from osc_placement.workflows.cloud import compute_nodes
from tests.support.clouds import compute_services

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]

ROOT = "00000000-0000-4000-8000-{:012}"


@pytest.mark.parametrize("release", RELEASES)
def test_the_rule_of_the_property_tests_is_novas(release: int) -> None:
    states = {
        ROOT.format(10 * number + copy): state
        for number, state in enumerate(compute_services.STATES)
        for copy in range(3)
    }
    hosts = [
        # The node of a provider that nova does not have has another UUID.
        {"uuid": root, "node": uuid_of(root) if state == "no node" else root, "state": state}
        for root, state in states.items()
    ]
    accepted = set(install.ask_release(place.find(), release, "compute_filter.py", hosts))
    assert accepted == compute_services.accepted(states)
    compute = compute_nodes.read_server_hosts(compute_services.nova(states))
    assert accepted == states.keys() - compute.refused(states).keys()
