# SPDX-License-Identifier: Apache-2.0
"""The mirror: plans of small clouds as lines; requests, errors, missing permissions."""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Sequence
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies

from osc_placement import errors
from osc_placement.model import provider
from osc_placement.nova import values
from osc_placement.plan import apply, change, plan, result
from osc_placement.plan.kinds import memberships
from osc_placement.workflows.batch import mirror
from osc_placement.workflows.batch.mirror import MirrorRequest
from osc_placement.workflows.cloud.cloud import Cloud
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.repair.allocations import preconditions
from tests.support import embedded, host_aggregates, plans
from tests.support.host_aggregates import FakeNova, members

#: Hosts and nodes, in no placement aggregate by default. The name of a node is its host's with a
#: dot, its UUID "n-" and its name. ``bm`` has two ironic nodes; ``far`` has none.
NODES = (("a", "a."), ("b", "b."), ("c", "c."), ("bm", "bm1."), ("bm", "bm2."))
CHILD = provider.Provider("u-child", "a._gpu", 0, root_uuid="n-a.", parent_uuid="n-a.")
SEGMENT = provider.Provider("u-segment", "Neutron segment", 5, root_uuid="u-segment")
SHARE = provider.Provider("u-share", "nfs", 0, root_uuid="u-share")


def node(host: str, hostname: str) -> values.ComputeNode:
    return values.ComputeNode(f"n-{hostname}", hostname, host)


def compute(hostname: str, uuid: str = "") -> provider.Provider:
    return provider.Provider(uuid or f"n-{hostname}", hostname, 3, uuid or f"n-{hostname}")


HOSTS = values.Hosts(
    nodes=tuple(node(*item) for item in NODES), services=frozenset({"a", "b", "c", "bm", "idle"})
)
#: Another cell has a host with the hostname of a host of this one.
TWINS = dataclasses.replace(HOSTS, nodes=(*HOSTS.nodes, values.ComputeNode("n-twin", "a.", "twin")))
PROVIDERS = (*(compute(hostname) for _, hostname in NODES), CHILD, SEGMENT, SHARE)


def cloud(
    aggregates: dict[str, str],
    members: dict[str, str] | None = None,
    providers: Sequence[provider.Provider] = PROVIDERS,
    **fields: Any,
) -> Cloud:
    """Aggregates as ``{name: "host host"}`` with uuid ``U-name``, members as ``{name: "uuid"}``."""
    snapshot = Cloud(
        aggregates=[
            values.HostAggregate(str(number), name, f"U-{name}", tuple(hosts.split()))
            for number, (name, hosts) in enumerate(aggregates.items(), 1)
        ],
        hosts=HOSTS,
        providers=provider.by_uuid(providers),
        members={
            f"U-{name}": frozenset((members or {}).get(name, "").split())
            for name in {**aggregates, **(members or {})}
        },
    )
    return dataclasses.replace(snapshot, **fields)


def lines(made: plan.Plan) -> list[str]:
    """A plan in lines: ``+az`` adds, ``-az`` removes, ``(...)`` is skipped."""
    lines = []
    for item in made.items():
        facts = " ".join(
            f"{'+' if present else '-'}{uuid.removeprefix('U-')}"
            for uuid, present in plans.after(item).items()
        )
        if isinstance(item, change.Change):
            lines.append(f"{item.subject.name} {facts}")
        elif item.unchanged:
            lines.append(f"{item.subject.name} = {facts}")
        else:
            mark = "!" if item.refused else ""
            lines.append(f"{item.subject.name} ({facts}){mark}")
    return lines


ALL = MirrorRequest()
PRUNE = MirrorRequest(prune=True)
DOWN = dataclasses.replace(HOSTS, services=HOSTS.services | {"far"}, unreachable=frozenset({"far"}))
OLD = dataclasses.replace(HOSTS, lists_down_cells=False)
TWO = {"az": "a b", "ssd": "a"}


PLANS = {
    "no aggregates": (cloud({}), ALL, []),
    "an aggregate without hosts": (cloud({"az": ""}), ALL, ["az ()"]),
    "one change per provider": (cloud(TWO), ALL, ["a. +az +ssd", "b. +az"]),
    "nothing to do": (
        cloud(TWO, {"az": "n-a. n-b.", "ssd": "n-a."}),
        PRUNE,
        ["a. = +az +ssd", "b. = +az"],
    ),
    "only what is lacking": (cloud(TWO, {"az": "n-a."}), ALL, ["a. +ssd", "b. +az"]),
    "stale members are reported": (
        cloud(TWO, {"az": "n-a. n-b. n-c.", "ssd": "n-a. n-b."}),
        ALL,
        ["a. = +az +ssd", "b. (-ssd)", "c. (-az)"],
    ),
    "and pruned on request, in the same change": (
        cloud(TWO, {"az": "n-a. n-c.", "ssd": "n-a. n-b."}),
        PRUNE,
        ["a. = +az +ssd", "b. +az -ssd", "c. -az"],
    ),
    "an aggregate that lost its hosts is emptied": (
        cloud({"az": "", "rack": "a"}, {"az": "n-a.", "rack": "n-a."}),
        PRUNE,
        ["a. -az", "az ()"],
    ),
    "all nodes of a host": (cloud({"bare": "bm"}), ALL, ["bm1. +bare", "bm2. +bare"]),
    "hosts without a node do not stop others": (
        cloud({"az": "a ghost idle"}),
        ALL,
        ["a. +az", "ghost (+az)!", "idle (+az)!"],
    ),
    "a node without a provider does not stop others": (
        cloud(TWO, providers=PROVIDERS[1:]),
        ALL,
        ["a. (+az +ssd)!", "b. +az"],
    ),
    "a provider of another UUID is found by its name": (
        cloud(TWO, providers=(compute("a.", "u-other"), *PROVIDERS[1:])),
        ALL,
        ["a. +az +ssd", "b. +az"],
    ),
    "but such a one is not pruned": (
        cloud({"az": "b"}, {"az": "u-other"}, providers=(compute("a.", "u-other"), *PROVIDERS)),
        PRUNE,
        ["a. (-az)", "b. +az"],
    ),
    "a child is not taken for the node of its name": (
        cloud({"az": "a"}, providers=(dataclasses.replace(CHILD, name="a."), *PROVIDERS[1:])),
        ALL,
        ["a. (+az)!"],
    ),
    "a provider without compute node is not pruned": (
        cloud({"az": "a"}, {"az": "n-a. u-segment u-share u-child"}),
        PRUNE,
        ["Neutron segment (-az)", "a. = +az", "a._gpu (-az)", "nfs (-az)"],
    ),
    "unless it is named": (
        cloud({"az": "a"}, {"az": "n-a. u-segment u-share"}),
        MirrorRequest(prune=True, providers=frozenset({"u-segment"})),
        ["Neutron segment -az", "a. = +az", "nfs (-az)"],
    ),
    "not even then while a cell is down": (
        cloud({"az": "a far"}, {"az": "n-a. u-segment"}, hosts=DOWN),
        MirrorRequest(prune=True, providers=frozenset({"u-segment"})),
        ["Neutron segment (-az)!", "a. = +az", "far (+az)!"],
    ),
    "nor where nova would not tell whether one is": (
        cloud({"az": "a ghost", "ssd": "a"}, {"az": "u-segment", "ssd": "u-share"}, hosts=OLD),
        MirrorRequest(prune=True, providers=frozenset({"u-segment", "u-share"})),
        ["Neutron segment (-az)!", "a. +az +ssd", "ghost (+az)!", "nfs -ssd"],
    ),
    "what the provider list does not have is passed over": (
        cloud({"az": "a"}, {"az": "n-b. u-gone"}, hosts=DOWN),
        PRUNE,
        ["a. +az", "b. -az"],
    ),
    "one host": (
        cloud(TWO, {"az": "n-c.", "ssd": "n-b. u-share"}),
        MirrorRequest(prune=True, hosts=frozenset({"b"})),
        ["b. +az -ssd"],
    ),
    "hosts in no aggregate": (
        cloud(TWO, {"az": "n-c."}),
        MirrorRequest(prune=True, hosts=frozenset({"c", "bm"})),
        ["bm ()", "c ()", "c. -az"],
    ),
    "one aggregate": (
        cloud(TWO, {"az": "n-c.", "ssd": "n-b."}),
        MirrorRequest(prune=True, host_aggregates=frozenset({"U-ssd"})),
        ["a. +ssd", "b. -ssd"],
    ),
    "a deleted aggregate is reported": (
        cloud({"az": "a"}, {"old": "n-a. n-b. u-share"}, deleted_aggregates={"U-old": "old"}),
        ALL,
        ["a. +az", "a. (-old)", "b. (-old)", "nfs (-old)"],
    ),
    "and pruned": (
        cloud({"az": "a"}, {"old": "n-a. n-b. u-share"}, deleted_aggregates={"U-old": "old"}),
        PRUNE,
        ["a. +az -old", "b. -old", "nfs (-old)"],
    ),
    "forgetting takes out of that one alone": (
        cloud(
            {"az": "a"},
            {"az": "n-b.", "old": "n-b.", "older": "n-c."},
            deleted_aggregates={"U-old": "old", "U-older": "older"},
        ),
        MirrorRequest(forget=frozenset({"U-old"})),
        ["a. +az", "b. -old", "b. (-az)", "c. (-older)"],
    ),
    "a narrowed run passes over other deleted ones": (
        cloud(
            {"az": "a"},
            {"old": "n-b.", "older": "n-c."},
            deleted_aggregates={"U-old": "", "U-older": ""},
        ),
        MirrorRequest(forget=frozenset({"U-old"}), host_aggregates=frozenset({"U-az"})),
        ["a. +az", "b. -old"],
    ),
}


@pytest.mark.parametrize(("snapshot", "request_", "expected"), PLANS.values(), ids=PLANS)
def test_the_plan_of(snapshot: Cloud, request_: MirrorRequest, expected: list[str]) -> None:
    made = mirror.decide_mirror(snapshot, request_)
    assert lines(made) == expected
    assert made == mirror.decide_mirror(snapshot, request_)


def test_a_change_has_its_facts_and_its_reason() -> None:
    (made, _) = mirror.decide_mirror(cloud(TWO, {"ssd": "n-b."}), PRUNE).changes[::-1]
    assert made == change.Change(
        "aggregates",
        change.Subject("b.", "n-b."),
        memberships.Aggregates({"U-az": False, "U-ssd": True}),
        memberships.Aggregates({"U-az": True, "U-ssd": False}),
        generation=3,
        reason="to az; out of ssd",
        precondition=change.Precondition(
            aggregates=change.AggregatesState("b", {"U-az": True, "U-ssd": False}, {})
        ),
    )


@pytest.mark.parametrize(
    ("snapshot", "reason"),
    [
        (cloud({"az": "ghost"}), "nor a compute service of this host"),
        (cloud({"az": "idle"}), "but no compute node"),
        (cloud({"az": "far"}, hosts=DOWN), "its cell is down"),
        (cloud({"az": "ghost"}, hosts=DOWN), r"the cell of far is down"),
        (cloud({"az": "a"}, providers=()), "nova-compute on a creates one"),
        (cloud({"az": "twin"}, hosts=TWINS), "the compute node of a has this name too"),
        (cloud({"az": ""}), "no hosts"),
        (cloud({"az": ""}, {"az": "n-a."}), "its host is not in it: --prune"),
        (
            cloud({}, {"old": "n-a."}, deleted_aggregates={"U-old": "old"}),
            "in old, but nova has deleted it: --forget U-old",
        ),
        (cloud({"az": ""}, {"az": "u-share"}), "not a compute node of nova: --prune --provider"),
        (
            cloud({"az": ""}, {"az": "u"}, providers=(*PROVIDERS, compute("a.", "u"))),
            "another UUID",
        ),
    ],
)
def test_a_skipped_change_has_its_reason(snapshot: Cloud, reason: str) -> None:
    reasons = [item.reason for item in mirror.decide_mirror(snapshot, ALL).skipped]
    assert re.search(reason, "; ".join(reasons))


def test_the_reason_names_the_option_that_a_forgotten_aggregate_needs() -> None:
    snapshot = cloud({}, {"old": "u-share"}, deleted_aggregates={"U-old": "old"})
    made = mirror.decide_mirror(snapshot, MirrorRequest(forget=frozenset({"U-old"})))
    reasons = [item.reason for item in made.skipped]
    assert reasons == ["in old, but it is not a compute node of nova: --provider removes it"]


def test_only_stale_compute_nodes_are_counted() -> None:
    snapshot = cloud({"az": "a ghost"}, {"az": "n-a. n-b. n-c. u-share"})
    for request, count in ((ALL, 2), (PRUNE, 0)):
        skipped = mirror.decide_mirror(snapshot, request).skipped
        assert sum(map(mirror.is_stale, skipped)) == count


HOST_NAMES = strategies.sets(strategies.sampled_from(["a", "b", "c", "bm", "idle", "ghost"]))
MEMBERS = strategies.sets(strategies.sampled_from([item.uuid for item in PROVIDERS]))


@hypothesis.given(
    aggregates=strategies.dictionaries(strategies.sampled_from("vwxyz"), HOST_NAMES),
    members=strategies.dictionaries(strategies.sampled_from("vwxyz"), MEMBERS),
    narrowed=HOST_NAMES,
    prune=strategies.booleans(),
)
def test_planning_after_applying_plans_nothing(
    aggregates: dict[str, set[str]], members: dict[str, set[str]], narrowed: set[str], prune: bool
) -> None:
    snapshot = cloud(
        {name: " ".join(sorted(hosts)) for name, hosts in aggregates.items()},
        {name: " ".join(uuids) for name, uuids in members.items()},
    )
    request = MirrorRequest(prune=prune, hosts=frozenset(narrowed))
    made = mirror.decide_mirror(snapshot, request)
    after = {uuid: set(there) for uuid, there in snapshot.members.items()}
    for item in made.changes:
        for uuid, present in plans.after(item).items():
            (after[uuid].add if present else after[uuid].remove)(item.subject.uuid)
    applied = dataclasses.replace(
        snapshot, members={uuid: frozenset(there) for uuid, there in after.items()}
    )
    assert mirror.decide_mirror(applied, request).changes == ()


def run(
    client: embedded.Client,
    nova: FakeNova,
    request: mirror.MirrorRequest | None = None,
    **options: Any,
) -> result.RunReport:
    planned = mirror.plan_mirror(
        client, nova, request or mirror.MirrorRequest(prune=True), ReadContext()
    )
    how = apply.Options(check_precondition=preconditions.NovaPreconditions(nova), **options)
    return plans.apply_new(client, planned, "placement aggregate mirror", how)


@pytest.mark.parametrize("changed", [0, 1, 40])
def test_a_run_sends_one_request_per_aggregate_and_two_per_change(changed: int) -> None:
    client, nova = host_aggregates.cloud(50)
    run(client, nova)
    for number in range(changed):
        client.stored(f"h{number}.").set_aggregates()
    client.sent.clear()
    nova.requests.clear()
    run(client, nova)
    assert client.writes == changed
    path = "/resource_providers/{}/aggregates"
    assert client.count() == collections.Counter(
        {
            "GET /resource_providers": 1 + len(nova.aggregates),
            f"GET {path}": changed,
            f"PUT {path}": changed,
        }
    )
    assert len(nova.requests) == 4


def test_a_host_added_while_placement_is_read_is_not_removed() -> None:
    client, nova = host_aggregates.cloud()
    run(client, nova)
    joined = embedded.uuid_of("even")

    def join(request: embedded.Request) -> None:
        if "h1" not in nova.aggregates["even"]:
            nova.aggregates["even"].append("h1")
            client.stored("h1.").add_aggregates(joined)

    client.before(join)
    run(client, nova)
    assert "h1." in members(client, "even")


def test_a_deleted_aggregate_is_pruned_by_its_uuid() -> None:
    client, nova = host_aggregates.cloud()
    gone = embedded.uuid_of("gone")
    client.stored("h1.").set_aggregates(gone)
    run(client, nova)
    assert members(client, "gone") == ["h1."]
    run(client, nova, mirror.MirrorRequest(forget=(gone.upper(),)))
    assert members(client, "gone") == []


@pytest.mark.parametrize(
    ("invalid", "message"),
    [
        (mirror.MirrorRequest(hosts=("unknown-host",)), "no compute host 'unknown-host'"),
        (
            mirror.MirrorRequest(host_aggregates=("rack",)),
            "no nova host aggregate has the name or id 'rack'",
        ),
        (
            mirror.MirrorRequest(host_aggregates=("1", "all", "2", "twin")),
            "2 nova host aggregates have",
        ),
        (mirror.MirrorRequest(prune=True, providers=("unknown-host",)), "No resource provider"),
        (mirror.MirrorRequest(providers=("h1.",)), "needs --prune or --forget"),
        (mirror.MirrorRequest(forget=("even",)), "not the UUID"),
        (
            mirror.MirrorRequest(forget=(embedded.uuid_of("even"),)),
            "still has this host aggregate, 'even'",
        ),
    ],
)
def test_an_invalid_request_is_an_error(invalid: mirror.MirrorRequest, message: str) -> None:
    client, nova = host_aggregates.cloud()
    nova.aggregates["3"] = nova.aggregates["twin"] = []
    nova.aggregates["2"] = []
    with pytest.raises(errors.InvalidInput, match=message):
        run(client, nova, invalid)
    assert len(client.sent) == 1


def test_all_errors_of_a_request_are_reported() -> None:
    with pytest.raises(errors.InvalidInput) as caught:
        run(
            *host_aggregates.cloud(),
            mirror.MirrorRequest(hosts=("x",), host_aggregates=("y",), forget=("z",)),
        )
    assert len(caught.value.reasons) == 3


def test_names_ids_and_uuids_select() -> None:
    for word in ("even", "2", embedded.uuid_of("even").upper()):
        client, nova = host_aggregates.cloud()
        run(client, nova, mirror.MirrorRequest(host_aggregates=(word,), hosts=("h0", "h1")))
        assert (members(client, "even"), members(client, "all")) == (["h0."], [])
        assert client.count()["GET /resource_providers"] == 2


def test_all_missing_permissions_are_reported_before_any_write(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    client, nova = host_aggregates.cloud()
    nova.forbidden = {"/os-aggregates", "/os-services"}
    text = "Access was denied\n\n Policy does not allow placement:resource_providers:list to be"
    client.before(embedded.refuse(403, text))
    with pytest.raises(errors.InvalidInput) as caught:
        run(client, nova)
    # Each service is named once, and each rule in the log.
    for reason, service in zip(caught.value.reasons, ("nova", "placement"), strict=True):
        assert f"missing permission in {service}" in reason
    for rule in (
        "os_compute_api:os-aggregates:index",
        "os_compute_api:os-services:index",
        "placement:resource_providers:list",
    ):
        assert rule in caplog.text
    assert client.writes == 0
