# SPDX-License-Identifier: Apache-2.0
"""The codes of audited flavors, and the requests that an audit sends."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest

from osc_placement import errors
from osc_placement.client import api_errors, retry
from osc_placement.engine import record, state
from osc_placement.model import inventory
from osc_placement.nova import api, flavors
from osc_placement.scheduling import nova_options, request
from osc_placement.scheduling.server_hosts import NOVA_NOT_READ, ServerHosts
from osc_placement.testing import nova as nova_kit, service
from osc_placement.workflows.cloud import compute_nodes
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.explain import flavor_audit as audit
from osc_placement.workflows.health import impact
from osc_placement.workflows.moving import flavor_queries
from tests.support.candidates import clouds, explained, oracle, random_queries
from tests.support.clouds import compute_services

CONTEXT = ReadContext(workers=1)
UUID = "00000000-0000-4000-8000-{:012}"
#: The root providers of the cloud.
ROOTS = (UUID.format(0), UUID.format(1))


def recorded(**specs: Mapping[str, str]) -> api.RecordedNova:
    """Nova with a flavor of 4 VCPU for each set of extra specs."""
    listed = [
        nova_kit.flavor(name, vcpus=4, ram=16, extra_specs=dict(named))
        for name, named in specs.items()
    ]
    return api.RecordedNova(nova_kit.answers(flavors=listed, aggregates=[]), "flavors")


FLAVORS: dict[str, Mapping[str, str]] = {
    "ok": {},
    "one-host": {"trait:CUSTOM_ONE": "required"},
    "full": {"resources:VCPU": "8"},
    "no-host": {"resources:VCPU": "9"},
    "unknown-name": {"trait:CUSTOM_NOPE": "forbidden"},
    "invalid": {"hw:cpu_policy": "bogus"},
    "unknown": {"pci_passthrough:alias": "gpu:8"},
}


def cloud(vcpus: int, memory: int = 0) -> state.CloudState:
    """Two hosts with 8 VCPU, of which so much is used."""
    amounts = {k: v for k, v in {"VCPU": vcpus, "MEMORY_MB": memory}.items() if v}
    base = clouds.cloud(
        clouds.provider(ROOTS[0], VCPU=8, MEMORY_MB=64),
        clouds.provider(ROOTS[1], traits="CUSTOM_ONE", VCPU=8, MEMORY_MB=64),
        used=dict.fromkeys(ROOTS, amounts),
    )
    base.apply(record.Changes(traits={"CUSTOM_ONE": 0.0}))
    return base


@pytest.fixture
def client(placement: service.InProcessPlacement) -> explained.CountingClient:
    """A client of the cloud with one VCPU in use on each host."""
    return explained.seeded(placement, cloud(1))


def in_service(roots: Iterable[str] | None) -> ServerHosts:
    """Compute nodes with these UUIDs that take servers; without any, nova was not read."""
    if roots is None:
        return ServerHosts()
    return compute_nodes.read_server_hosts(compute_services.nova(dict.fromkeys(roots, "up")))


def audited(
    client: explained.CountingClient,
    nova: api.Nova,
    *names: str,
    roots: Iterable[str] | None = ROOTS,
    **options: Any,
) -> dict[str, audit.AuditedFlavor]:
    scheduler = nova_options.SchedulerOptions(**options)
    audited_flavors = audit.audit(client, nova, names, scheduler, CONTEXT, in_service(roots))
    return {flavor.name: flavor for flavor in audited_flavors}


def test_each_code_is_found_with_one_request_per_flavor(client: explained.CountingClient) -> None:
    rows = audited(client, recorded(**FLAVORS))
    assert {name: str(flavor.code) for name, flavor in rows.items()} == {
        name: name for name in FLAVORS
    }
    assert [rows["ok"].hosts, rows["one-host"].hosts, rows["full"].empty_hosts] == [2, 1, 2]
    assert "CUSTOM_NOPE" in rows["unknown-name"].reason
    # Nothing is sent for a flavor that nova refuses; one request reads the trait OWNER_NOVA.
    assert sum(client.sent.values()) == len(FLAVORS) - 1 + 1


def test_a_service_is_audited_as_its_database(client: explained.CountingClient) -> None:
    whole = audited(client, recorded(**FLAVORS))
    client.sent.clear()
    client.transport.local = lambda: None
    assert audited(client, recorded(**FLAVORS)) == whole
    assert client.sent == {
        # One per flavor that nova accepts, and one for all hosts.
        "allocation_candidates/resources": 7,
        "resource_providers/": 1,
        # Those that share, and those with the trait OWNER_NOVA.
        "resource_providers/required": 2,
        # 1 and the requested amounts of each class.
        "resource_providers/resources": 6,
        "resource_providers/inventories/": 2,
    }


@pytest.mark.parametrize(
    "error",
    [
        api_errors.TimedOut("no answer in 60 seconds"),
        api_errors.TooLarge("more than 256 MiB"),
        api_errors.from_status(504, detail="too slow", method="GET", url="/"),
    ],
)
def test_a_flavor_whose_query_is_too_much_for_a_service_has_the_hosts_of_the_wide_read(
    error: Exception, client: explained.CountingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = audited(client, recorded(**FLAVORS))
    client.transport.local = lambda: None
    answers = client.list_allocation_candidates

    def refuse(pairs: Any) -> Any:
        answer = answers(pairs)
        if any("VCPU:4" in text for _, text in pairs):
            raise error
        return answer

    monkeypatch.setattr(client, "list_allocation_candidates", refuse)
    monkeypatch.setattr(retry, "backoff", lambda _: [0.0])
    rows = audited(client, recorded(**FLAVORS))
    changed = {name for name in FLAVORS if rows[name] != whole[name]}
    assert "ok" in changed
    assert rows["full"] == whole["full"]
    for name in changed:
        assert (rows[name].hosts, rows[name].candidates) == (whole[name].hosts, 0)
        assert str(error) in "".join(rows[name].caveats.doubts)
    assert (rows["ok"].code, rows["one-host"].code) == ("unknown", whole["one-host"].code)


@pytest.mark.parametrize("number", [50, 500])
def test_the_number_of_requests_does_not_grow_with_full_hosts(
    number: int, placement: service.InProcessPlacement
) -> None:
    base = clouds.cloud(
        *(clouds.provider(UUID.format(at), VCPU=8, MEMORY_MB=64) for at in range(number)),
        used={UUID.format(at): {"VCPU": 6, "MEMORY_MB": 4} for at in range(number)},
    )
    client = explained.as_service(placement, base)
    audited_flavors = audited(client, recorded(**FLAVORS), "ok", "full", "no-host", roots=base.tree)
    bounds = {
        name: (str(flavor.code), flavor.empty_hosts, flavor.empty_hosts_at_most)
        for name, flavor in audited_flavors.items()
    }
    assert bounds == {
        # One host was read.
        "ok": ("full", 1, number),
        "full": ("full", 1, number),
        "no-host": ("no-host", 0, 0),
    }
    assert audited_flavors["ok"].caveats.notes
    assert not audited_flavors["no-host"].caveats.notes
    assert client.sent == {
        "allocation_candidates/resources": 4,
        "resource_providers/": 1,
        "resource_providers/required": 2,
        # 1 and the requested amounts of each class.
        "resource_providers/resources": 6,
        "resource_providers/inventories/": 1,
    }


@pytest.mark.parametrize("field", [{"max_unit": 3}, {"step_size": 3}, {"min_unit": 5}])
def test_units_that_refuse_a_flavor_are_not_called_full(
    field: Mapping[str, int], placement: service.InProcessPlacement
) -> None:
    base = cloud(0, 16)
    for uuid, provider in base.providers.items():
        offers = {**provider.inventories, "VCPU": inventory.Inventory(8, **field)}
        base.apply(record.Changes({uuid: dataclasses.replace(provider, inventories=offers)}))
    client = explained.as_service(placement, base)
    flavor = audited(client, recorded(**FLAVORS), "ok")["ok"]
    assert (str(flavor.code), flavor.empty_hosts) == ("no-host", 0)


def drawn_flavors(draw: random.Random) -> dict[str, Mapping[str, str]]:
    """Flavors with amounts and traits that random clouds have."""
    drawn = {}
    for number in range(6):
        names = draw.sample(("VCPU", "DISK_GB", "CUSTOM_X"), draw.randint(1, 2))
        specs = {f"resources:{name}": str(draw.randint(1, 4)) for name in names}
        if draw.random() < 0.5:
            trait = draw.choice(random_queries.TRAITS)
            specs[f"trait:{trait}"] = draw.choice(("required", "forbidden"))
        drawn[f"f{number}"] = {"resources:MEMORY_MB": "0", **specs}
    return drawn


@pytest.mark.seeds(10, long=500)
def test_only_hosts_that_the_compute_filter_accepts_are_hosts_of_a_flavor(
    seed: int, placement: service.InProcessPlacement
) -> None:
    draw = random.Random(f"audit services {seed}")
    base = clouds.draw_state(draw)
    nova = recorded(**drawn_flavors(draw))
    roots = [*base.tree]
    states = compute_services.draw_states(draw, roots)
    accepted = {base.providers[root].name for root in compute_services.accepted(states)}
    compute = compute_nodes.read_server_hosts(compute_services.nova(states))
    client = explained.seeded(placement, base)
    options = nova_options.SchedulerOptions()
    whole = audit.audit(client, nova, [], options, CONTEXT, compute)
    client.transport.local = lambda: None
    assert audit.audit(client, nova, [], options, CONTEXT, compute) == whole
    empty = base.without_allocations()
    nova_flavors = {flavor.name: flavor.flavor for flavor in flavors.flavors(nova)}
    for item in whole:
        if item.code in (audit.FlavorCode.INVALID, audit.FlavorCode.UNKNOWN_NAME):
            continue
        query = request.request_to_placement(request.ServerSpec(nova_flavors[item.name])).query
        serving, able = oracle.hosts(base, query), oracle.hosts(empty, query)
        assert item.hosts == len(serving & accepted)
        assert item.empty_hosts == len(able & accepted)
        out_of_service = not serving & accepted and able and not able & accepted
        assert (item.code is audit.FlavorCode.OUT_OF_SERVICE) == bool(out_of_service)
        assert item.caveats.not_counted.keys() == (serving | able) - accepted


@pytest.mark.parametrize("roots", [ROOTS, None])
def test_isolated_aggregates_are_left_out(
    roots: Sequence[str] | None, placement: service.InProcessPlacement
) -> None:
    isolated = nova_kit.aggregate(1, "one", UUID.format(9), [], **{"trait:CUSTOM_ONE": "required"})
    base = cloud(1)
    host = dataclasses.replace(base.providers[ROOTS[1]], aggregates=(isolated["uuid"],))
    base.apply(record.Changes({host.uuid: host}))
    recording = {**recorded(**FLAVORS).recorded, **nova_kit.answers(aggregates=[isolated])}
    nova, client = api.RecordedNova(recording, "isolated"), explained.seeded(placement, base)
    option = {"enable_isolated_aggregate_filtering": True}
    found = audited(client, nova, "ok", "one-host", roots=roots, **option)
    assert [flavor.hosts for flavor in found.values()] == [1, 1]
    # The counts of health and of the report, and what drain keeps room for.
    options = nova_options.SchedulerOptions(**option)
    counted = impact.fits(base, nova, in_service(ROOTS), CONTEXT, options).flavors
    assert {flavor.before.hosts for flavor in counted if flavor.name in found} == {1}
    on_hosts = impact.fits_on_each_host(base, nova, in_service(ROOTS), CONTEXT, options)
    assert not on_hosts["ok"][ROOTS[1]]
    (query,) = flavor_queries.read(client, nova, options)["ok"].queries[0]
    assert isolated["uuid"] in query.groups[0].forbidden_aggregates


def test_too_many_candidates_are_counted_up_to_novas_limit(
    client: explained.CountingClient,
) -> None:
    audited_flavors = audited(client, recorded(**FLAVORS), "ok", max_placement_results=1)
    assert (str(audited_flavors["ok"].code), audited_flavors["ok"].hosts) == ("many-candidates", 2)


def test_an_unknown_flavor_is_named(client: explained.CountingClient) -> None:
    with pytest.raises(errors.InvalidInput, match="absent"):
        audited(client, recorded(**FLAVORS), "absent")
    audited_flavors = audited(client, recorded(**FLAVORS), "ok", "absent", "full")
    assert {name: str(flavor.code) for name, flavor in audited_flavors.items()} == {
        "ok": "ok",
        "full": "full",
        "absent": "unknown-flavor",
    }
    assert audited_flavors["absent"].reason == "nova has no flavor with the name or ID 'absent'"


@pytest.mark.parametrize(
    "specs",
    [
        {"pci_passthrough:alias": "h100:8"},
        {"hw:numa_nodes": "2"},
        {"hw:mem_page_size": "large"},
        {"capabilities:cpu_info:arch": "x86_64"},
    ],
)
def test_what_placement_does_not_have_is_never_ok(
    client: explained.CountingClient, specs: Mapping[str, str]
) -> None:
    [flavor] = audited(client, recorded(gpu=specs)).values()
    assert (str(flavor.code), flavor.hosts) == ("unknown", 2)
    assert next(iter(specs)).partition(":")[2] in flavor.reason


def test_without_the_compute_services_a_flavor_is_not_ok(client: explained.CountingClient) -> None:
    [flavor] = audited(client, recorded(ok={}), roots=None).values()
    assert (str(flavor.code), flavor.hosts) == ("unknown", 2)
    assert flavor.reason.startswith(NOVA_NOT_READ)


def test_a_flavor_has_a_row_for_each_release_that_sends_another_query(
    client: explained.CountingClient,
) -> None:
    nova = recorded(sound={"hw:sound_model": "virtio"}, plain={})
    recording = {**nova.recorded, "GET /v2.1/": {"version": {"version": "2.100"}}}
    recorded_nova, options = api.RecordedNova(recording, "2025"), nova_options.SchedulerOptions()
    audited_flavors = audit.audit(client, recorded_nova, (), options, CONTEXT, in_service(ROOTS))
    assert [(single.name, single.releases, str(single.code)) for single in audited_flavors] == [
        ("plain", (31, 32), "ok"),
        ("sound", (32,), "no-host"),
        ("sound", (31,), "ok"),
    ]
    assert "by its compute API 2.100" in audited_flavors[0].caveats.assumed[0]


def test_the_reason_of_placement_is_one_line(client: explained.CountingClient) -> None:
    [flavor] = audited(client, recorded(**FLAVORS), "unknown-name").values()
    assert "\n" not in flavor.reason
    assert "\\n" not in flavor.reason
    assert not flavor.reason.startswith("The server could not comply")
