# SPDX-License-Identifier: Apache-2.0
"""Servers without allocations: whether nova's scheduler would choose their hosts."""

from __future__ import annotations

from typing import Any

import pytest

from osc_placement import errors, testing
from osc_placement.neutron import api as neutron_api
from osc_placement.nova import api as nova_api
from osc_placement.plan import plan
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.repair.allocations import audit, heal, heal_request
from osc_placement.workflows.repair.migrations import registry
from tests.support import embedded
from tests.unit.workflows.repair.migrations.test_runner import Cloud

SERVERS = "GET /v2.1/servers/detail?all_tenants=1"
AGGREGATES = "GET /v2.1/os-aggregates"
CONTEXT = ReadContext(workers=1)

#: A server of the sample without allocations, on cmp-0012, which is in the zone az2.
NAME = "vm-00009"


def recorded(*, flavor_specs: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    nova = testing.sample_nova("12-hosts")
    (server,) = (item for item in nova[SERVERS]["servers"] if item["name"] == NAME)
    server.update(fields)
    server["flavor"]["extra_specs"] = flavor_specs or {}
    return nova


def audited(nova: dict[str, Any]) -> Any:
    client = embedded.Client(load=testing.sample_cloud("12-hosts"))
    request = audit.AuditRequest(only=frozenset({"missing"}))
    return audit.audit_cloud(client, nova_api.RecordedNova(nova, "it"), request, CONTEXT)


def evidence(nova: dict[str, Any]) -> tuple[str, list[str]]:
    """What the audit says about the server, and its broken rules."""
    (problem,) = (item for item in audited(nova).findings if item.subject.name == NAME)
    return problem.evidence.text, problem.evidence.fields["broken_rules"]


def healed(nova: dict[str, Any], *, only_allowed: bool = False) -> plan.Plan:
    client = embedded.Client(load=testing.sample_cloud("12-hosts"))
    scope = heal_request.Scope(hosts=frozenset({"cmp-0012"}))
    request = heal_request.HealRequest(scope, only_allowed=only_allowed)
    return heal.plan_healing(client, nova_api.RecordedNova(nova, "it"), request, CONTEXT).plan


@pytest.mark.parametrize(
    ("changed", "codes", "why"),
    [
        ({"pinned_availability_zone": "az2"}, [], ""),
        ({"pinned_availability_zone": None}, [], ""),
        ({"pinned_availability_zone": "az1"}, ["server-zone"], "not in zone az1"),
        (
            {"flavor_specs": {"trait:HW_CPU_X86_AVX512F": "required"}},
            ["server-trait"],
            "no HW_CPU_X86_AVX512F",
        ),
        (
            {"flavor_specs": {"trait:HW_CPU_X86_AVX2": "forbidden"}},
            ["server-trait"],
            "it has HW_CPU_X86_AVX2, which is forbidden",
        ),
        (
            {"flavor_specs": {"aggregate_instance_extra_specs:ssd": "true"}},
            ["server-aggregate"],
            "no aggregate has ssd",
        ),
    ],
)
def test_the_audit_and_heal_name_each_rule_that_the_host_breaks(
    changed: dict[str, Any], codes: list[str], why: str
) -> None:
    nova = recorded(**changed)
    text, broken = evidence(nova)
    assert broken == codes
    assert text.startswith("it has no allocations; created 20")
    assert (f"nova would not choose its host: {why}" in text) == bool(codes)

    planned = healed(nova)
    (change,) = (item for item in planned.changes if item.subject.name == NAME)
    assert (f"nova would not choose its host: {why}" in change.reason) == bool(codes)
    assert any("--only-allowed" in note for note in planned.notes) == bool(codes)

    allowed = healed(nova, only_allowed=True)
    left_out = {item.subject.name: str(item.code) for item in allowed.skipped if item.reason}
    assert (left_out.get(NAME) == "not-allowed") == bool(codes)
    assert len(allowed.changes) == len(planned.changes) - len(codes)


def migrated(nova: dict[str, Any]) -> tuple[registry.Result, plan.Plan]:
    """The dry run of the migration, and the plan of the command."""
    client = embedded.Client(load=testing.sample_cloud("12-hosts"))
    opened = nova_api.RecordedNova(nova, "it")
    cloud = Cloud(opened, neutron_api.RecordedNeutron(nova, "it"))
    (heals,) = (item for item in registry.MIGRATIONS if item.name == "heal_allocations")
    services = registry.CloudServices(client, cloud, CONTEXT)
    result = registry.run(services, "a test", [heals], dry_run=True)
    neutron = cloud.neutron
    request = heal_request.HealRequest()
    return result, heal.plan_healing(client, opened, request, CONTEXT, neutron=neutron).plan


def test_the_migration_warns_as_heal_does() -> None:
    result, planned = migrated(recorded(pinned_availability_zone="az1"))
    (warning,) = (note for note in planned.notes if "--only-allowed" in note)
    assert f"heal_allocations: {warning}" in result.notes
    nova = recorded(pinned_availability_zone="az1")
    del nova[AGGREGATES]
    result, planned = migrated(nova)
    (warning,) = (note for note in planned.notes if note.startswith("whether nova would choose"))
    assert f"heal_allocations: {warning}" in result.notes


def test_a_request_that_is_not_known_is_no_yes() -> None:
    specs = {"trait1:HW_CPU_X86_AVX2": "required"}
    nova = recorded(flavor_specs=specs, pinned_availability_zone="az2")
    text, broken = evidence(nova)
    assert broken == []
    assert "not checked whether nova would choose its host: Placement refuses the query" in text
    planned = healed(nova, only_allowed=True)
    assert NAME not in {item.subject.name for item in planned.changes}


def test_without_the_right_to_host_aggregates_audit_and_heal_say_what_is_not_checked() -> None:
    nova = recorded(pinned_availability_zone="az1")
    del nova[AGGREGATES]
    planned = healed(nova)
    assert NAME in {item.subject.name for item in planned.changes}
    for notes in (planned.notes, audited(nova).not_checked):
        assert any(note.startswith("whether nova would choose") for note in notes)
    with pytest.raises(errors.PlacementError, match="os-aggregates"):
        healed(nova, only_allowed=True)


def test_heal_names_the_hosts_whose_servers_it_does_not_see() -> None:
    nova = recorded()
    for service in nova["GET /v2.1/os-services"]["services"][:1]:
        service |= {"status": "UNKNOWN", "state": "unknown"}
    assert any(f"{service['host']}: its cell is down" in note for note in healed(nova).notes)


def test_a_zone_that_nova_does_not_show_is_no_proof() -> None:
    nova = recorded()
    for item in nova[SERVERS]["servers"]:
        item.pop("pinned_availability_zone", None)
    assert "does not show its zone" in evidence(nova)[0]
