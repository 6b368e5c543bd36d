# SPDX-License-Identifier: Apache-2.0
"""Selected providers, and batches of traits, aggregates and inventories."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Any

import pytest

from osc_placement import errors
from osc_placement.client import api_errors
from osc_placement.model import inventory
from osc_placement.nova import values
from osc_placement.plan import apply, file, plan as plan_module, result
from osc_placement.plan.kinds import memberships
from osc_placement.workflows.batch import batch
from osc_placement.workflows.cloud import selector
from tests.support import embedded, plans
from tests.support.batch_runs import statuses

IN_AGGREGATE = selector.Selector(member_of=(embedded.AGGREGATE,))
LIST = "GET /resource_providers"
READ_TRAITS = "GET /resource_providers/{}/traits"
WRITE_TRAITS = "PUT /resource_providers/{}/traits"
READ_AGGREGATES = "GET /resource_providers/{}/aggregates"
WRITE_AGGREGATES = "PUT /resource_providers/{}/aggregates"
WRITE_TRAIT, DELETE_TRAIT = "PUT /traits/{}", "DELETE /traits/{}"
EVERYTHING = selector.Selector(everything=True)


def applied(client: embedded.Client, planned: plan_module.ObservedPlan) -> result.RunReport:
    return plans.apply_new(client, planned, "a test", apply.Options())


def names(client: embedded.Client, **fields: Any) -> list[str]:
    chosen = selector.select(client, selector.Selector(**fields))
    return [item.name for item in chosen.providers]


def cloud() -> embedded.Client:
    return embedded.Client(
        [
            embedded.Host("cmp-1", traits=("CUSTOM_A",)),
            embedded.Host("cmp-2", traits=("CUSTOM_A", "CUSTOM_B")),
            embedded.Host("cmp-3", aggregates=()),
            embedded.Host("net-1", aggregates=(), traits=("CUSTOM_B",)),
        ]
    )


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"providers": ("cmp-2", embedded.uuid_of("net-1"))}, ["cmp-2", "net-1"]),
        ({"providers": (embedded.uuid_of("cmp-1").upper().replace("-", ""),)}, ["cmp-1"]),
        ({"member_of": (embedded.AGGREGATE,)}, ["cmp-1", "cmp-2"]),
        ({"member_of": (f"!{embedded.AGGREGATE}",)}, ["cmp-3", "net-1"]),
        ({"required": ("CUSTOM_B",)}, ["cmp-2", "net-1"]),
        ({"forbidden": ("CUSTOM_B",)}, ["cmp-1", "cmp-3"]),
        ({"name_globs": ("cmp-*",), "forbidden": ("CUSTOM_A",)}, ["cmp-3"]),
        ({"name_globs": ("*-1", "*-3")}, ["cmp-1", "cmp-3", "net-1"]),
        ({"in_tree": "cmp-3"}, ["cmp-3"]),
        ({"everything": True}, ["cmp-1", "cmp-2", "cmp-3", "net-1"]),
        ({"everything": True, "required": ("CUSTOM_A",)}, ["cmp-1", "cmp-2"]),
        ({"providers": ("cmp-1", "cmp-3"), "required": ("CUSTOM_A",)}, ["cmp-1"]),
    ],
)
def test_selectors_are_combined(fields: dict[str, Any], found: list[str]) -> None:
    assert names(cloud(), **fields) == found


@pytest.mark.parametrize(
    "fields",
    [
        {"member_of": (embedded.AGGREGATE,)},
        {"required": ("CUSTOM_A",), "name_globs": ("cmp*",)},
        {"everything": True},
        {"member_of": (embedded.AGGREGATE,), "required": ("CUSTOM_A",)},
    ],
)
def test_selecting_by_aggregate_trait_or_all_sends_one_request(fields: dict[str, Any]) -> None:
    client = cloud()
    names(client, **fields)
    assert client.count() == {LIST: 1}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "nothing is selected"),
        ({"providers": ("unknown-host",)}, "'unknown-host'"),
        ({"providers": (embedded.uuid_of("unknown-host"),)}, embedded.uuid_of("unknown-host")),
        ({"providers": ("a", "b", "c", "d", "e", "f")}, "'f'"),
        ({"member_of": (embedded.uuid_of("nothing"),)}, "the selection is empty"),
        ({"name_globs": ("x*",)}, "'--name-glob=x"),
        ({"required": ("CUSTOM_NEW",)}, "CUSTOM_NEW: 'openstack trait list' shows the traits$"),
        ({"forbidden": ("NONSENSE",)}, "unknown trait NONSENSE"),
        ({"in_tree": "unknown-host"}, "unknown-host"),
        # As of an unset variable of a script: it must not select more.
        ({"in_tree": ""}, "the name or UUID ''"),
        ({"in_tree": "", "everything": True}, "the name or UUID ''"),
        ({"member_of": ("racks",)}, "without a compute service"),
    ],
)
def test_an_invalid_selection_is_an_error(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.PlacementError, match=message):
        names(cloud(), **fields)


def test_adding_a_trait_that_all_have_sends_two_listings_and_no_write() -> None:
    client = cloud()
    report = applied(client, batch.plan_traits(client, IN_AGGREGATE, add=["CUSTOM_A"]))
    assert client.count() == {LIST: 2}
    assert report.count(result.Status.UNCHANGED) == 2


def test_adding_a_trait_sends_one_read_and_one_write_per_provider_without_it() -> None:
    client = cloud()
    report = applied(client, batch.plan_traits(client, EVERYTHING, add=["CUSTOM_B"]))
    assert client.count() == {LIST: 2, READ_TRAITS: 2, WRITE_TRAITS: 2}
    assert all("CUSTOM_B" in item.traits for item in client.all_stored())
    assert client.stored("cmp-1").traits == {"CUSTOM_A", "CUSTOM_B"}
    assert [str(item.status) for item in report.results] == [
        "applied",
        "unchanged",
        "applied",
        "unchanged",
    ]


def test_a_named_provider_is_read_alone() -> None:
    client = cloud()
    selection = selector.Selector(providers=("cmp-1",))
    applied(client, batch.plan_traits(client, selection, add=["CUSTOM_A"]))
    assert client.count() == {LIST: 1, READ_TRAITS: 1}


@pytest.mark.parametrize(
    "selected", [IN_AGGREGATE, selector.Selector(providers=("cmp-1",))], ids=str
)
def test_removing_an_unknown_trait_does_not_advise_to_create_it(
    selected: selector.Selector,
) -> None:
    with pytest.raises(errors.InvalidInput, match="unknown trait CUSTOM_NEW") as caught:
        batch.plan_traits(cloud(), selected, remove=["CUSTOM_NEW"])
    assert "create" not in str(caught.value)


def test_create_creates_a_custom_trait_first_and_undo_deletes_it_last() -> None:
    client = cloud()
    planned = batch.plan_traits(client, IN_AGGREGATE, add=["CUSTOM_NEW"], create=True)
    report = applied(client, planned)
    writes = [request for request in client.sent if request.is_write]
    assert (writes[0].template, writes[0].subject) == (WRITE_TRAIT, "CUSTOM_NEW")
    assert report.count(result.Status.APPLIED) == 3
    assert report.undo_path is not None
    made = file.read(report.undo_path)
    back = plans.apply_file(client, made, report.undo_path, apply.Options())
    assert back.count(result.Status.APPLIED) == 3
    assert (client.sent[-1].template, client.sent[-1].subject) == (DELETE_TRAIT, "CUSTOM_NEW")
    assert not client.rival.trait_exists("CUSTOM_NEW")
    assert client.stored("cmp-1").traits == {"CUSTOM_A"}


def test_undo_counts_a_deleted_provider_as_done_only_if_it_would_remove_members(
    tmp_path: pathlib.Path,
) -> None:
    client, path = cloud(), tmp_path / "plan"
    planned = batch.plan_traits(client, EVERYTHING, add=["CUSTOM_B"])
    report = plans.apply_new(client, planned, options=apply.Options(plan_out=path))
    assert statuses(report) == {"applied": 2, "unchanged": 2}
    client.rival.delete_provider(embedded.uuid_of("cmp-1"))
    undone = plans.undo_file(client, file.read(path), path)
    assert statuses(undone) == {"applied": 1, "unchanged": 1}
    planned = batch.plan_traits(client, EVERYTHING, remove=["CUSTOM_A"])
    plans.apply_new(client, planned, options=apply.Options(plan_out=tmp_path / "other"))
    client.rival.delete_provider(embedded.uuid_of("cmp-2"))
    undone = plans.undo_file(client, file.read(tmp_path / "other"), tmp_path / "other")
    assert [item.code for item in undone.results if item.subject.name == "cmp-2"] == ["not-found"]


def test_a_trait_that_cannot_be_created_stops_the_run() -> None:
    client = cloud()
    client.before_write(embedded.refuse(400, "no such name"))
    planned = batch.plan_traits(client, IN_AGGREGATE, add=["CUSTOM_NEW"], create=True)
    report = applied(client, planned)
    assert report.count(result.Status.FAILED) == 1
    assert report.count(result.Status.PLANNED) == 2
    assert client.writes == client.count()[WRITE_TRAIT] == 1


def test_a_standard_trait_is_not_removed_unless_it_is_allowed() -> None:
    client = embedded.Client([embedded.Host("cmp-1", traits=("HW_CPU_X86_AVX2", "CUSTOM_A"))])
    removal = ["HW_CPU_X86_AVX2", "CUSTOM_A"]
    report = applied(client, batch.plan_traits(client, IN_AGGREGATE, remove=removal))
    assert report.count(result.Status.REFUSED) == 1
    assert report.results[0].code == "standard-traits"
    assert report.exit_code() == 6
    assert "--allow standard-traits" in report.results[0].reason
    allowed = batch.plan_traits(client, IN_AGGREGATE, remove=removal, allow=["standard-traits"])
    assert any("nova-compute" in note for note in allowed.plan.notes)
    applied(client, allowed)
    assert client.stored("cmp-1").traits == set()


def test_setting_the_traits_of_an_aggregate_replaces_all_and_writes_no_files() -> None:
    client = cloud()
    client.stored("cmp-1").set_traits("HW_CPU_X86_AVX2")
    members = client.rival.list_providers(member_of=[embedded.AGGREGATE])
    report = plans.apply_in_memory(client, batch.plan_set_traits(client, members, ["CUSTOM_B"]))
    assert [client.stored(item.uuid).traits for item in members] == [{"CUSTOM_B"}] * 2
    assert [item.found for item in report.results] == [memberships.Traits.of(["CUSTOM_B"])] * 2
    assert client.count() == {READ_TRAITS: 2, WRITE_TRAITS: 2}
    assert not file.state_directory().exists()


@pytest.mark.parametrize("exactly", [True, False])
def test_setting_inventories_applies_no_guard_and_tolerates_a_concurrent_write(
    exactly: bool,
) -> None:
    client = cloud()
    members = client.rival.list_providers(member_of=[embedded.AGGREGATE])
    contested = members[0].name
    client.stored(contested).use("VCPU", 32)

    def target(offers: inventory.Inventories) -> inventory.Inventories:
        kept = {} if exactly else dict(offers)
        return kept | {"VCPU": inventory.Inventory(total=1, max_unit=1)}

    def concurrent_write(request: embedded.Request) -> None:
        client.stored(contested).set_inventory("VCPU", step_size=2)

    client.before_write(embedded.about(contested, embedded.once_each(concurrent_write)))
    planned = batch.plan_set_inventories(client, members, target, exactly=exactly)
    report = plans.apply_in_memory(client, planned)
    if exactly:
        # The write of the other client is not replaced by inventories that were read before it.
        assert report.count(result.Status.STALE) == report.count(result.Status.APPLIED) == 1
        assert client.stored(contested).inventories["VCPU"].step_size == 2
        planned = batch.plan_set_inventories(client, members, target, exactly=exactly)
        report = plans.apply_in_memory(client, planned)
        assert report.count(result.Status.APPLIED) == 1
    else:
        assert report.count(result.Status.APPLIED) == 2
    inventories = client.stored(contested).inventories
    assert inventories["VCPU"].total == 1
    assert inventories["VCPU"].step_size == (1 if exactly else 2)
    assert ("MEMORY_MB" in inventories) is not exactly
    again = batch.plan_set_inventories(client, members, target, exactly=exactly)
    assert len(again.plan.changes) == (0 if exactly else 1)


def test_aggregates_are_added_and_removed_and_others_are_kept() -> None:
    client = cloud()
    other = embedded.uuid_of("another aggregate")
    planned = batch.plan_aggregates(client, EVERYTHING, add=[other], remove=[embedded.AGGREGATE])
    applied(client, planned)
    assert [item.aggregates for item in client.all_stored()] == [{other}] * 4
    assert client.count() == {LIST: 3, READ_AGGREGATES: 4, WRITE_AGGREGATES: 4}
    client.sent.clear()
    report = applied(client, batch.plan_aggregates(client, EVERYTHING, add=[other]))
    assert report.count(result.Status.UNCHANGED) == 4
    assert client.count() == {LIST: 2}


def test_adding_and_removing_the_same_name_is_an_error() -> None:
    with pytest.raises(errors.InvalidInput, match="at once"):
        batch.plan_traits(cloud(), EVERYTHING, add=["CUSTOM_A"], remove=["CUSTOM_A"])


def test_a_provider_that_cannot_be_read_is_refused_and_others_are_changed() -> None:
    client = cloud()
    client.before(embedded.about("cmp-1", embedded.refuse(404, "gone")))
    report = applied(client, batch.plan_amend(client, IN_AGGREGATE, ["VCPU:total=64"]))
    assert [(str(item.status), item.code) for item in report.results] == [
        ("refused", "unreadable"),
        ("applied", ""),
    ]
    assert report.exit_code() == 6


def test_a_providers_file_has_lines_and_comments() -> None:
    text = ["cmp-1\n", "\n", "  # no more\n", " name with blanks \n"]
    assert selector.provider_lines(text) == ("cmp-1", "name with blanks")


TRAIT = "HW_PCI_ONE_TIME_USE"
CLASS = "PCI_DEVICE"
USAGES = "GET /resource_providers/{}/usages"


def device(name: str, *traits: str, reserved: int = 1) -> embedded.Host:
    offered = inventory.Inventory(total=1, max_unit=1, reserved=reserved)
    return embedded.Host(name, traits, inventories={CLASS: offered})


def devices() -> embedded.Client:
    """``used`` has a server, ``dirty`` had one, ``clean`` had none; ``other`` is for many."""
    client = embedded.Client(
        [
            device("clean", TRAIT, reserved=0),
            device("dirty", TRAIT),
            device("used", TRAIT, reserved=0),
            device("other", reserved=0),
        ]
    )
    for name in ("used", "other"):
        client.stored(name).use(CLASS, 1)
        client.stored(name).set_inventory(CLASS, reserved=1)
    client.sent.clear()
    return client


def release(client: embedded.Client, **fields: Any) -> plan_module.ObservedPlan:
    selected = fields.pop("selected", EVERYTHING)
    return batch.plan_amend(client, selected, [f"{CLASS}:reserved=0"], **fields)


def by_name(report: result.RunReport) -> dict[str, tuple[str, str]]:
    return {item.subject.name: (str(item.status), item.code) for item in report.results}


def test_a_device_in_use_keeps_what_nova_reserved() -> None:
    client = devices()
    report = plans.apply_new(client, release(client))
    assert by_name(report) == {
        "clean": ("unchanged", ""),
        "dirty": ("applied", ""),
        "used": ("refused", "one-time-use"),
        "other": ("applied", ""),
    }
    (refused,) = [item for item in report.results if item.subject.name == "used"]
    assert refused.reason == (
        f"{CLASS} of a one-time-use device would be free with 1 in use"
        " (--allow one-time-use to do it anyway)"
    )
    assert client.stored("used").inventories[CLASS].reserved == 1


def test_the_guard_reads_traits_only_where_a_used_up_class_gets_capacity() -> None:
    client = devices()
    release(client)
    assert client.count()[LIST] == 2
    client.sent.clear()
    batch.plan_amend(client, EVERYTHING, [f"{CLASS}:reserved=1"])
    assert client.count()[LIST] == 1


def test_a_device_that_a_server_gets_after_planning_is_kept() -> None:
    client = embedded.Client([device("a", TRAIT)])
    planned = release(client)
    client.stored("a").set_inventory(CLASS, reserved=0)
    client.stored("a").use(CLASS, 1)
    client.stored("a").set_inventory(CLASS, reserved=1)
    assert by_name(plans.apply_new(client, planned)) == {"a": ("refused", "one-time-use")}


def test_unused_selects_providers_without_allocations() -> None:
    client = devices()
    chosen = selector.select(client, selector.Selector(required=(TRAIT,), unused=True))
    assert [item.name for item in chosen.providers] == ["clean", "dirty"]
    assert client.count() == {LIST: 1, USAGES: 3}
    client.sent.clear()
    alone = selector.select(client, selector.Selector(unused=True))
    assert [item.name for item in alone.providers] == ["clean", "dirty"]
    assert client.count() == {LIST: 1, USAGES: 4}
    named = selector.Selector(providers=("used", "dirty"), unused=True)
    assert [item.name for item in selector.select(client, named).providers] == ["dirty"]
    assert str(named) == "--unused used dirty"


def test_a_trait_that_placement_does_not_know_is_on_no_device() -> None:
    client = devices()
    unknown = embedded.at(LIST, embedded.refuse(400, "No such trait(s)"))
    selected = selector.Selector(providers=("used", "other"))
    client.before(lambda request: unknown(request) if "required" in request.query else None)
    report = plans.apply_new(client, release(client, selected=selected))
    assert statuses(report) == {"applied": 2}


#: ``rack-1`` is a nova-compute for Ironic: two nodes. ``gone`` has a node without a provider.
NODES = (
    values.ComputeNode("uuid-1", "cmp-1.example.org", "cmp-1"),
    values.ComputeNode("uuid-2", "node-2", "rack-1"),
    values.ComputeNode("uuid-3", "node-3", "rack-1"),
    values.ComputeNode("uuid-4", "node-4", "gone"),
)
PROVIDERS = {"cmp-1.example.org": "uuid-1", "node-2": "uuid-2", "node-3": "recreated"}


def find(texts: Sequence[str]) -> dict[str, str]:
    by_text = {**PROVIDERS, **{uuid: uuid for uuid in PROVIDERS.values()}}
    return {text: by_text[text] for text in texts if text in by_text}


HOSTS = values.Hosts(nodes=NODES)


def test_names_and_uuids_of_providers_need_no_nova() -> None:
    uuids = selector.host_uuids(find, ["cmp-1.example.org", "uuid-2"], None)
    assert uuids == {"cmp-1.example.org": ["uuid-1"], "uuid-2": ["uuid-2"]}


def test_a_host_of_nova_has_the_providers_of_all_its_nodes() -> None:
    uuids = selector.host_uuids(find, ["rack-1", "cmp-1", "node-2"], HOSTS)
    assert uuids == {"rack-1": ["uuid-2", "recreated"], "cmp-1": ["uuid-1"], "node-2": ["uuid-2"]}
    assert list(uuids) == ["rack-1", "cmp-1", "node-2"]


def test_a_provider_of_another_node_is_not_taken_by_its_name() -> None:
    """Hosts of two cells have one hostname; a renamed provider keeps the UUID of its node."""
    twin = values.ComputeNode("uuid-5", "cmp-1.example.org", "cmp-2")
    renamed = values.ComputeNode("uuid-2", "node-3", "renamed")
    hosts = values.Hosts(nodes=(*NODES, twin, renamed))
    assert selector.host_uuids(find, ["renamed"], hosts) == {"renamed": ["uuid-2"]}
    with pytest.raises(api_errors.UnknownProvider, match=r"cmp-2: .* compute node of cmp-1 has"):
        selector.host_uuids(find, ["cmp-1", "cmp-2"], hosts)


@pytest.mark.parametrize("has_nova", [True, False])
def test_every_unknown_name_is_in_one_error(has_nova: bool) -> None:
    with pytest.raises(api_errors.UnknownProvider) as raised:
        selector.host_uuids(
            find, ["gone", "cmp-1.example.org", "absent"], HOSTS if has_nova else None
        )
    text = str(raised.value)
    gone = "gone: it has no resource provider: nova-compute" if has_nova else "'gone'"
    assert (gone in text, "'absent'" in text, "cmp-1" in text) == (True, True, False)
    assert ("nova has no compute node" in text) is has_nova
