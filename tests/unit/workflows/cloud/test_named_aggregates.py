# SPDX-License-Identifier: Apache-2.0
"""A name of a host aggregate means nova's hosts; a UUID means Placement's members."""

from __future__ import annotations

import random

import pytest

from osc_placement import errors
from osc_placement.nova import values
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.workflows.batch import batch, mirror
from osc_placement.workflows.cloud import named_aggregates, selector, source
from osc_placement.workflows.cloud.compute_nodes import read_server_hosts
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.cloud.named_aggregates import NamedAggregates
from osc_placement.workflows.explain import trait_matrix
from osc_placement.workflows.repair.allocations import preconditions
from osc_placement.workflows.reshape import reshape_plan
from tests.support import embedded, plans
from tests.support.host_aggregates import FakeNova

HOSTS = [f"h{number}" for number in range(6)]
RACK = embedded.uuid_of("rack")
LIST = "GET /resource_providers"


def cloud(
    in_nova: list[str], in_placement: list[str], missing: tuple[str, ...] = ()
) -> tuple[embedded.Client, FakeNova]:
    """The host aggregate ``rack``, and the members of its aggregate in Placement."""
    names = [name for name in [*HOSTS, "nfs"] if name not in missing]
    client = embedded.Client(
        embedded.Host(f"{name}.", aggregates=(RACK,) if name in in_placement else ())
        for name in names
    )
    return client, FakeNova({"rack": in_nova}, HOSTS)


def names_of(nova: FakeNova, *, changes: bool = False) -> tuple[NamedAggregates, list[str]]:
    said: list[str] = []
    return NamedAggregates(lambda: nova, said.append, changes), said


@pytest.mark.seeds(60, long=1000)
def test_a_name_is_compared_as_two_sets_are(seed: int) -> None:
    chance = random.Random(seed)
    in_nova = [name for name in HOSTS if chance.random() < 0.5]
    in_placement = [name for name in [*HOSTS, "nfs"] if chance.random() < 0.5]
    missing = tuple(name for name in HOSTS if chance.random() < 0.1)
    client, nova = cloud(in_nova, in_placement, missing)
    hosts, members = {*in_nova} - {*missing}, {*in_placement} - {*missing}
    member_of = chance.choice(["rack", "1", "!rack", "!1", f"in:rack,{embedded.AGGREGATE}"])
    chosen = selector.Selector(member_of=(member_of,), everything=True)

    names, said = names_of(nova)
    outcome = []
    try:
        selector.select(client, chosen, names)
    except errors.InvalidInput as error:
        outcome = list(error.reasons)
    said += outcome
    is_told = any("rack has" in text for text in said)
    assert is_told == (hosts != members - {"nfs"} or not {*in_nova} <= hosts)
    if is_told:
        (text,) = (text for text in said if "rack has" in text)
        assert f"rack has {len(in_nova)} host" in text
        both = len(hosts & members)
        assert f"{both} of them in Placement" in text or both == len(in_nova)

    names, said = names_of(nova, changes=True)
    if hosts == members:
        assert named_aggregates.selected_uuids(client, ["rack"], names) == {"rack": RACK}
    else:
        with pytest.raises(errors.InvalidInput, match="rack has") as caught:
            selector.select(client, chosen, names)
        assert f"the UUID {RACK} means Placement's members" in str(caught.value)
        # A UUID is not compared.
        assert named_aggregates.selected_uuids(client, [RACK], names) == {RACK: RACK}


@pytest.mark.seeds(40, long=500)
def test_a_state_is_compared_as_a_service_is(seed: int) -> None:
    chance = random.Random(seed)
    in_nova = [name for name in HOSTS if chance.random() < 0.5]
    in_placement = [name for name in HOSTS if chance.random() < 0.5]
    client, nova = cloud(in_nova, in_placement)
    names, _ = names_of(nova)
    (of_service,) = names.members(client, ["rack"])
    with source.of(client, ReadContext()).everything() as base:
        by_host = named_aggregates.hosts_in_nova(base.tree, read_server_hosts(nova))
        in_state = {uuid: base.providers[uuid].name for uuid in base.with_aggregate[RACK]}
        nodes = frozenset().union(*by_host.values())
        of_state = named_aggregates.compare(names.listed[0], by_host, in_state, nodes)
    assert of_state == of_service


def test_the_printed_commands_end_the_difference() -> None:
    client, nova = cloud(["h0", "h1"], ["h1", "h2"])
    names, _ = names_of(nova, changes=True)
    chosen = selector.Selector(member_of=("rack",))
    with pytest.raises(errors.InvalidInput) as caught:
        selector.select(client, chosen, names)
    assert str(caught.value) == (
        "rack has 2 hosts in nova, 1 of them in Placement, with 1 other member: 'openstack"
        " placement aggregate mirror --host-aggregate=rack' adds h0; 'openstack placement"
        " aggregate mirror --host-aggregate=rack --prune' removes h2.; the UUID"
        f" {RACK} means Placement's members"
    )
    request = mirror.MirrorRequest(host_aggregates=("rack",), prune=True)
    planned = mirror.plan_mirror(client, nova, request)
    check = preconditions.NovaPreconditions(nova)
    plans.apply_in_memory(client, planned, check_precondition=check)
    selection = selector.select(client, chosen, names_of(nova, changes=True)[0])
    assert [item.name for item in selection.providers] == ["h0.", "h1."]


CHANGES = {
    "amend": lambda client, chosen, context: batch.plan_amend(
        client, chosen, ["VCPU:reserved=1"], context=context
    ),
    "traits": lambda client, chosen, context: batch.plan_traits(
        client, chosen, add=["CUSTOM_A"], create=True, context=context
    ),
    "aggregates": lambda client, chosen, context: batch.plan_aggregates(
        client, chosen, add=["rack"], context=context
    ),
    "reshape": lambda client, chosen, context: reshape_plan.select_roots(
        client, chosen, context.names
    ),
}


@pytest.mark.parametrize("command", CHANGES)
@pytest.mark.parametrize("member_of", ["rack", "!rack"])
def test_every_change_refuses_a_name_with_other_hosts_in_nova(command: str, member_of: str) -> None:
    client, nova = cloud(["h0", "h1"], ["h1"])
    names, _ = names_of(nova, changes=True)
    with pytest.raises(errors.InvalidInput, match="rack has 2 hosts in nova, 1 of them"):
        CHANGES[command](
            client, selector.Selector(member_of=(member_of,)), ReadContext(names=names)
        )


def test_a_query_sends_the_uuid_and_says_both_numbers() -> None:
    client, nova = cloud(["h0", "h1", "h2"], ["h1"])
    names, said = names_of(nova)
    trait_matrix.observe_matrix(
        client, selector.Selector(member_of=("rack",)), context=ReadContext(names=names)
    )
    assert len(said) == 1
    assert said[0].startswith("Note: rack has 3 hosts in nova, 1 of them in Placement: ")
    assert client.count()[LIST] == 3
    paths = [path.partition("?")[0] for path in nova.requests]
    assert paths == ["/os-aggregates", "/os-services", "/os-hypervisors/detail"]


def test_a_uuid_reads_nothing_from_nova() -> None:
    client, nova = cloud(["h0", "h1"], ["h1"])
    names, said = names_of(nova, changes=True)
    selection = selector.select(client, selector.Selector(member_of=(RACK,)), names)
    assert [item.name for item in selection.providers] == ["h1."]
    assert (nova.requests, said) == ([], [])


@pytest.mark.parametrize("path", ["/os-aggregates", "/os-services", "/os-hypervisors/detail"])
def test_a_missing_right_is_named_and_a_change_refused(path: str) -> None:
    client, nova = cloud(["h0"], ["h0"])
    nova.forbidden.add(path)
    chosen = selector.Selector(member_of=("rack",))
    with pytest.raises(errors.InvalidInput, match="missing permission in nova"):
        selector.select(client, chosen, names_of(nova, changes=True)[0])
    names, said = names_of(nova)
    if path == "/os-aggregates":
        with pytest.raises(errors.InvalidInput, match="give the UUID"):
            selector.select(client, chosen, names)
    else:
        selector.select(client, chosen, names)
        assert "missing permission in nova" in said[0]
        assert "Not checked: whether Placement has nova's hosts of rack" in said[0]


def test_two_host_aggregates_of_one_name_are_an_error() -> None:
    names, _ = names_of(FakeNova({}, []))
    names.__dict__["listed"] = [
        values.HostAggregate("7", "twice", RACK),
        values.HostAggregate("8", "twice", embedded.AGGREGATE),
    ]
    with pytest.raises(errors.InvalidInput) as caught:
        named_aggregates.aggregate_uuids(["twice", "none"], names)
    assert len(caught.value.reasons) == 2


def test_nothing_is_compared_where_nova_was_not_read() -> None:
    assert named_aggregates.hosts_in_nova([RACK], ServerHosts()) == {}


def test_hosts_of_a_cell_that_is_down_are_not_taken_for_missing() -> None:
    client, nova = cloud(["h0", "h1", "h2"], ["h0", "h1"], missing=("h2",))
    listed = nova.ask

    def with_a_cell_down(path: str, version: str) -> object:
        answer = listed(path, version)
        for service in answer.get("services", ()):
            if service["host"] == "h1":
                service["status"] = "UNKNOWN"
        hypervisors = answer.get("hypervisors", [])
        hypervisors[:] = [item for item in hypervisors if item["service"]["host"] != "h1"]
        return answer

    nova.ask = with_a_cell_down  # type: ignore[method-assign]
    text = "cannot list the compute nodes of h1 now; no provider has h2"
    with pytest.raises(errors.InvalidInput, match=text):
        selector.select(
            client, selector.Selector(member_of=("rack",)), names_of(nova, changes=True)[0]
        )
