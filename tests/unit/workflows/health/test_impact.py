# SPDX-License-Identifier: Apache-2.0
"""The impact of a plan, equal to a recount after really applying the plan to a copy."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from osc_placement import errors, server, testing
from osc_placement.client import api, transport
from osc_placement.nova import api as nova_api, flavors
from osc_placement.plan import change, guards, plan
from osc_placement.plan.kinds import allocations
from osc_placement.scheduling import request
from osc_placement.scheduling.nova_options import SchedulerOptions
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.workflows.batch import batch
from osc_placement.workflows.capacity import show
from osc_placement.workflows.cloud import compute_nodes, nova_servers, rehearsal, source
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.cloud.selector import Selector
from osc_placement.workflows.health import impact
from tests.support import embedded, plans

CONTEXT = ReadContext(workers=1)
PATH = pathlib.Path("plan.json")
DEFAULTS = SchedulerOptions()
SERVERS = "GET /v2.1/servers/detail?all_tenants=1"
SERVICES = "GET /v2.1/os-services"

MakePlan = Callable[[api.Client], plan.ObservedPlan]


@contextlib.contextmanager
def cloud(document: dict[str, Any] | None = None) -> Iterator[api.Client]:
    app = server.create_app(load=document or testing.sample_cloud("12-hosts"))
    with rehearsal.opened(lambda: app, embedded.TARGET) as client:
        yield client


def recorded(answers: dict[str, Any] | None = None) -> nova_api.RecordedNova:
    return nova_api.RecordedNova(answers or testing.sample_nova("12-hosts"), "the sample")


def impact_of(client: api.Client, make: MakePlan, **nova: Any) -> impact.Impact:
    planned = make(client).stamped(client, "a test").plan
    return impact.impact(client, recorded(**nova), planned, PATH, CONTEXT, DEFAULTS)


def random_plan(seed: int) -> MakePlan:
    """A change of inventories, traits or aggregates of some providers."""
    chance = random.Random(seed)
    names = sorted(item["name"] for item in testing.sample_cloud("12-hosts")["providers"].values())
    some = Selector(providers=tuple(chance.sample(names, chance.randint(1, 6))))
    what = chance.choice(["inventory", "inventory", "traits", "aggregates"])
    if what == "traits":
        traits = ["HW_CPU_X86_AVX2", "COMPUTE_NODE", "CUSTOM_RACK_A", "STORAGE_DISK_SSD"]
        chosen = chance.sample(traits, 2)
        return lambda client: batch.plan_traits(
            client, some, add=chosen[:1], remove=chosen[1:], create=True, allow=guards.ALL
        )
    if what == "aggregates":
        aggregate = embedded.uuid_of("an aggregate")
        return lambda client: batch.plan_aggregates(client, some, add=[aggregate])
    resource_class = chance.choice(["VCPU", "MEMORY_MB", "DISK_GB"])
    field, value = chance.choice(
        [("total", "=8"), ("allocation_ratio", "*=0.5"), ("reserved", "+=1"), ("max_unit", "=2")]
    )
    expression = f"{resource_class}:{field}{value}"
    return lambda client: batch.plan_amend(client, some, [expression], allow=guards.ALL)


def counted(client: api.Client, nova: nova_api.Nova) -> dict[str, tuple[int, int]]:
    """``{flavor: (hosts, fits)}`` of the command ``capacity show``."""
    queries = {}
    for named in flavors.flavors(nova):
        with contextlib.suppress(errors.InvalidInput):
            spec = request.ServerSpec(named.flavor, named.name)
            queries[named.name] = (request.request_to_placement(spec).queries,)
    reader = nova_servers.NovaReader(compute_nodes.read_server_hosts(nova))
    shown = show.show(client, show.ShowRequest(queries), CONTEXT, nova=reader)
    return {row.title: (row.capacity.hosts, row.capacity.count.least) for row in shown.rows}


@pytest.mark.seeds(8, long=300)
def test_the_impact_equals_a_recount_after_the_plan(seed: int) -> None:
    make, nova = random_plan(seed), recorded()
    with cloud() as client:
        before = counted(client, nova)
        shown = impact_of(client, make)
        assert counted(client, nova) == before, "the cloud itself is not changed"
        plans.apply_in_memory(client, make(client))
        after = counted(client, nova)
    flavors_shown = [item for item in shown.flavors if not item.refused]
    assert {item.name: (item.before.hosts, item.before.fits) for item in flavors_shown} == before
    assert {item.name: (item.after.hosts, item.after.fits) for item in flavors_shown} == after


@pytest.mark.seeds(6, long=100)
def test_the_impact_on_a_service_is_that_on_its_file(seed: int) -> None:
    """Also of a plan that changes consumers: they have owners."""
    make = random_plan(seed)
    with cloud() as client:
        planned = make(client).stamped(client, "a test").plan
        with source.of(client, CONTEXT).everything() as base:
            uuids = sorted(base.consumers)[seed : seed + 3]
        removed = []
        for uuid in uuids:
            before = allocations.ConsumerState.of(client.show_allocations(uuid))
            after = dataclasses.replace(before, allocations={})
            subject = change.Subject(uuid, uuid)
            removed.append(change.Change("allocations", subject, before, after))
        planned = dataclasses.replace(planned, changes=(*planned.changes, *removed))
        of_file = impact.impact(client, recorded(), planned, PATH, CONTEXT, DEFAULTS)
        assert not of_file.failures
        client.transport.local = lambda: None
        assert impact.impact(client, recorded(), planned, PATH, CONTEXT, DEFAULTS) == of_file


@pytest.mark.seeds(6, long=100)
def test_hosts_that_are_not_counted_are_those_that_nova_refuses(seed: int) -> None:
    chance, make = random.Random(seed), random_plan(seed)
    nova = testing.sample_nova("12-hosts")
    for service in nova[SERVICES]["services"]:
        if seed == 0 or chance.random() < 0.4:
            service["state"] = "down"
    with cloud() as client:
        shown = impact_of(client, make, answers=nova)
        with source.of(client, CONTEXT).everything() as base:
            # As if nova were not read: no host is refused.
            plan_impact = impact.fits(base, recorded(nova), ServerHosts(), CONTEXT, DEFAULTS)
    hosts = {item.name: item.before.hosts for item in plan_impact.flavors if not item.refused}
    for item in shown.flavors:
        if not item.refused:
            assert item.before.hosts + len(item.before.not_counted) == hosts[item.name]
            assert item.may_be_lost == (not item.before.hosts and hosts[item.name] > 0)
    if seed == 0:
        assert any(item.may_be_lost for item in shown.flavors)
        assert "nova-compute down" in shown.not_counted.values()


def on_host(count: int = 1) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """The sample without its sharing provider, and the names of some hosts with a trait."""
    document = testing.sample_cloud("12-hosts")
    for item in document["providers"].values():
        item["traits"] = [name for name in item["traits"] if name != "MISC_SHARES_VIA_AGGREGATE"]
    hosts = [
        item["name"]
        for item in document["providers"].values()
        if item["name"].startswith("cmp-00") and "HW_CPU_X86_AVX2" in item["traits"]
    ]
    return document, testing.sample_nova("12-hosts"), hosts[:count]


def without_trait(*names: str) -> MakePlan:
    some = Selector(providers=names)
    return lambda client: batch.plan_traits(
        client, some, remove=["HW_CPU_X86_AVX2"], allow=guards.ALL
    )


def test_a_flavor_is_lost_or_left_without_a_spare_host() -> None:
    document, nova, hosts = on_host(count=100)
    with cloud(document) as client:
        for left, expected in ((2, (False, False)), (1, (False, True)), (0, (True, False))):
            shown = impact_of(client, without_trait(*hosts[left:]), answers=nova)
            (flavor,) = (item for item in shown.flavors if item.name == "t1.trait")
            fitting = flavor.after.hosts
            assert fitting <= left
            if fitting == left:
                assert (flavor.is_lost, flavor.is_without_spare) == expected
            assert shown.lost == (["t1.trait"] if left == 0 else [])


def test_a_server_is_stranded_where_the_plan_takes_what_it_requires() -> None:
    document, nova, _ = on_host()
    servers = {item["name"]: item for item in nova[SERVERS]["servers"]}
    here = servers["rs-trait"]["OS-EXT-SRV-ATTR:hypervisor_hostname"]
    with cloud(document) as client:
        shown = impact_of(client, without_trait(here), answers=nova)
        stranded = [server.name for item in shown.flavors for server in item.stranded]
        assert stranded == ["rs-trait"]
        nowhere = impact_of(client, without_trait("nfs-share"), answers=nova)
        assert [server for item in nowhere.flavors for server in item.stranded] == []
        # Also if the flavor has been deleted since.
        listing = next(key for key in nova if "/flavors/detail" in key)
        left = [item for item in nova[listing]["flavors"] if item["name"] != "t1.trait"]
        nova[listing] = {**nova[listing], "flavors": left}
        shown = impact_of(client, without_trait(here), answers=nova)
        assert [(item.id, item.name) for item in shown.flavors if item.stranded] == [
            ("", "t1.trait")
        ]


@pytest.mark.parametrize(
    ("image", "stranded", "not_checked"),
    [({"trait:HW_CPU_X86_AVX2": "required"}, ["vm"], 1), ({}, [], 1), (None, [], 2)],
)
def test_the_image_of_a_server_is_that_of_glance_if_nova_hides_it(
    image: dict[str, str] | None, stranded: list[str], not_checked: int
) -> None:
    made = testing.Cloud().compute("one", "down", VCPU=8, traits=["HW_CPU_X86_AVX2"])
    made.guest("vm", "one", image={"id": "i"}).guest("hidden", "down").cell_down("down")
    answers = made.nova() | ({} if image is None else {"GET /v2/images/i": {"id": "i", **image}})
    with cloud(made.document()) as client:
        shown = impact_of(client, without_trait("one"), answers=answers)
    assert [server.name for item in shown.flavors for server in item.stranded] == stranded
    texts = [text for text in shown.not_checked if text.startswith("stranded servers: ")]
    assert len(texts) == not_checked
    assert "1 server in cells that are down" in texts[0]


def test_a_change_of_a_shared_pool_concerns_the_hosts_that_use_it() -> None:
    made = testing.Cloud().compute("one", "two", VCPU=8, aggregates=["pool"])
    made.host("share", DISK_GB=100, aggregates=["pool"], traits=["MISC_SHARES_VIA_AGGREGATE"])
    made.flavor("small", vcpus=1, ram=0, disk=10)
    some = Selector(providers=("share",))
    with cloud(made.document()) as client:
        shown = impact_of(
            client,
            lambda client: batch.plan_amend(client, some, ["DISK_GB:total=5"], allow=guards.ALL),
            answers=made.nova(),
        )
    assert shown.lost == ["small"]


def test_a_plan_of_another_cloud_is_refused() -> None:
    with cloud() as client:
        planned = without_trait("nfs-share")(client).stamped(client, "a test").plan
        elsewhere = transport.Target.local("elsewhere")
        other = dataclasses.replace(planned, target=elsewhere, identity=elsewhere.identity)
        with pytest.raises(plan.PlanRefused):
            impact.impact(client, recorded(), other, PATH, CONTEXT, DEFAULTS)


def test_a_failed_change_of_ports_is_listed() -> None:
    consumer, port = embedded.uuid_of("unknown"), embedded.uuid_of("port")
    state = allocations.ConsumerState(
        {embedded.uuid_of("no such provider"): {"VCPU": 1}}, "project", "user", "INSTANCE"
    )
    before, after = (
        allocations.BoundState.with_ports(side, {port: {}})
        for side in (allocations.ConsumerState({}), state)
    )
    subject = change.Subject("a server", consumer)
    planned = plan.make([change.Change("bound allocations", subject, before, after)])
    with cloud() as client:
        stamped = plan.ObservedPlan(planned).stamped(client, "a test").plan
        with rehearsal.after_plan(client, stamped, PATH, CONTEXT, DEFAULTS) as (_, copy):
            (line,) = copy.failures
    assert line.startswith("allocations a server: failed: ")
