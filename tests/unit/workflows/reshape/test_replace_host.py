# SPDX-License-Identifier: Apache-2.0
"""The recipe for a renamed or rebuilt host, and the checks before it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from osc_placement.nova import values
from osc_placement.workflows.reshape import recipes, replace_host, snapshot
from tests.support.embedded import uuid_of
from tests.support.reshape import cloud_builder
from tests.support.reshape.recipes import (
    CONSUMERS,
    NEW,
    PROVIDERS,
    TRAITS,
    cloud,
    held,
    outcome,
    problems,
    server,
    servers,
)


def nova_state(*nova_servers: values.Server, **fields: Any) -> recipes.NovaState:
    present = server("a"), server("b"), server("c")
    services = {"host1": values.ComputeService("host1", is_up=False, is_enabled=False)}
    nodes = (values.ComputeNode(NEW, "cn1", "host1"),)
    found = recipes.NovaState(nodes, services, servers(*present, *nova_servers))
    return dataclasses.replace(found, **fields)


def request_for(
    name: str = "cn1",
    new: str | None = None,
    before: snapshot.TreeSnapshot | None = None,
    **fields: Any,
) -> replace_host.ReplaceHostRequest:
    trees = before or cloud()
    provider = trees.nodes[uuid_of(new)].provider if new else None
    uuid = fields.pop("uuid", "" if new else NEW)
    old = trees.nodes[uuid_of("cn1")].provider
    return replace_host.ReplaceHostRequest(old, name, provider, uuid, **fields)


def test_a_renamed_node_gets_everything_and_the_old_one_is_deleted() -> None:
    recipe = replace_host.plan_replacement(cloud(), nova_state(), request_for("cn2"))
    assert recipe.document == {
        "moves": [
            {
                "from": uuid_of("cn1"),
                "resources": {"SRIOV_NET_VF": "all", "VCPU": "all", "VGPU": "all"},
                "to": {
                    "name": "cn2",
                    "uuid": NEW,
                    "parent": None,
                    "traits": ["COMPUTE_NODE", "CUSTOM_RACK"],
                },
            }
        ],
        "providers": [
            {"uuid": uuid_of("cn1:agent"), "parent": NEW},
            {"uuid": uuid_of("cn1_pci_0000_86_00_0"), "parent": NEW},
        ],
        "rename": {
            uuid_of("cn1_pci_0000_86_00_0"): "cn2_pci_0000_86_00_0",
            uuid_of("cn1:agent"): "cn2:agent",
            uuid_of("cn1:agent:ens1"): "cn2:agent:ens1",
        },
        "delete": [uuid_of("cn1")],
    }
    after = outcome(recipe, cloud(), "nova-owned")
    assert uuid_of("cn1") not in after.nodes
    assert held(after, "a") == {"cn2": {"VCPU": 4, "VGPU": 1}, "share": {"DISK_GB": 10}}
    assert held(after, "c")["cn2:agent:ens1"] == {"NET_BW_EGR_KILOBIT_PER_SEC": 5}
    assert after.root_of(uuid_of("cn1:agent:ens1")) == NEW


def test_an_existing_empty_provider_replaces_the_old_one() -> None:
    before = cloud("cn1", "empty")
    request = request_for("empty", "empty", before)
    after = outcome(
        replace_host.plan_replacement(before, nova_state(), request), before, "nova-owned"
    )
    assert held(after, "b") == {"empty": {"VCPU": 2, "VGPU": 3, "SRIOV_NET_VF": 1}}


def test_a_node_on_another_host_needs_its_host_aggregates() -> None:
    nodes = (values.ComputeNode(uuid_of("cn1"), "cn1", "host0"), *nova_state().nodes)
    state = nova_state(nodes=nodes)
    recipe = replace_host.plan_replacement(cloud(), state, request_for("cn2", host="host1"))
    assert "host1 is not host0: run openstack aggregate add host" in " ".join(recipe.head)


def service(**fields: Any) -> dict[str, values.ComputeService]:
    stopped = values.ComputeService("host1", is_up=False, is_enabled=False)
    return {"host1": dataclasses.replace(stopped, **fields)}


BEFORE = cloud("cn1", "cn9")
RUNNING = values.Migration("m", uuid_of("b"), "live-migration", "running")
OVER = values.Migration("n", uuid_of("b"), "resize", "confirmed")
KEPT = values.ComputeNode(uuid_of("cn1"), "cn1", "host1")
COMPUTE_ID = "/var/lib/nova/compute_id"
NODES = tuple(values.ComputeNode(uuid_of(name), name, "host1") for name in ("0", "1", "2", "cn1"))


@pytest.mark.parametrize(
    ("request_fields", "nova", "reason"),
    [
        ({}, {"services": service(is_up=True)}, "nova-compute on host1 is up"),
        ({}, {"services": service(is_enabled=True)}, "nova-compute on host1 is enabled"),
        ({}, {"services": service(is_reachable=False)}, "the cell of host1 is down"),
        (
            {},
            {"known": server("a", host="host2")},
            f"a ({uuid_of('a')}): is on host2 according to nova, and not on host1",
        ),
        ({}, {"known": server("a", host=None)}, "is on no host according to nova"),
        ({}, {"known": server("a", task_state="rebuilding")}, "task_state is rebuilding"),
        ({}, {"known": server("a", known=False)}, "its cell is down"),
        ({}, {"known": server("a", known=False, hidden="nova hides it")}, "nova hides it: its"),
        ({}, {"migrations": {"m": RUNNING}}, "is being migrated: live-migration, running"),
        ({}, {"migrations": {"n": OVER, "m": RUNNING}}, "migrated: live-migration, running"),
        ({"host": "host2"}, {}, "and not on host2"),
        (
            {"name": "cn9", "new": "cn9"},
            {},
            "cn9 already has inventories of VCPU: nova-compute was started there",
        ),
        ({"name": "cn2", "uuid": ""}, {}, "give --uuid"),
        ({"name": "cn2", "uuid": uuid_of("cn1")}, {}, "would keep the UUID"),
        ({"name": "cn8", "new": "cn9"}, {}, "has the name 'cn9', not 'cn8'"),
        ({"name": "cn9", "new": "cn9", "uuid": NEW}, {}, "with another UUID"),
        ({}, {"nodes": (KEPT,)}, f"write this UUID to {COMPUTE_ID} on host1"),
        ({"host": "host2"}, {"nodes": (KEPT,)}, "and not on host2"),
        ({}, {"nodes": ()}, "nova knows no node cn1 or cn1"),
        ({}, {"nodes": NODES[1:]}, "host1 has 3 nodes"),
        ({"host": "host2"}, {"nodes": NODES[2:]}, "host1 has 2 nodes"),
    ],
)
def test_a_host_that_cannot_be_replaced_is_refused(
    request_fields: dict[str, Any], nova: dict[str, Any], reason: str
) -> None:
    hosts = [nova.pop("known")] if "known" in nova else []
    state = nova_state(*hosts, **nova)
    request = request_for(before=BEFORE, **request_fields)
    assert reason in "\n".join(problems(replace_host.plan_replacement, BEFORE, state, request))


def test_the_commands_for_a_host_can_be_pasted() -> None:
    running = service(host="host 1", is_up=True, is_enabled=True)
    for reason in replace_host.service(running["host1"]):
        assert " 'host 1' nova-compute" in reason


def test_allocations_on_both_providers_are_refused() -> None:
    both = {**CONSUMERS, "a": {"cn1": {"VCPU": 1}, "cn9": {"VCPU": 1}}, "d": {"cn9": {"VCPU": 1}}}
    before = cloud_builder.snapshot_of(cloud_builder.state(PROVIDERS, both, TRAITS), "cn1", "cn9")
    request = request_for("cn9", "cn9", before)
    text = "\n".join(problems(replace_host.plan_replacement, before, nova_state(), request))
    assert text.count("already has allocations on cn9, as after an evacuation") == 1
    assert uuid_of("d") not in text
    assert "with allocations: the inventories of cn1 would be counted twice" in text
