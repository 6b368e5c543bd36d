# SPDX-License-Identifier: Apache-2.0
"""Commands take nova's names of hosts, and names and UUIDs of providers, for the same host."""

from __future__ import annotations

import json
from typing import Any

import pytest

from osc_placement import testing
from tests.support.peer import fixtures, shell, target as targets

pytestmark = pytest.mark.usefixtures("sample")

RECORDED = ("--os-nova-recording", "12-hosts")
REQUEST = ("--flavor", "m1.small")
NODES = testing.sample_nova("12-hosts")["GET /v2.1/os-hypervisors/detail"]["hypervisors"]


def names_of(node: dict[str, Any], target: targets.Target) -> list[str]:
    """Nova's name of the host, and name and UUID of its provider; empty without a provider."""
    name = node["hypervisor_hostname"]
    listed = target.ask("GET", f"/resource_providers?name={name}")["resource_providers"]
    return [node["service"]["host"], *(text for item in listed for text in (name, item["uuid"]))]


@pytest.mark.parametrize(
    "command",
    [
        ("allocation candidate explain", "--resource", "VCPU=1000", "--host"),
        ("placement capacity show", *REQUEST, "--by", "host", "--without"),
        ("placement allocation audit", "--host"),
        ("placement provider audit", "--host"),
        ("placement allocation heal", "--dry-run", "--host"),
        ("placement aggregate mirror", "--dry-run", "--host"),
        ("placement aggregate mirror", "--ratios", "--dry-run", "--host"),
    ],
    ids=["explain", "capacity", "audit", "providers", "heal", "mirror", "ratios"],
)
@fixtures.ON_ONE_TARGET
def test_a_host_has_three_names(
    openstack: shell.OpenStack, target: targets.Target, command: tuple[str, ...]
) -> None:
    node = next(item for item in NODES if item["service"]["host"] == "cmp-0002")
    names = names_of(node, target)
    assert len(names) == 3
    answers = [openstack.run(*command, text, *RECORDED, "-f", "json").stdout for text in names]
    assert answers[0] == answers[1] == answers[2]
    assert json.loads(answers[0])
