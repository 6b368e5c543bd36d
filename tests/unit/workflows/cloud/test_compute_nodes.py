# SPDX-License-Identifier: Apache-2.0
"""Which root providers can take a server: the rules of nova's ComputeFilter."""

from __future__ import annotations

import random
from typing import Any

import pytest

from osc_placement import errors
from osc_placement.scheduling.server_hosts import NOVA_NOT_READ
from osc_placement.workflows.cloud import compute_nodes
from tests.support.clouds import compute_services

ROOTS = [f"00000000-0000-4000-8000-{number:012}" for number in range(6)]

REASONS = {
    "up": "",
    "down": "nova-compute down",
    "forced down": "nova-compute forced down",
    "forced down, still reporting": "nova-compute forced down",
    "disabled": "nova-compute disabled",
    "disabled and down": "nova-compute disabled",
    "no service": "no compute service",
    "no node": "nova lists no compute node",
    "cell down": "nova lists no compute node, and the cell of nova-0 is down",
}


@pytest.mark.parametrize("state", compute_services.STATES)
def test_each_state_of_a_host_has_a_reason(state: str) -> None:
    hosts = compute_nodes.read_server_hosts(compute_services.nova({ROOTS[0]: state}))
    assert hosts.why_not(ROOTS[0]) == REASONS[state]
    assert hosts.not_checked == ()


@pytest.mark.seeds(40, long=600)
def test_the_hosts_are_those_that_the_compute_filter_accepts(seed: int) -> None:
    states = compute_services.draw_states(random.Random(f"compute {seed}"), ROOTS)
    hosts = compute_nodes.read_server_hosts(compute_services.nova(states))
    refused = hosts.refused(ROOTS)
    assert set(ROOTS) - refused.keys() == compute_services.accepted(states)
    assert all(refused.values())


def test_a_provider_with_the_name_of_a_node_but_another_uuid_is_refused() -> None:
    answers = compute_services.answers({ROOTS[0]: "no node"}, {ROOTS[0]: "cmp-1"})
    (node,) = answers["GET /v2.1/os-hypervisors/detail"]["hypervisors"]
    assert node["hypervisor_hostname"] == "cmp-1"
    hosts = compute_nodes.read_server_hosts(compute_services.api.RecordedNova(answers, ""))
    assert hosts.why_not(ROOTS[0]) == "nova lists no compute node"


def test_without_nova_no_host_is_refused_and_the_answer_says_so() -> None:
    hosts = compute_nodes.read_server_hosts(None)
    assert hosts.refused(ROOTS) == {}
    assert hosts.not_checked == (NOVA_NOT_READ,)


def test_services_that_nova_does_not_show_are_not_checked() -> None:
    class Refusing:
        source = ""

        def ask(self, path: str, version: str) -> Any:
            raise errors.PlacementError("Policy does not allow it")

    hosts = compute_nodes.read_server_hosts(Refusing())
    assert hosts.refused(ROOTS) == {}
    assert hosts.not_checked == ("compute services: Policy does not allow it",)


def test_hosts_are_named_by_reason() -> None:
    refused = {"b": "down", "a": "down", "c": "disabled"}
    assert compute_nodes.not_counted(refused) == ["c (disabled)", "a, b (down)"]
