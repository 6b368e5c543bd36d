# SPDX-License-Identifier: Apache-2.0
"""Ports with resource requests: neutron and Placement change together or not at all."""

from __future__ import annotations

import collections
import dataclasses
import pathlib
from typing import Any

import pytest

from osc_placement.client import api_errors
from osc_placement.model import inventory
from osc_placement.neutron import api as neutron_api
from osc_placement.nova import api as nova_api
from osc_placement.plan import apply, file, plan, result
from osc_placement.workflows.repair.allocations import audit, heal, preconditions
from osc_placement.workflows.repair.allocations.heal_request import HealOptions, HealRequest
from tests.support import embedded, fake_neutron, plans, scripted
from tests.support.clouds import caching_scheduler
from tests.support.clouds.caching_scheduler import USES
from tests.support.embedded import uuid_of
from tests.support.fake_neutron import BANDWIDTH, port

EGRESS = "NET_BW_EGR_KILOBIT_PER_SEC"
HOST, CARDS = uuid_of("cmp-0000"), [uuid_of("card-1"), uuid_of("card-2")]


class Run:
    """One host with network cards and servers, and what a test does with them."""

    def __init__(self, cards: int, *ports: dict[str, Any]) -> None:
        self.cloud = caching_scheduler.OldCloud(hosts=1, servers=4)
        self.client = self.cloud.client
        self.nova = nova_api.RecordedNova(self.cloud.answers, "")
        self.neutron = fake_neutron.FakeNeutron(*ports)
        self.client.create_trait("CUSTOM_PHYSNET_A")
        for uuid in CARDS[:cards]:
            self.client.create_provider(f"card {uuid}", uuid, HOST)
            offers = {name: inventory.Inventory(total=3000) for name in BANDWIDTH}
            inventories = self.client.replace_inventories(uuid, 0, offers)
            self.client.replace_provider_traits(uuid, inventories.generation, ["CUSTOM_PHYSNET_A"])

    def planned(self, strategy: str | None = None) -> plan.ObservedPlan:
        request = HealRequest(options=HealOptions(strategy))
        return heal.plan_healing(self.client, self.nova, request, neutron=self.neutron)

    def apply_planned(self, planned: plan.ObservedPlan, **options: Any) -> result.RunReport:
        check = preconditions.NovaPreconditions(self.nova)
        how = apply.Options(check_precondition=check, neutron=self.neutron, **options)
        return plans.apply_new(self.client, planned, "heal", how)

    def healed(self, **options: Any) -> dict[str, str]:
        report = self.apply_planned(self.planned(), **options)
        return {item.subject.name: str(item.status) for item in report.results}

    def held(self, server: str) -> Any:
        return self.client.show_allocations(uuid_of(server)).allocations


def test_server_gets_allocation_for_its_port_and_the_binding() -> None:
    run = Run(1, port("p", "vm-0003"))
    assert run.healed()["vm-0003"] == "applied"
    assert run.held("vm-0003") == {HOST: USES, CARDS[0]: BANDWIDTH}
    assert run.neutron.profile("p") == {"pci_slot": "0000:81:00.1", "allocation": CARDS[0]}
    assert run.healed()["vm-0003"] == "unchanged"


def test_a_dry_run_of_a_plan_file_shows_the_binding_and_writes_none(tmp_path: pathlib.Path) -> None:
    run = Run(1, port("p", "vm-0003"))
    made = run.planned().stamped(run.client, "heal").plan
    writes = run.client.writes
    check = preconditions.NovaPreconditions(run.nova)
    options = apply.Options(dry_run=True, check_precondition=check, neutron=run.neutron)
    report = plans.apply_file(run.client, made, tmp_path / "plan.json", options)
    assert {item.subject.name: str(item.status) for item in report.results}["vm-0003"] == "planned"
    assert (run.neutron.writes, run.client.writes) == (0, writes)


def test_server_without_port_allocation_keeps_the_rest() -> None:
    run = Run(1, port("p", "vm-0001"))
    before = run.client.show_allocations(uuid_of("vm-0001"))
    (item,) = (one for one in run.planned().plan.changes if one.kind == "bound allocations")
    assert item.generation == before.generation
    assert item.reason.startswith(f"on card {CARDS[0]}: {EGRESS}=1000")
    assert run.healed()["vm-0001"] == "applied"
    after = run.client.show_allocations(uuid_of("vm-0001"))
    assert after.allocations == {HOST: USES, CARDS[0]: BANDWIDTH}
    assert after.consumer_type == before.consumer_type


@pytest.mark.parametrize(
    ("cards", "code", "cause", "proposed"),
    [
        (1, "missing", "port-resources", f"{EGRESS}=1000, "),
        (2, "unknown", "ambiguous", "skipped: ambiguous: it is on card"),
    ],
)
def test_the_audit_finds_a_server_without_port_allocation(
    cards: int, code: str, cause: str, proposed: str
) -> None:
    run = Run(cards, port("p", "vm-0001"))
    deleted = {"GET /v2.1/servers/detail?all_tenants=1&deleted=true": {"servers": []}}
    nova = nova_api.RecordedNova(run.cloud.answers | deleted, "")
    request = audit.AuditRequest(only=frozenset({"missing", "unknown"}))
    audited = audit.audit_cloud(run.client, nova, request, neutron=run.neutron)
    (finding,) = (item for item in audited.findings if item.subject.name == "vm-0001")
    assert (finding.code, finding.evidence.cause) == (code, cause)
    assert finding.evidence.text == "it lacks resources that its ports request"
    assert proposed in finding.proposed.text


def test_request_groups_are_bound_one_by_one() -> None:
    groups = [
        {"id": uuid_of(name), "resources": {name: 1000}, "required": ["CUSTOM_PHYSNET_A"]}
        for name in BANDWIDTH
    ]
    ids = [group["id"] for group in groups]
    request = {"request_groups": groups, "same_subtree": ids}
    run = Run(1, port("p", "vm-0003", resource_request=request))
    assert run.healed()["vm-0003"] == "applied"
    assert run.neutron.profile("p")["allocation"] == dict.fromkeys(ids, CARDS[0])


def test_operator_decides_between_two_cards() -> None:
    run = Run(2, port("p", "vm-0003"))
    (skipped,) = (item for item in run.planned().plan.skipped if not item.unchanged)
    assert "ambiguous: it is on card" in skipped.reason
    assert "guessed (spread)" in run.planned("spread").plan.changes[-1].reason


def test_existing_binding_decides_the_provider() -> None:
    profile = {"allocation": CARDS[1]}
    run = Run(2, port("p", "vm-0003", **{"binding:profile": profile}))
    assert run.healed()["vm-0003"] == "applied"
    assert run.held("vm-0003") == {HOST: USES, CARDS[1]: BANDWIDTH}


def test_allocation_of_unbound_port_is_not_repeated() -> None:
    run = Run(2, port("p", "vm-0003"))
    whole = dataclasses.replace(
        run.cloud.consumer(3), allocations={HOST: USES, CARDS[1]: BANDWIDTH}
    )
    run.client.write_allocations([whole])
    assert run.healed()["vm-0003"] == "applied"
    assert run.neutron.profile("p")["allocation"] == CARDS[1]
    assert run.held("vm-0003") == whole.allocations
    assert run.healed()["vm-0003"] == "unchanged"


def test_a_port_that_lacks_a_group_leaves_the_others_to_the_next_port() -> None:
    def requesting(name: str, *classes: str) -> dict[str, Any]:
        groups = [
            {"id": uuid_of(name + it), "resources": {it: 1000}, "required": []} for it in classes
        ]
        request = {"request_groups": groups, "same_subtree": []}
        return port(name, "vm-0003", resource_request=request)

    run = Run(1, requesting("p", *BANDWIDTH), requesting("q", EGRESS))
    of_one = {HOST: USES, CARDS[0]: {EGRESS: 1000}}
    run.client.write_allocations([dataclasses.replace(run.cloud.consumer(3), allocations=of_one)])
    assert run.healed()["vm-0003"] == "applied"
    both = {name: 1000 + 1000 * (name == EGRESS) for name in BANDWIDTH}
    assert run.held("vm-0003") == {HOST: USES, CARDS[0]: both}


def test_the_allocation_of_a_bound_port_counts_for_no_other_port() -> None:
    profile = {"allocation": CARDS[0]}
    run = Run(1, port("p", "vm-0003", **{"binding:profile": profile}), port("q", "vm-0003"))
    of_one = {HOST: USES, CARDS[0]: BANDWIDTH}
    run.client.write_allocations([dataclasses.replace(run.cloud.consumer(3), allocations=of_one)])
    assert run.healed()["vm-0003"] == "applied"
    twice = {name: 2 * amount for name, amount in BANDWIDTH.items()}
    assert run.held("vm-0003") == {HOST: USES, CARDS[0]: twice}


def test_binding_is_restored_if_placement_refuses() -> None:
    run = Run(1, port("p", "vm-0003"))
    run.client.before_write(embedded.about("vm-0003", embedded.refuse(409, "no")))
    assert run.healed()["vm-0003"] == "failed"
    assert run.neutron.profile("p") == {"pci_slot": "0000:81:00.1"}
    assert not run.held("vm-0003")


def test_binding_that_cannot_be_restored_is_reported() -> None:
    run = Run(1, port("p", "vm-0003"))
    planned = run.planned()

    def change_revision(request: embedded.Request) -> scripted.Reply:
        run.neutron.ports[uuid_of("p")]["revision_number"] += 1
        return scripted.fault(409, "no")

    run.client.before_write(embedded.about("vm-0003", change_revision))
    reasons = [item.reason for item in run.apply_planned(planned).results]
    assert any("could not be restored" in reason for reason in reasons)


def test_placement_is_not_written_if_neutron_refuses() -> None:
    run = Run(1, port("p", "vm-0003"))

    def refused(path: str) -> None:
        raise neutron_api.NeutronRefused(403, "no", method="PUT", url=path)

    run.neutron.before = refused
    run.healed()
    assert not run.held("vm-0003")


@pytest.mark.parametrize("was_applied", [False, True])
def test_lost_response_of_placement_is_resolved(was_applied: bool) -> None:
    run = Run(1, port("p", "vm-0003"))
    planned = run.planned()
    act = run.client.after_write if was_applied else run.client.before_write
    act(embedded.about("vm-0003", embedded.once_each(embedded.cut)))
    report = run.apply_planned(planned)
    assert {str(item.status) for item in report.results} == {"applied", "unchanged"}
    writes = [one for one in run.client.sent if one.is_write and one.subject == uuid_of("vm-0003")]
    assert len(writes) == (1 if was_applied else 2)
    assert run.held("vm-0003") == {HOST: USES, CARDS[0]: BANDWIDTH}
    assert run.neutron.profile("p")["allocation"] == CARDS[0]


@pytest.mark.parametrize("was_applied", [False, True])
def test_lost_response_of_neutron_is_resolved(was_applied: bool) -> None:
    run = Run(1, port("p", "vm-0003"))
    planned = run.planned()
    lost: list[str] = []

    def lose(path: str) -> None:
        if not lost:
            lost.append(path)
            raise api_errors.OutcomeUnknown(0, "cut")

    setattr(run.neutron, "after" if was_applied else "before", lose)
    report = run.apply_planned(planned)
    assert {str(item.status) for item in report.results} == {"applied", "unchanged"}
    assert run.held("vm-0003") == {HOST: USES, CARDS[0]: BANDWIDTH}
    assert run.neutron.profile("p")["allocation"] == CARDS[0]


@pytest.mark.parametrize("plan_again", [False, True])
def test_kill_between_neutron_and_placement_resumes(
    tmp_path: pathlib.Path, plan_again: bool
) -> None:
    run = Run(1, port("p", "vm-0003"))
    path = tmp_path / "plan.json"
    run.apply_planned(run.planned(), dry_run=True, plan_out=path)
    run.client.before_write(embedded.about("vm-0003", embedded.kill))
    stored = file.read(path)
    options = apply.Options(
        check_precondition=preconditions.preconditions_of_plan(run.nova, stored.created),
        neutron=run.neutron,
    )
    with pytest.raises(embedded.Killed):
        plans.apply_file(run.client, stored, path, options)
    assert run.neutron.profile("p")["allocation"] == CARDS[0]
    assert not run.held("vm-0003")
    run.client.before(embedded.nothing)
    if plan_again:
        run.healed()
    else:
        plans.apply_file(run.client, stored, path, options)
    assert run.held("vm-0003") == {HOST: USES, CARDS[0]: BANDWIDTH}


def test_undo_restores_both_and_needs_neutron(tmp_path: pathlib.Path) -> None:
    run = Run(1, port("p", "vm-0003"))
    path = tmp_path / "undo.json"
    run.healed(undo_out=path)
    stored = file.read(path)
    with pytest.raises(plan.PlanRefused, match="neutron is not available"):
        plans.undo_file(run.client, stored, path, apply.Options())
    options = apply.Options(neutron=run.neutron)
    report = plans.undo_file(run.client, stored, path, options)
    assert collections.Counter(str(item.status) for item in report.results)["applied"] >= 1
    assert run.neutron.profile("p") == {"pci_slot": "0000:81:00.1"}
    assert not run.held("vm-0003")


def test_one_neutron_request_for_many_servers() -> None:
    run = Run(0)
    run.planned()
    assert run.neutron.requests == ["/ports"]
    servers = [uuid_of(str(number)) for number in range(130)]
    run.neutron.requests.clear()
    assert neutron_api.ports_of(run.neutron, servers) == []
    assert run.neutron.requests == ["/ports"] * 3


def test_rehearsal_allocates_and_does_not_write_neutron() -> None:
    run = Run(1, port("p", "vm-0003"))
    recorded = {"GET /v2.0/ports (recorded)": {"ports": [*run.neutron.ports.values()]}}
    recording = neutron_api.RecordedNeutron(recorded, "a recording")
    planned = heal.plan_healing(run.client, run.nova, HealRequest(), neutron=recording).plan
    assert {item.kind for item in planned.changes} == {"allocations"}
    assert plans.after(planned.changes[-1])[f"{CARDS[0]}:{EGRESS}"] == 1000
