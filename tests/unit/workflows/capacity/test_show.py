# SPDX-License-Identifier: Apache-2.0
"""Capacities and stopped hosts: a service as its database, with an exact number of requests."""

from __future__ import annotations

import contextlib
import dataclasses
import random
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pytest

from osc_placement import microversion
from osc_placement.client import api
from osc_placement.engine import record, standard, state
from osc_placement.engine.candidates import budget as budgets
from osc_placement.model import candidate
from osc_placement.nova import api as nova_api, values
from osc_placement.nova.values import ServerGroup
from osc_placement.scheduling.answer import Answer
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.testing import nova as nova_kit, service
from osc_placement.workflows.capacity import add_hosts, show
from osc_placement.workflows.cloud import nova_servers, observe_hosts, servers
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.cloud.hosts import hosts_of
from osc_placement.workflows.cloud.named_aggregates import NamedAggregates
from osc_placement.workflows.moving import places as capacity_moves, stop
from tests.support.candidates import clouds, explained, oracle, random_queries
from tests.support.candidates.clouds import group, provider, query
from tests.support.capacity import brute_force, cases

VERSION = microversion.MAXIMUM
CONTEXT = ReadContext(workers=1)
NAME = "00000000-0000-4000-8000-{:012}"
#: The number of the host aggregate that is no zone: no request of nova names it.
PLAIN = len(random_queries.AGGREGATES) - 1


def named(hosts: Mapping[str, Sequence[str]] = MappingProxyType({})) -> NamedAggregates:
    """Nova's host aggregates: zones but the last; ``hosts`` is ``{UUID: its hosts}``."""
    listed = [
        nova_kit.aggregate(
            n,
            f"aggregate{n}",
            uuid,
            hosts.get(uuid, ()),
            **({"availability_zone": f"az{n // 2}"} if n < PLAIN else {}),
        )
        for n, uuid in enumerate(random_queries.AGGREGATES)
    ]
    answers = nova_kit.answers(aggregates=listed)
    return NamedAggregates(lambda: nova_api.RecordedNova(answers, ""))


def clients(
    placement: service.InProcessPlacement, base: state.CloudState
) -> tuple[api.Client, explained.CountingClient]:
    """A cloud in an empty server, read as a database file and as a service."""
    return placement.client(VERSION), explained.as_service(placement, base)


def counted(
    client: api.Client, request: candidate.CandidateQuery, by: show.By | None = None
) -> show.Shown:
    return show.show(client, show.ShowRequest({"": ((request,),)}, by=by), CONTEXT, named())


@pytest.mark.seeds(8, long=500)
def test_a_service_is_counted_as_its_database_and_by_brute_force(
    seed: int, placement: service.InProcessPlacement
) -> None:
    draw = random.Random(f"capacity of a service {seed}")
    base = clouds.draw_state(draw, small=True)
    file, live = clients(placement, base)
    for _ in range(3):
        request = random_queries.draw_query(draw, base, VERSION)
        for by in (None, *show.By):
            whole = counted(file, request, by)
            assert counted(live, request, by) == whole
        (row,) = counted(live, request).rows
        with contextlib.suppress(brute_force.TooManyStates):
            expected = brute_force.most(base, request)
            assert expected == row.capacity.count.least == row.capacity.count.most
        assert row.capacity.hosts == len(oracle.hosts(base, request))
        for class_capacity in row.capacity.classes:
            assert usable(base, request, class_capacity.name) >= class_capacity.free


def fits_by_aggregate(client: api.Client, request: candidate.CandidateQuery) -> dict[str, int]:
    shown = show.ShowRequest({"": ((request,),)}, by=show.By.AGGREGATE)
    return {row.part: row.capacity.count.least for row in show.show(client, shown, CONTEXT).rows}


@pytest.mark.seeds(8, long=300)
def test_a_part_by_aggregate_has_what_the_request_with_member_of_has(
    seed: int, placement: service.InProcessPlacement
) -> None:
    """Also of providers that share with its hosts, in one or in several aggregates."""
    draw = random.Random(f"parts {seed}")
    base = clouds.draw_state(draw, small=True)
    file, _ = clients(placement, base)
    for _ in range(4):
        request = random_queries.draw_query(draw, base, VERSION)
        if all(request_group.suffix for request_group in request.groups):
            continue
        parts = fits_by_aggregate(file, request)
        for uuid in random_queries.AGGREGATES:
            hosts = base.with_aggregate[uuid] & {*hosts_of(base)}

            def allowed(found: candidate.Candidate, hosts: Any = hosts) -> bool:
                trees = {base.providers[uuid].root_uuid for uuid in found.allocations}
                return found.root_uuid in trees & hosts

            candidate_query = dataclasses.replace(
                request,
                groups=tuple(
                    part
                    if part.suffix
                    else dataclasses.replace(part, member_of=(*part.member_of, frozenset({uuid})))
                    for part in request.groups
                ),
            )
            with contextlib.suppress(brute_force.TooManyStates):
                assert parts.get(uuid, 0) == brute_force.most(base, candidate_query, allowed)


FIRST, SECOND, _ = random_queries.AGGREGATES
HOST = provider(NAME.format(0), aggregates=f"{FIRST} {SECOND}", VCPU=4)
DISK = provider(NAME.format(1), aggregates=SECOND, traits=clouds.SHARES, DISK_GB=3)


@pytest.mark.parametrize(
    ("providers", "request_", "expected"),
    [
        pytest.param(
            [
                provider(NAME.format(0), aggregates=FIRST),
                provider(NAME.format(1), NAME.format(0), aggregates=SECOND, VCPU=2),
            ],
            query(group(VCPU=1, member_of=SECOND)),
            {FIRST: 0},
            id="one provider, or its root, is in both aggregates",
        ),
        pytest.param(
            [HOST, DISK],
            query(group(VCPU=1, DISK_GB=1)),
            {FIRST: 0, SECOND: 3},
            id="what shares is in the aggregate",
        ),
        pytest.param(
            [HOST, DISK],
            query(group(VCPU=1), group("_D", DISK_GB=1)),
            {FIRST: 3, SECOND: 3},
            id="what shares for a group with a suffix can be outside",
        ),
    ],
)
def test_a_part_has_what_member_of_admits(
    providers: Sequence[Any],
    request_: candidate.CandidateQuery,
    expected: Mapping[str, int],
    placement: service.InProcessPlacement,
) -> None:
    file, _ = clients(placement, clouds.cloud(*providers))
    fits = fits_by_aggregate(file, request_)
    assert {uuid: fits[uuid] for uuid in expected} == expected


def test_what_shares_with_a_part_serves_its_servers_and_is_no_host_of_it(
    placement: service.InProcessPlacement,
) -> None:
    other = provider(NAME.format(2), aggregates=f"{FIRST} {SECOND}", VCPU=4)
    used = {NAME.format(0): {"VCPU": 1}, NAME.format(1): {"DISK_GB": 1}}
    base = clouds.cloud(HOST, DISK, other, servers={NAME.format(3): used})
    queries = {"of hosts": query(group(VCPU=1)), "shared": query(group(DISK_GB=1))}
    wanted = {title: ((candidate_query,),) for title, candidate_query in queries.items()}
    request = show.ShowRequest(wanted, by=show.By.AGGREGATE, keep=1)
    rows = show.show(clients(placement, base)[0], request, CONTEXT).rows
    kept = [(row.title, row.part, row.kept.least, row.kept.unsafe) for row in rows if row.kept]
    assert kept == [
        ("of hosts", FIRST, 3, ()),
        ("of hosts", SECOND, 3, ()),
        ("shared", FIRST, 0, ()),
        ("shared", SECOND, 0, ()),
    ]


def numbers(row: show.CapacityRow) -> tuple[object, ...]:
    """A count without the names of what was chosen."""
    capacity = row.capacity
    fits = capacity.count.least, capacity.count.most
    return row.part, fits, capacity.hosts, capacity.classes


def bought(base: state.CloudState, root: str, number: int) -> state.CloudState:
    """The cloud with hosts like one, made by hand: records with new names."""
    providers = {}
    for at in range(number):
        for uuid in base.tree[root]:
            same = base.providers[uuid]
            new = {each: f"{each[:-4]}b{at:03}" for each in base.tree[root]}
            providers[new[uuid]] = dataclasses.replace(
                same,
                uuid=new[uuid],
                name=f"bought {at} {same.name}",
                root_uuid=new[root],
                parent_uuid=new[same.parent_uuid] if same.parent_uuid else None,
                traits=same.traits - {servers.DISABLED},
            )
    after = base.copy()
    after.apply(record.Changes(providers))
    return after


@pytest.mark.seeds(6, long=300)
def test_added_hosts_give_what_a_cloud_with_them_has(
    seed: int, placement: service.InProcessPlacement
) -> None:
    draw = random.Random(f"purchase {seed}")
    base, queries = brute_force.cloud_with_servers(draw, 4)
    file, live = clients(placement, base)
    root, number = draw.choice(hosts_of(base)), draw.randint(1, 3)
    added = [add_hosts.AddedHosts(root, 1), add_hosts.AddedHosts(root, number)]
    after = bought(base, root, number + 1)
    with service.InProcessPlacement() as other:
        real, _ = clients(other, after)
        for request in queries:
            for by in (None, show.By.AGGREGATE, show.By.ZONE):
                for client in (file, live):
                    show_request = show.ShowRequest({"": ((request,),)}, by=by, added=added)
                    rows = show.show(client, show_request, CONTEXT, named()).rows
                    expected = counted(real, request, by).rows
                    assert [numbers(row) for row in rows if row.is_after] == [
                        numbers(row) for row in expected
                    ]
                    now = counted(client, request, by).rows
                    assert [row for row in rows if not row.is_after] == list(now)
            with contextlib.suppress(brute_force.TooManyStates):
                (_, row) = show.show(
                    file, show.ShowRequest({"": ((request,),)}, added=added), CONTEXT
                ).rows
                assert row.capacity.count.least == brute_force.most(after, request)


def test_added_hosts_are_in_service_whatever_the_one_is_that_they_are_like() -> None:
    like, other, server = (NAME.format(number) for number in range(3))
    hosts = provider(like, traits=servers.DISABLED, VCPU=4), provider(other, VCPU=4)
    base = clouds.cloud(*hosts, servers={server: f"{like} 3"})
    # Nova has none of the two.
    nova = nova_servers.NovaReader(ServerHosts(values.Hosts()))
    with service.InProcessPlacement() as placement:
        request = show.ShowRequest(
            {"": ((query(group(VCPU=2)),),)},
            by=show.By.HOST,
            added=[add_hosts.AddedHosts(like, 2)],
        )
        rows = show.show(clients(placement, base)[0], request, CONTEXT, nova=nova).rows
    names = {uuid: each.name for uuid, each in base.providers.items()}
    assert {row.part: row.capacity.count.least for row in rows if row.is_after} == {
        names[like]: 0,
        names[other]: 0,
        f"{names[like]} (new 1)": 2,
        f"{names[like]} (new 2)": 2,
    }


@pytest.mark.seeds(8, long=300)
def test_a_part_has_the_hosts_of_nova(seed: int, placement: service.InProcessPlacement) -> None:
    draw = random.Random(f"hosts of nova {seed}")
    base = clouds.draw_state(draw, small=True)
    file, live = clients(placement, base)
    roots = [root for root in base.tree if draw.random() < 0.8]
    nodes = tuple(values.ComputeNode(root, base.providers[root].name, root[:8]) for root in roots)
    services = tuple(values.ComputeService(root[:8], True, True, True) for root in roots)
    compute = ServerHosts(values.Hosts(nodes, compute_services=services))
    hosts = {
        uuid: [root[:8] for root in base.tree if draw.random() < 0.5]
        for uuid in random_queries.AGGREGATES
    }
    nova = nova_servers.NovaReader(compute=compute)
    request = random_queries.draw_query(draw, base, VERSION)
    whole = [request_group for request_group in request.groups if not request_group.suffix]

    def shown(client: api.Client = file, **options: Any) -> show.Shown:
        show_request = show.ShowRequest({"": ((request,),)}, **options)
        return show.show(client, show_request, CONTEXT, named(hosts), nova)

    for by in show.By:
        assert shown(live, by=by) == shown(by=by)
    parts = {row.part: row.capacity.count for row in shown(by=show.By.AGGREGATE).rows}
    for number, uuid in enumerate(random_queries.AGGREGATES):
        there = {root for root in roots if root[:8] in hosts[uuid]} & {*hosts_of(base)}
        members = base.providers.keys()
        if number < PLAIN:
            terms = [any_of for request_group in whole for any_of in request_group.member_of]
            members = {
                each
                for each in there | base.with_aggregate[uuid]
                if not any(term.isdisjoint(base.providers[each].aggregates) for term in terms)
            }

        def allowed(found: candidate.Candidate, there: Any = there, members: Any = members) -> bool:
            """Of a host in nova's aggregate, and of providers that nova's request allows."""
            roots = {uuid: base.providers[uuid].root_uuid for uuid in found.allocations}
            return found.root_uuid in there & {*roots.values()} and all(
                not members.isdisjoint((each, roots[each])) for each in found.mappings.get("", ())
            )

        part = parts.get(f"aggregate{number}")
        with contextlib.suppress(brute_force.TooManyStates):
            expected = brute_force.most(base, request, allowed)
            assert expected == (part.least if part else 0)
    for text in shown(by=show.By.AGGREGATE).caveats.notes:
        assert "in nova" in text
        assert "in Placement" in text


def usable(base: state.CloudState, request: candidate.CandidateQuery, name: str) -> int:
    """At least what is free of a class on trees that the traits of the request admit."""
    groups = [request_group for request_group in request.groups if request_group.resources]
    free = 0
    for root in base.tree:
        uuids = {*base.tree[root]} | {
            uuid
            for uuid in base.with_trait[standard.SHARING_TRAIT]
            for aggregate in base.providers[uuid].aggregates
            if not base.with_aggregate[aggregate].isdisjoint(base.tree[root])
        }
        there = frozenset().union(*(base.providers[uuid].traits for uuid in uuids))
        if all(there & any_of for request_group in groups for any_of in request_group.required):
            for uuid in uuids:
                offer = base.providers[uuid].inventories.get(name)
                free += 0 if offer is None else offer.capacity - base.used(uuid).get(name, 0)
    return free


@pytest.mark.parametrize("number", [50, 500])
@pytest.mark.parametrize(
    ("by", "aggregates", "more"),
    [
        (None, 0, {}),
        (show.By.HOST, 0, {}),
        (show.By.AGGREGATE, 1, {}),
        (show.By.ZONE, 0, {"resource_providers/member_of": PLAIN}),
    ],
)
def test_only_a_count_by_aggregate_sends_a_request_for_each_host(
    by: show.By | None,
    aggregates: int,
    more: dict[str, int],
    number: int,
    placement: service.InProcessPlacement,
) -> None:
    base = clouds.cloud(
        *(provider(NAME.format(n), VCPU=8, MEMORY_MB=8) for n in range(number - 2)),
        *(provider(NAME.format(n), PCPU=8) for n in range(number - 2, number)),
    )
    _, live = clients(placement, base)
    counted(live, query(group(VCPU=2, MEMORY_MB=1, required="HW_CPU_X86_SSE")), by)
    assert live.sent == {
        "allocation_candidates/resources": 1,
        "resource_providers/": 1,
        # Those that share, and those with the trait.
        "resource_providers/required": 2,
        # 1 of each class, also of DISK_GB, and 2 VCPU.
        "resource_providers/resources": 4,
        # The hosts without any of them.
        "resource_providers/inventories/": 2,
        **({"resource_providers/aggregates/": number} if aggregates else {}),
        **more,
    }


AGGREGATE = random_queries.AGGREGATES[0]


def judge(read: observe_hosts.ServersRead, most: int | None = None) -> stop.StopVerdict:
    nova = read.known
    placed_servers = servers.servers_on(read.base, read.roots, nova.cases, nova.groups)
    budget = budgets.SearchBudget()
    moves = capacity_moves.Moves(
        read.base, placed_servers, budget, groups=nova.groups, root_of=cases.root_of
    )
    if most is None:
        return stop.may_stop(moves, read.roots)
    return stop.largest(moves, read.roots, most)


def reader(server_cases: nova_servers.ServerCases) -> nova_servers.NovaReader:
    return nova_servers.NovaReader(requests=lambda *_: server_cases)


def draw_nova(
    draw: random.Random, base: state.CloudState
) -> tuple[Mapping[str, candidate.CandidateQuery], list[ServerGroup]]:
    """Conditions of some servers, and a server group."""
    queries = {
        uuid: random_queries.draw_query(draw, base, microversion.MAXIMUM)
        for uuid in base.consumers
        if draw.random() < 0.5
    }
    members = tuple(uuid for uuid in base.consumers if draw.random() < 0.6)
    policy = draw.choice(("affinity", "anti-affinity"))
    return queries, [ServerGroup("g", "web", policy, members)]


@pytest.mark.seeds(30, long=600)
def test_a_service_is_judged_as_its_database(
    seed: int, placement: service.InProcessPlacement
) -> None:
    draw = random.Random(f"stop hosts of a service {seed}")
    base, _ = brute_force.cloud_with_servers(draw, 6)
    client = explained.as_service(placement, base)
    hosts = hosts_of(base)
    names = [base.providers[root].name for root in draw.sample(hosts, draw.randint(0, len(hosts)))]
    queries, groups = draw_nova(draw, base)

    server_cases = nova_servers.ServerCases(cases.of_servers(queries), cases.members(base, groups))
    read = observe_hosts.read(client, names, [], reader(server_cases), CONTEXT)
    whole = observe_hosts.ServersRead(base, read.roots, known=server_cases)
    verdict, expected = judge(read), judge(whole)
    assert verdict.answer == expected.answer
    assert len(verdict.unplaced) == len(expected.unplaced)
    most = draw.randint(1, 3)
    verdict, expected = judge(read, most), judge(whole, most)
    assert (verdict.answer, len(verdict.hosts)) == (expected.answer, len(expected.hosts))


def on_hosts(hosts: int, **offers: int) -> state.CloudState:
    """Hosts in one aggregate that share a disk provider."""
    uuids = [f"00000000-0000-4000-8000-{number:012}" for number in range(hosts + 1)]
    return clouds.cloud(
        provider(uuids[0], aggregates=AGGREGATE, traits=clouds.SHARES, DISK_GB=1000),
        *(provider(uuid, aggregates=AGGREGATE, **offers) for uuid in uuids[1:]),
    )


@pytest.mark.parametrize("hosts", [5, 50])
def test_hosts_in_reserve_cost_two_requests_for_each_provider_and_none_for_a_consumer(
    hosts: int, placement: service.InProcessPlacement
) -> None:
    base = on_hosts(hosts, VCPU=8, MEMORY_MB=64)
    _, first, *_ = base.providers
    base = brute_force.claim(base, NAME.format(999), {first: {"VCPU": 2}})
    file, live = clients(placement, base)
    request = show.ShowRequest({"": ((query(group(VCPU=1)),),)}, keep=1)
    assert show.show(live, request, CONTEXT) == show.show(file, request, CONTEXT)
    assert live.sent == {
        # All of them, and those that share.
        "resource_providers/": 1,
        "resource_providers/required": 1,
        "resource_providers/inventories/": hosts + 1,
        "resource_providers/allocations/": hosts + 1,
        "resource_providers/aggregates/": hosts + 1,
        "traits/associated": 1,
    }


@pytest.mark.parametrize("hosts", [50, 500])
def test_the_number_of_requests_about_stopped_hosts_is_exact(
    hosts: int, placement: service.InProcessPlacement
) -> None:
    base = on_hosts(hosts, VCPU=8, MEMORY_MB=64)
    disk, first, other, *_ = base.providers
    uuids = [f"00000000-0000-4000-8000-0000000000c{number}" for number in range(4)]
    shared = {first: {"VCPU": 2, "MEMORY_MB": 4}, disk: {"DISK_GB": 5}}
    placed = {**dict.fromkeys(uuids[:3], shared), uuids[3]: {other: {"VCPU": 1}}}
    base = brute_force.written(base, placed)
    client = explained.as_service(placement, base)
    client.sent.clear()
    candidate_query = query(
        group(VCPU=2, MEMORY_MB=4, DISK_GB=5, forbidden="HW_NUMA_ROOT", member_of=AGGREGATE),
        root_forbidden=frozenset({servers.DISABLED}),
    )
    server_cases = nova_servers.ServerCases(
        cases.of_servers(dict.fromkeys(uuids[:3], candidate_query)),
        cases.members(base, [ServerGroup("g", "web", "anti-affinity", (uuids[0], uuids[3]))]),
    )
    read = observe_hosts.read(client, [first], [], reader(server_cases), CONTEXT)
    assert judge(read).answer is Answer.YES
    assert client.sent == {
        "resource_providers/": 1,
        # Those that share, and those with each of the two traits.
        "resource_providers/required": 3,
        # The aggregate of the query, which is also that of the sharing provider.
        "resource_providers/member_of": 1,
        "resource_providers/aggregates/": 1,
        # Of the stopped host.
        "resource_providers/allocations/": 1,
        # Three servers; nova knows the host of the other member of the group.
        "allocations/": 3,
        # All hosts, and 1 and the amount of the servers of each class.
        "allocation_candidates/resources": 1,
        "resource_providers/resources": 6,
        # The sharing provider.
        "resource_providers/inventories/": 1,
        "resource_providers/usages/": 1,
    }


def test_hosts_of_an_aggregate_are_listed(placement: service.InProcessPlacement) -> None:
    base = on_hosts(3, VCPU=8)
    client = explained.seeded(placement, base)
    read = observe_hosts.read(client, [], [AGGREGATE], nova_servers.NovaReader(), CONTEXT)
    assert sorted(read.roots) == sorted(list(base.providers)[1:])
    assert read.known.caveats.doubts == nova_servers.WITHOUT_NOVA.caveats.doubts


def test_a_trait_that_does_not_exist_is_on_no_host(placement: service.InProcessPlacement) -> None:
    base = on_hosts(2, VCPU=8)
    first = list(base.providers)[1]
    server = "00000000-0000-4000-8000-0000000000c0"
    base = brute_force.claim(base, server, {first: {"VCPU": 2}})
    client = explained.seeded(placement, base)
    queries = {server: query(group(VCPU=2, required="CUSTOM_GONE"))}
    server_cases = nova_servers.ServerCases(cases.of_servers(queries))
    read = observe_hosts.read(client, [first], [], reader(server_cases), CONTEXT)
    (unplaced,) = judge(read).unplaced
    assert unplaced.reasons == ("no other host has room with required=CUSTOM_GONE",)


def test_the_command_that_repairs_a_host_can_be_pasted() -> None:
    unallocated = nova_servers.Unallocated(missing={NAME.format(1): "host 1"})
    (line,) = unallocated.lines()
    assert line.endswith("openstack placement allocation heal '--host=host 1'")
