# SPDX-License-Identifier: Apache-2.0
"""Explanations of random queries on random clouds, compared with the server and brute force."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import pathlib
import random
from collections.abc import Iterator, Sequence
from typing import TypeVar

import pytest

from osc_placement import errors, microversion, server
from osc_placement.client import api, api_errors, query as queries, responses, wsgi
from osc_placement.engine import record, standard, state
from osc_placement.engine.candidates import report
from osc_placement.model import candidate, constraint, inventory
from osc_placement.model.constraint import Kind
from osc_placement.nova import flavor, values
from osc_placement.scheduling import nova_options, request
from osc_placement.scheduling.case import Case, Way
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.testing import service
from osc_placement.workflows.cloud import compute_nodes
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.cloud.hosts import HostSearch
from osc_placement.workflows.explain import changes, explain, failures, holders
from osc_placement.workflows.explain.changes import SmallestChange
from osc_placement.workflows.explain.relaxations import MOST_CONDITIONS
from tests.support.candidates import clouds, explained, oracle, random_queries
from tests.support.clouds import compute_services

T = TypeVar("T")
VERSION = microversion.MAXIMUM
CONTEXT = ReadContext(workers=1)
pytestmark = pytest.mark.seeds(5, long=130)
QUERIES = 4
HOST = "00000000-0000-4000-8000-000000000001"


class Cloud:
    """A random cloud in a server, as a database file and as a service."""

    def __init__(self, placement: service.InProcessPlacement, seed: object) -> None:
        self.draw = random.Random(f"explain {seed}")
        self.base = clouds.draw_state(self.draw)
        self.service = explained.as_service(placement, self.base)
        self.file = placement.client(VERSION)

    def queries(self) -> Iterator[candidate.CandidateQuery]:
        for _ in range(QUERIES):
            yield random_queries.draw_query(self.draw, self.base, VERSION)


def asked(
    client: api.Client,
    query: candidate.CandidateQuery,
    *hosts: str,
    compute: ServerHosts | None = None,
) -> explain.Explanation:
    request = explain.ExplainedQuery(query, constraint.constraints_of(query), hosts)
    return explain.explain(client, [request], CONTEXT, compute)[0]


def as_service(
    placement: service.InProcessPlacement, *providers: record.ProviderRecord
) -> api.Client:
    """A client of a service with these providers."""
    return explained.as_service(placement, clouds.cloud(*providers))


@pytest.fixture
def cloud(seed: int, placement: service.InProcessPlacement) -> Cloud:
    return Cloud(placement, seed)


def test_a_host_is_a_candidate_exactly_if_the_server_returns_it_as_service_or_file(
    cloud: Cloud,
) -> None:
    names = [cloud.base.providers[root].name for root in cloud.base.tree]
    for query in cloud.queries():
        returned = explained.hosts_in_response(cloud.file, cloud.base, query)
        assert returned == oracle.hosts(cloud.base, query)
        assert asked(cloud.file, query) == asked(cloud.service, query)
        explanation = asked(cloud.file, query, *names)
        assert explanation == asked(cloud.service, query, *names)
        assert set(explanation.candidates) == returned
        assert {failure.host for failure in explanation.failures} == set(names) - returned
        assert explanation.funnel[-1].hosts == len(returned) <= explanation.all_hosts


@pytest.mark.seeds(6, long=130)
def test_no_host_that_the_compute_filter_refuses_can_serve_a_request(cloud: Cloud) -> None:
    draw, base = cloud.draw, cloud.base
    roots = [*base.tree]
    for query in cloud.queries():
        states = compute_services.draw_states(draw, roots)
        accepted = compute_services.accepted(states)
        names = {base.providers[root].name for root in accepted}
        compute = compute_nodes.read_server_hosts(compute_services.nova(states))
        returned = explained.hosts_in_response(cloud.file, base, query)
        for client in (cloud.file, cloud.service):
            explanation = asked(client, query, compute=compute)
            assert set(explanation.candidates) == returned & names
            assert explanation.not_counted.keys() == (returned | set(explanation.explained)) - names
            for change in explanation.changes:
                after = changes.after(base, change.steps)
                enabled = {
                    base.named[step.provider]
                    for step in change.steps
                    if step.action is changes.Action.ENABLE
                }
                able = {root for root in enabled if states[root] == "disabled"}
                up = compute_services.accepted({**states, **dict.fromkeys(able, "up")})
                names_after = {base.providers[root].name for root in up}
                assert change.hosts == len(oracle.hosts(after, change.of(query)) & names_after)
                # Nova places servers on the host after the change, unless its nova-compute is down.
                assert change.host is None or (change.host in names_after) == (
                    states[base.named[change.host]] in ("up", "disabled")
                )
            if not explanation.candidates:
                able = {failure.host for failure in explanation.failures} & names
                assert able == set(explanation.explained) or not able


def hosts_of_request(base: state.CloudState, query: candidate.CandidateQuery) -> set[str]:
    """The root UUIDs of trees with a requested class, or of all trees, that do more than share."""
    classes = {name for group in query.groups for name in group.resources}
    shared = base.with_trait[standard.SHARING_TRAIT]
    alone = [provider for uuid, provider in base.providers.items() if uuid not in shared]
    offering = {provider.root_uuid for provider in alone if classes & provider.inventories.keys()}
    return offering or {provider.root_uuid for provider in alone}


def test_the_funnel_counts_the_hosts_of_each_partial_query(cloud: Cloud) -> None:
    for query in cloud.queries():
        explanation = asked(cloud.file, query)
        hosts = hosts_of_request(cloud.base, query)
        hosts |= {cloud.base.named[name] for name in explanation.candidates}
        for count, step in enumerate(explanation.funnel, start=1):
            rest = [funnel_step.constraint for funnel_step in explanation.funnel[count:]]
            partial = constraint.without(query, rest)
            # A class that follows may be the only one that a host has.
            if all(condition.kind is not Kind.RESOURCES for condition in rest) and rest:
                search = HostSearch(cloud.base, partial)
                meeting = [host for host in hosts if search.shared_can_serve(host)]
                assert step.hosts == len(meeting)


def smaller(
    query: candidate.CandidateQuery, change: SmallestChange
) -> Iterator[candidate.CandidateQuery]:
    """The query with every smaller change: some of the constraints, and larger amounts."""
    kept = [
        (each, range(amount, (each.amount or 0) + 1)) for each, amount in change.amounts.items()
    ]
    for removed in _subsets(change.removed):
        for chosen in itertools.product(*(numbers for _, numbers in kept)):
            lower = dict(zip((condition for condition, _ in kept), chosen, strict=True))
            if removed != change.removed or lower != change.amounts:
                yield dataclasses.replace(change, removed=removed, amounts=lower).of(query)


def _subsets(items: Sequence[T]) -> Iterator[tuple[T, ...]]:
    for size in range(len(items) + 1):
        yield from itertools.combinations(items, size)


def less(steps: Sequence[changes.Step]) -> Iterator[tuple[changes.Step, ...]]:
    """Every part of some steps, and the steps with one smaller amount."""
    yield from _subsets(steps)
    for at, step in enumerate(steps):
        if step.amount > 1 and step.field not in ("min_unit", "step_size"):
            yield (*steps[:at], dataclasses.replace(step, amount=step.amount - 1), *steps[at + 1 :])


def test_each_change_is_sufficient_and_minimal(cloud: Cloud) -> None:
    names = [cloud.base.providers[root].name for root in cloud.base.tree]
    for query in cloud.queries():
        for hosts in ((), names):
            explanation = asked(cloud.file, query, *hosts)
            for change in explanation.changes:
                if change.steps:
                    check_steps(cloud.base, query, change)
                else:
                    assert not explanation.candidates
                    check_request(cloud.base, query, change)


def check_steps(
    base: state.CloudState, query: candidate.CandidateQuery, change: SmallestChange
) -> None:
    assert 1 <= len(change.steps) <= MOST_CONDITIONS
    after = oracle.hosts(changes.after(base, change.steps), query)
    assert change.host in after
    assert change.hosts == len(after)
    for part in less(change.steps):
        if part != change.steps:
            assert change.host not in oracle.hosts(changes.after(base, part), query), part


def check_request(
    base: state.CloudState, query: candidate.CandidateQuery, change: SmallestChange
) -> None:
    assert 1 <= len(change.removed) + len(change.amounts) <= MOST_CONDITIONS
    assert change.hosts == len(oracle.hosts(base, change.of(query))) > 0
    for candidate_query in smaller(query, change):
        assert not oracle.hosts(base, candidate_query), candidate_query


@pytest.mark.parametrize("ratio", [1.0, 1.1, 1.5, 4.0, 0.5, 0.29])
@pytest.mark.parametrize(
    ("total", "reserved"), [(10, 0), (10, 3), (10, 10), (10, 12), (100, 0), (200, 200)]
)
@pytest.mark.parametrize("name", ["VCPU", "VGPU"])
def test_the_named_field_raises_a_capacity_as_stated(
    name: str, ratio: float, total: int, reserved: int
) -> None:
    offer = inventory.Inventory(total, reserved=reserved, allocation_ratio=ratio)
    for missing in range(1, 30):
        field, value = changes.raised(name, offer, missing)
        after = dataclasses.replace(offer, **{field: value})
        assert after.capacity >= offer.capacity + missing
        if reserved == offer.total and missing <= int(offer.total * ratio):
            assert field == "reserved"
        elif reserved < offer.total:
            is_ratio = name == "VCPU" or ratio != 1
            assert field == ("allocation_ratio" if is_ratio else "total")


@pytest.mark.parametrize("number", [50, 500])
def test_the_number_of_requests_does_not_grow_with_the_hosts(
    number: int, placement: service.InProcessPlacement
) -> None:
    hosts = [
        clouds.provider(f"00000000-0000-4000-8000-{n:012}", VCPU=8, MEMORY_MB=64)
        for n in range(number)
    ]
    client = explained.as_service(placement, clouds.cloud(*hosts))
    query = clouds.query(clouds.group(VCPU=9, MEMORY_MB=16, required="HW_CPU_X86_AVX"))
    order = constraint.constraints_of(query)
    request = explain.ExplainedQuery(query, order, nearest=2)
    (explanation,) = explain.explain(client, [request], CONTEXT)
    [change] = [change for change in explanation.changes if not change.steps]
    assert (change.amounts, change.removed) == ({order[0]: 8}, (order[2],))
    assert client.sent == {
        # Checks the query, proves a change, and reads the capacity of all hosts.
        "allocation_candidates/resources": 3,
        # The traits of a query without candidates.
        "traits/name": 1,
        "resource_providers/": 1,
        # Those that share.
        "resource_providers/required": 1,
        # Those with 1 VCPU, 9 VCPU and the largest amount; 1 MB and 16 MB.
        "resource_providers/resources": 5,
        # The explained hosts.
        "resource_providers/inventories/": 2,
    }


@pytest.mark.parametrize("is_file", [True, False])
def test_a_trait_that_a_host_beside_a_sharing_provider_lacks_is_named(
    placement: service.InProcessPlacement, is_file: bool
) -> None:
    host, share = (f"00000000-0000-4000-8000-{n:012}" for n in range(2))
    explained.seed(
        placement,
        clouds.cloud(
            clouds.provider(host, aggregates=random_queries.AGGREGATES[0], VCPU=8, MEMORY_MB=64),
            clouds.provider(
                share,
                aggregates=random_queries.AGGREGATES[0],
                traits=standard.SHARING_TRAIT,
                DISK_GB=100,
            ),
        ),
    )
    client = placement.client(VERSION)
    if not is_file:
        client.transport.local = lambda: None
    query = clouds.query(clouds.group(VCPU=1, DISK_GB=1, required="HW_CPU_X86_AVX"))
    answer = asked(client, query)
    assert answer.candidates == ()
    lacking = [item for item in answer.failures if item.reason is report.RefusalReason.REQUIRED]
    assert [(item.host, item.names) for item in lacking] == [(host, ("HW_CPU_X86_AVX",))]


@pytest.mark.parametrize(
    ("trait", "text"),
    [
        (
            "CUSTOM_NOPE",
            "'openstack trait list' shows the traits, 'openstack trait create CUSTOM_NOPE' creates"
            " it, 'openstack resource provider trait add --trait CUSTOM_NOPE HOST' gives it to a"
            " host$",
        ),
        ("HW_CPU_X86_AVX_512F", r"is it HW_CPU_X86_AVX512F\? 'openstack trait list'"),
    ],
)
@pytest.mark.parametrize("field", ["required", "forbidden"])
def test_a_trait_that_placement_does_not_have_is_the_answer(
    placement: service.InProcessPlacement, field: str, trait: str, text: str
) -> None:
    """Placement refuses such a trait only if every other group has providers."""
    client = as_service(placement, clouds.provider(HOST, VCPU=8, MEMORY_MB=64))
    for amount in (1, 99):
        query = clouds.query(
            clouds.group(VCPU=amount), clouds.group("_A", MEMORY_MB=1, **{field: trait})
        )
        with pytest.raises(errors.InvalidInput, match=f"unknown trait {trait}: .*{text}"):
            asked(client, query)


@pytest.mark.parametrize("is_fault", [True, False])
def test_a_change_that_the_service_refuses_is_left_out_and_counted(
    placement: service.InProcessPlacement, monkeypatch: pytest.MonkeyPatch, is_fault: bool
) -> None:
    """openstack-placement loses candidates of sharing providers, or fails with 500."""
    client = as_service(placement, clouds.provider(HOST, VCPU=8, MEMORY_MB=64))
    query = clouds.query(clouds.group(VCPU=9, required="HW_CPU_X86_AVX"))
    complete = asked(client, query)
    ask = client.list_allocation_candidates

    def refuse(pairs: queries.Pairs) -> responses.Candidates:
        if ("resources", "VCPU:8") in pairs and is_fault:
            raise api_errors.ApiError(500, "7")
        none = ("resources", "VCPU:8") in pairs
        return ask([*pairs, ("in_tree", random_queries.UNKNOWN)] if none else pairs)

    monkeypatch.setattr(client, "list_allocation_candidates", refuse)
    explanation = asked(client, query)
    assert (complete.refused, explanation.refused) == (0, 1)
    assert explanation.changes == tuple(change for change in complete.changes if change.steps)
    assert explanation.failures == complete.failures


def test_a_host_of_which_placement_returns_no_candidate_cannot_serve_a_request(
    placement: service.InProcessPlacement, monkeypatch: pytest.MonkeyPatch
) -> None:
    """openstack-placement loses some candidates; nova then has no host for the server."""
    client = as_service(placement, clouds.provider(HOST, VCPU=8))
    query = clouds.query(clouds.group(VCPU=1))
    explanation = asked(client, query)
    assert (len(explanation.candidates), explanation.not_counted) == (1, {})
    monkeypatch.setattr(
        client, "list_allocation_candidates", lambda _: responses.Candidates((), {})
    )
    lost = asked(client, query)
    assert (lost.candidates, lost.not_counted) == ((), {explanation.candidates[0]: explain.LOST})


def test_a_file_is_read_once_for_several_queries(tmp_path: pathlib.Path) -> None:
    """A command reads only the classes and traits of its queries, and only once."""
    host = clouds.provider(HOST, VCPU=8, MEMORY_MB=64, traits="HW_CPU_X86_AVX HW_CPU_X86_SSE")
    groups = (
        clouds.group(VCPU=1, required="HW_CPU_X86_SSE"),
        clouds.group(MEMORY_MB=1, required="HW_CPU_X86_AVX"),
    )
    requests = [
        explain.ExplainedQuery(query, constraint.constraints_of(query))
        for query in map(clouds.query, groups)
    ]
    path = str(tmp_path / "cloud.sqlite")
    with service.InProcessPlacement(database=path) as placement:
        explained.seed(placement, clouds.cloud(host))
    with contextlib.closing(server.create_app(path, lazily=True)) as app:
        client = api.Client(wsgi.in_process(lambda: app, path), VERSION)
        for explanation in explain.explain(client, requests, CONTEXT):
            assert (len(explanation.candidates), explanation.failures) == (1, ())


@pytest.mark.parametrize(
    ("requested", "fits"),
    [(12, [10]), (11, [10]), (9, [10, 8]), (3, [4, 2]), (1, [2])],
)
def test_a_service_gets_the_amounts_that_fit_its_units(
    placement: service.InProcessPlacement, requested: int, fits: list[int]
) -> None:
    offer = inventory.Inventory(10, min_unit=2, step_size=2)
    client = as_service(placement, clouds.provider(HOST, MEMORY_MB=offer))
    query = clouds.query(clouds.group(MEMORY_MB=requested))
    explanation = asked(client, query)
    amount, *_ = constraint.constraints_of(query)
    offered = [dict(change.amounts) for change in explanation.changes if not change.steps]
    assert sorted(row[amount] for row in offered) == sorted(fits)


def test_a_full_host_with_a_ratio_of_1_is_freed_or_sold_several_times() -> None:
    base = clouds.cloud(clouds.provider("host", VCPU=4), used={"host": {"VCPU": 4}})
    smallest_changes = changes.of_host(base, clouds.query(clouds.group(VCPU=1)), "host", {})
    steps = [step for change in smallest_changes for step in change.steps]
    assert [(step.action, step.field, step.value) for step in steps] == [
        (changes.Action.FREE, "", 0.0),
        (changes.Action.RAISE, "allocation_ratio", 1.25),
    ]


def test_several_groups_on_separate_providers_are_explained_with_numbers(
    placement: service.InProcessPlacement,
) -> None:
    client = as_service(placement, clouds.provider(HOST, VGPU=6))
    groups = [clouds.group(suffix, VGPU=4) for suffix in ("1", "2")]
    query = clouds.query(*groups, isolate=True)
    explanation = asked(client, query)
    details = [failure.detail for failure in explanation.failures]
    assert any("2 x VGPU:4 on separate providers, 6 free" in text for text in details), details


@pytest.mark.parametrize(
    ("has", "conditions", "steps"),
    [
        ("", {"required": "T1|T2", "forbidden": "T1"}, ["add_trait T2"]),
        ("T1", {"required": "T1|T2", "forbidden": "T1"}, ["add_trait T2", "remove_trait T1"]),
        ("", {"member_of": "A|B", "not_member_of": "A"}, ["join B"]),
    ],
)
def test_of_alternatives_a_change_adds_one_that_is_not_forbidden(
    has: str, conditions: dict[str, str], steps: list[str]
) -> None:
    base = clouds.cloud(clouds.provider("host", traits=has, VCPU=4))
    query = candidate.CandidateQuery((clouds.group(VCPU=1, **conditions),))
    [change] = changes.of_host(base, query, "host", {})
    assert [f"{step.action} {step.name}" for step in change.steps] == steps
    assert change.hosts == 1


def test_the_root_joins_an_aggregate_before_the_provider_that_offers() -> None:
    base = clouds.cloud(clouds.provider("host"), clouds.provider("numa", "host", VCPU=4))
    query = candidate.CandidateQuery((clouds.group(VCPU=1, member_of="A"),))
    smallest_changes = changes.of_host(base, query, "host", {})
    assert [
        [(step.action, step.provider) for step in change.steps] for change in smallest_changes
    ] == [[(changes.Action.JOIN, "host")]]


@pytest.mark.parametrize(
    ("state", "traits", "tenant", "expected"),
    [
        # The service of the host, traits of its provider, the project that its aggregate accepts.
        ("disabled", "", "mine", ["enable the compute service: 1"]),
        ("disabled", changes.DISABLED, "mine", ["enable the compute service: 1"]),
        ("up", changes.DISABLED, "mine", ["remove the trait: 1"]),
        ("disabled", "", "other", []),
        ("up", changes.DISABLED, "other", []),
        ("down", "", "mine", []),
    ],
)
def test_a_change_is_for_a_host_that_nova_accepts_after_it(
    placement: service.InProcessPlacement, state: str, traits: str, tenant: str, expected: list[str]
) -> None:
    explained.seed(placement, clouds.cloud(clouds.provider(HOST, traits=traits, VCPU=8)))
    nova = compute_services.nova({HOST: state})
    compute = compute_nodes.read_server_hosts(nova)
    assert compute.hosts is not None
    [node] = compute.hosts.nodes
    aggregates = [values.HostAggregate("1", "a", "u", (node.host,), {"filter_tenant_id": tenant})]
    spec = request.ServerSpec(
        flavor.Flavor(1, 0, 0, extra_specs={"resources:MEMORY_MB": "0"}), project_id="mine"
    )
    asked = request.request_to_placement(spec, aggregates)
    enabled = ("ComputeFilter", "AggregateMultiTenancyIsolation")
    scheduler = nova_options.SchedulerOptions(enabled_filters=enabled)
    case = Case(Way.BOOT, spec, compute, options=scheduler, requests=(asked,))
    [explanation] = explain.explain(
        placement.client(VERSION),
        [explain.ExplainedQuery(asked.query, list(asked.sources), [HOST], nova=asked, case=case)],
        CONTEXT,
        compute,
        aggregates,
    )
    names = {"enable": "enable the compute service", "remove_trait": "remove the trait"}
    texts = [
        f"{', '.join(names[step.action] for step in change.steps)}: {change.hosts}"
        for change in explanation.changes
        if change.steps
    ]
    assert texts == expected


def test_a_service_that_loses_candidates_gets_only_what_is_proved_on_it(
    placement: service.InProcessPlacement, monkeypatch: pytest.MonkeyPatch
) -> None:
    """openstack-placement loses candidates with groups and sharing providers."""
    share, *hosts = (f"00000000-0000-4000-8000-{n:012}" for n in range(4))
    together = {"aggregates": random_queries.AGGREGATES[0]}
    client = as_service(
        placement,
        clouds.provider(share, traits=standard.SHARING_TRAIT, DISK_GB=100, **together),
        *(clouds.provider(uuid, VCPU=4, VGPU=2, **together) for uuid in hosts),
    )
    query = clouds.query(clouds.group(VCPU=1, DISK_GB=1), clouds.group("1", VGPU=4))
    complete = asked(client, query)
    assert complete.may_lose
    assert [change.hosts for change in complete.changes if not change.steps] == [3]
    ask = client.list_allocation_candidates

    def lose(pairs: queries.Pairs) -> responses.Candidates:
        answer = ask([pair for pair in pairs if pair[0] != "limit"])
        kept = tuple(each for each in answer.requests if hosts[0] not in each.allocations)
        return answer._replace(requests=kept)

    monkeypatch.setattr(client, "list_allocation_candidates", lose)
    found = asked(client, query)
    assert [(change.hosts, change.steps) for change in found.changes] == [(2, ())]
    assert found.refused == len(complete.changes) - 1
    found = asked(client, clouds.query(clouds.group(VCPU=1, DISK_GB=1), clouds.group("1", VGPU=2)))
    assert set(found.candidates) == set(hosts[1:])
    assert found.not_counted == {hosts[0]: explain.LOST}
    # Without groups, or without what is shared, nothing is lost.
    for plain in (clouds.query(clouds.group(VCPU=9)), clouds.query(clouds.group("1", VGPU=4))):
        assert not asked(client, plain).may_lose


def test_a_host_aggregate_is_mirrored_once_with_all_its_hosts(
    placement: service.InProcessPlacement,
) -> None:
    hosts = [f"00000000-0000-4000-8000-{n:012}" for n in range(5)]
    explained.seed(placement, clouds.cloud(*(clouds.provider(uuid, VCPU=4) for uuid in hosts)))
    compute = compute_nodes.read_server_hosts(compute_services.nova(dict.fromkeys(hosts, "up")))
    assert compute.hosts is not None
    names = tuple(node.host for node in compute.hosts.nodes if node.uuid != hosts[4])
    aggregate = random_queries.AGGREGATES[0]
    query = clouds.query(clouds.group(VCPU=1, member_of=aggregate))
    request_of_az = explain.ExplainedQuery(query, constraint.constraints_of(query))
    [explanation] = explain.explain(
        placement.client(VERSION),
        [request_of_az],
        CONTEXT,
        compute,
        [values.HostAggregate("1", "az2", aggregate, names)],
    )
    assert len(explanation.explained) == 3
    [change] = [change for change in explanation.changes if change.steps]
    assert ([step.action for step in change.steps], change.hosts) == ([changes.Action.MIRROR], 4)


@pytest.mark.parametrize(
    "text",
    [
        "resources=VCPU:9999&resources=MEMORY_MB:1",
        "resources=MEMORY_MB:1&resources=VCPU:9999",
        "resources=VCPU:1&in_tree={other}&in_tree={host}",
        "resources=VCPU:1&in_tree={host}&in_tree={other}",
        "resources=VCPU:1&required=HW_CPU_X86_AVX&required=!HW_CPU_X86_SSE",
        "resources=VCPU:1&member_of={first}&member_of={second}",
        "resources=VCPU:1&limit=1",
        "resources=VCPU:1&limit=0",
        "resources=VCPU:1&limit=x",
        "resources=VCPU:1&limit=",
    ],
)
def test_a_query_is_read_as_placement_reads_it(
    placement: service.InProcessPlacement, text: str
) -> None:
    other = HOST.replace("1", "2")
    first, second = random_queries.AGGREGATES[:2]
    explained.seed(
        placement,
        clouds.cloud(
            clouds.provider(HOST, aggregates=f"{first} {second}", VCPU=2, MEMORY_MB=64),
            clouds.provider(other, aggregates=first, traits="HW_CPU_X86_AVX", VCPU=2, MEMORY_MB=64),
        ),
    )
    client = placement.client(VERSION)
    pairs = queries.parse(text.format(host=HOST, other=other, first=first, second=second))
    try:
        answer = client.list_allocation_candidates(pairs)
    except api_errors.BadRequest:
        with pytest.raises(errors.InvalidInput):
            queries.read_candidates(pairs)
        return
    query = queries.read_candidates(pairs)
    request = explain.ExplainedQuery(query, constraint.constraints_of(query), parameters=pairs)
    [explanation] = explain.explain(client, [request], CONTEXT)
    hosts = {uuid for item in answer.requests for uuid in item.allocations}
    if query.limit is None:
        assert set(explanation.candidates) == hosts
    else:
        assert len(hosts) == query.limit <= len(explanation.candidates)


def test_the_holders_of_a_short_provider_have_all_that_is_used_of_it(cloud: Cloud) -> None:
    roots = [*cloud.base.tree]
    nova = compute_services.nova(
        dict.fromkeys(roots, "up"),
        **{
            "GET /v2.1/servers/detail": {"servers": []},
            "GET /v2.1/os-migrations": {"migrations": []},
        },
    )
    compute = compute_nodes.read_server_hosts(nova)
    for query in cloud.queries():
        names = [cloud.base.providers[root].name for root in roots]
        answer = asked(cloud.service, query, *names, compute=compute)
        consumers, problems = holders.read(cloud.service, answer.short, CONTEXT, compute, nova)
        assert not problems
        lacking = {failure.provider for failure in answer.failures if failure.reason == "capacity"}
        for name in lacking:
            provider = cloud.base.providers[cloud.base.named[name or ""]]
            used = cloud.base.used(provider.uuid)
            sums: dict[str, int] = {}
            for holder in consumers:
                assert holder.is_leaked
                for resource, amount in holder.amounts.items() if holder.provider == name else ():
                    sums[resource] = sums.get(resource, 0) + amount
            requested = {key for group in query.groups for key in group.resources}
            assert sums == {key: used[key] for key in requested if used.get(key)}


def test_a_host_without_a_trait_is_not_short_of_what_its_servers_use() -> None:
    hosts = (clouds.provider("full", VCPU=2), clouds.provider("plain", VCPU=8))
    base = clouds.cloud(*hosts, servers={"s": "full 2", "t": "plain 2"})
    failed = [
        failures.Failure("full", report.RefusalReason.CAPACITY, "", "full", ("VCPU",)),
        failures.Failure("plain", report.RefusalReason.REQUIRED, "", "plain", ("CUSTOM_A",)),
    ]
    query = clouds.query(clouds.group(VCPU=2, required="CUSTOM_A"))
    short = list(failures.short_providers(base, query, failed))
    assert [(item.uuid, item.host) for item in short] == [("full", "full")]
