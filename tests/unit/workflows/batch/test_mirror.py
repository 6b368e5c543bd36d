# SPDX-License-Identifier: Apache-2.0
"""The mirror: plans of small clouds as lines; requests, errors, missing permissions."""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Mapping
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies

from osc_placement import errors, testing
from osc_placement.nova import api as nova_api
from osc_placement.plan import apply, change, plan, result
from osc_placement.plan.kinds import memberships
from osc_placement.testing import nova as nova_kit, uuid_of
from osc_placement.workflows.batch import mirror
from osc_placement.workflows.batch.mirror import MirrorRequest
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.repair.allocations import preconditions
from tests.support import embedded, host_aggregates, plans
from tests.support.host_aggregates import FakeNova, members

#: ``{node: its host}``; ``bm`` has two ironic nodes. The host ``idle`` has a service and no node.
NODES = {"a.": "a", "b.": "b", "c.": "c", "bm1.": "bm", "bm2.": "bm"}
PROVIDERS = {**dict.fromkeys(NODES), "a._gpu": "a.", "segment": None, "nfs": None}
AGGREGATES = {uuid_of(name): name for name in ("az", "ssd", "rack", "bare", "old", "older")}


def cloud(
    aggregates: Mapping[str, str],
    members: Mapping[str, str] | None = None,
    lacks: str = "",
    nodes: Mapping[str, str] | None = None,
) -> testing.Cloud:
    """Host aggregates as ``{name: "host host"}``, those of Placement as ``{name: "provider"}``.

    Placement lacks some providers; the provider of some nodes has another name.
    """
    made = testing.Cloud()
    for name, parent in PROVIDERS.items():
        inside = [key for key, listed in (members or {}).items() if name in listed.split()]
        if name not in lacks.split():
            made.host(name, parent=parent, aggregates=inside)
    for node, host in NODES.items():
        made.node(node, host, id=uuid_of((nodes or {}).get(node, node)))
    for name, hosts in aggregates.items():
        made.aggregate(name, hosts.split())
    return made


class Recorded(nova_api.RecordedNova):
    """A nova in which somebody deletes host aggregates after the first listing.

    ``is_old``: it does not have the version that shows which cells are down.
    """

    def __init__(self, made: testing.Cloud, deleted: str = "", *, is_old: bool = False) -> None:
        super().__init__(answers := made.nova(), "")
        answers["GET /v2.1/os-services"]["services"].append(nova_kit.service("idle"))
        self._deleted, self._is_old = deleted.split(), is_old
        self._left = list(answers["GET /v2.1/os-aggregates"]["aggregates"])
        for number, name in enumerate(self._deleted, 90):
            gone = nova_kit.aggregate(number, name, uuid_of(name), ())
            answers["GET /v2.1/os-aggregates"]["aggregates"].append(gone)

    def ask(self, path: str, version: str) -> Any:
        if self._is_old and version == "2.69":
            raise nova_api.NovaRefused(406, "too new", url=path)
        body = super().ask(path, version)
        if path == "/os-aggregates":
            self.recorded = {**self.recorded, "GET /v2.1/os-aggregates": {"aggregates": self._left}}
        return body


def read(made: testing.Cloud, request: MirrorRequest, **nova: Any) -> mirror.MirrorReading:
    client = testing.InProcessPlacement(load=made).start().client()
    return mirror.read_cloud(client, Recorded(made, **nova), request)


def decided(made: testing.Cloud, request: MirrorRequest, **nova: Any) -> plan.Plan:
    return mirror.decide_mirror(*read(made, request, **nova))


def lines(made: plan.Plan) -> list[str]:
    """A plan in lines: ``+az`` adds, ``-az`` removes, ``(...)`` is skipped."""
    lines = []
    for item in made.items():
        facts = " ".join(
            f"{'+' if present else '-'}{AGGREGATES[uuid]}"
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
TWO = {"az": "a b", "ssd": "a"}
OLD = frozenset({uuid_of("old")})


def down(made: testing.Cloud) -> testing.Cloud:
    """The cell of ``far`` is down."""
    return made.node("far.", "far").cell_down("far.")


def pruned(*providers: str, **fields: Any) -> MirrorRequest:
    return MirrorRequest(prune=True, providers=frozenset(providers), **fields)


RENAMED = {"a.": "renamed"}
#: A cloud, a request, the plan, and how nova is.
PLANS: dict[str, tuple[testing.Cloud, MirrorRequest, list[str], dict[str, Any]]] = {
    "no aggregates": (cloud({}), ALL, [], {}),
    "an aggregate without hosts": (cloud({"az": ""}), ALL, ["az ()"], {}),
    "one change per provider": (cloud(TWO), ALL, ["a. +az +ssd", "b. +az"], {}),
    "nothing to do": (
        cloud(TWO, {"az": "a. b.", "ssd": "a."}), PRUNE, ["a. = +az +ssd", "b. = +az"], {}),
    "only what is lacking": (cloud(TWO, {"az": "a."}), ALL, ["a. +ssd", "b. +az"], {}),
    "stale members are reported": (
        cloud(TWO, {"az": "a. b. c.", "ssd": "a. b."}), ALL,
        ["a. = +az +ssd", "b. (-ssd)", "c. (-az)"], {}),
    "and pruned on request, in the same change": (
        cloud(TWO, {"az": "a. c.", "ssd": "a. b."}), PRUNE,
        ["a. = +az +ssd", "b. +az -ssd", "c. -az"], {}),
    "an aggregate that lost its hosts is emptied": (
        cloud({"az": "", "rack": "a"}, {"az": "a.", "rack": "a."}), PRUNE,
        ["a. -az", "az ()"], {}),
    "all nodes of a host": (cloud({"bare": "bm"}), ALL, ["bm1. +bare", "bm2. +bare"], {}),
    "hosts without a node do not stop others": (
        cloud({"az": "a ghost idle"}), ALL, ["a. +az", "ghost (+az)!", "idle (+az)!"], {}),
    "a node without a provider does not stop others": (
        cloud(TWO, lacks="a. a._gpu"), ALL, ["a. (+az +ssd)!", "b. +az"], {}),
    "a provider of another UUID is found by its name": (
        cloud(TWO, nodes=RENAMED), ALL, ["a. +az +ssd", "b. +az"], {}),
    "but such a one is not pruned": (
        cloud({"az": "b"}, {"az": "a."}, nodes=RENAMED).host("renamed"), PRUNE,
        ["a. (-az)", "b. +az"], {}),
    "a child is not taken for the node of its name": (
        cloud({"az": "a"}, lacks="a. a._gpu", nodes=RENAMED).child("b.", "a."), ALL,
        ["a. (+az)!"], {}),
    "a provider without compute node is not pruned": (
        cloud({"az": "a"}, {"az": "a. segment nfs a._gpu"}), PRUNE,
        ["a. = +az", "a._gpu (-az)", "nfs (-az)", "segment (-az)"], {}),
    "unless it is named": (
        cloud({"az": "a"}, {"az": "a. segment nfs"}), pruned("segment"),
        ["a. = +az", "nfs (-az)", "segment -az"], {}),
    "not even then while a cell is down": (
        down(cloud({"az": "a far"}, {"az": "a. segment"})), pruned("segment"),
        ["a. = +az", "far (+az)!", "segment (-az)!"], {}),
    "nor where nova would not tell whether one is": (
        cloud({"az": "a ghost", "ssd": "a"}, {"az": "segment", "ssd": "nfs"}),
        pruned("segment", "nfs"),
        ["a. +az +ssd", "ghost (+az)!", "nfs -ssd", "segment (-az)!"], {"is_old": True}),
    "one host": (
        cloud(TWO, {"az": "c.", "ssd": "b. nfs"}), pruned(hosts=frozenset({"b"})),
        ["b. +az -ssd"], {}),
    "hosts in no aggregate": (
        cloud(TWO, {"az": "c."}), pruned(hosts=frozenset({"c", "bm"})),
        ["bm ()", "c ()", "c. -az"], {}),
    "one aggregate": (
        cloud(TWO, {"az": "c.", "ssd": "b."}), pruned(host_aggregates=frozenset({"ssd"})),
        ["a. +ssd", "b. -ssd"], {}),
    "a deleted aggregate is reported": (
        cloud({"az": "a"}, {"old": "a. b. nfs"}), ALL,
        ["a. +az", "a. (-old)", "b. (-old)", "nfs (-old)"], {"deleted": "old"}),
    "and pruned": (
        cloud({"az": "a"}, {"old": "a. b. nfs"}), PRUNE,
        ["a. +az -old", "b. -old", "nfs (-old)"], {"deleted": "old"}),
    "forgetting takes out of that one alone": (
        cloud({"az": "a"}, {"az": "b.", "old": "b.", "older": "c."}), MirrorRequest(forget=OLD),
        ["a. +az", "b. -old", "b. (-az)", "c. (-older)"], {"deleted": "older"}),
    "a narrowed run passes over other deleted ones": (
        cloud({"az": "a"}, {"old": "b.", "older": "c."}),
        MirrorRequest(forget=OLD, host_aggregates=frozenset({"az"})),
        ["a. +az", "b. -old"], {"deleted": "older"}),
}  # fmt: skip


@pytest.mark.parametrize(("made", "request_", "expected", "nova"), PLANS.values(), ids=PLANS)
def test_the_plan_of(
    made: testing.Cloud, request_: MirrorRequest, expected: list[str], nova: dict[str, Any]
) -> None:
    reading = read(made, request_, **nova)
    planned = mirror.decide_mirror(*reading)
    assert lines(planned) == expected
    assert planned == mirror.decide_mirror(*reading)


def test_a_member_that_the_provider_list_does_not_have_is_passed_over() -> None:
    """It was created after the list was read."""
    snapshot, request = read(down(cloud({"az": "a"}, {"az": "b."})), PRUNE)
    members = {uuid_of("az"): frozenset(map(uuid_of, ("b.", "created")))}
    made = mirror.decide_mirror(dataclasses.replace(snapshot, members=members), request)
    assert lines(made) == ["a. +az", "b. -az"]


def test_a_change_has_its_facts_and_its_reason() -> None:
    (made, _) = decided(cloud(TWO, {"ssd": "b."}), PRUNE).changes[::-1]
    az, ssd = uuid_of("az"), uuid_of("ssd")
    assert made == change.Change(
        "aggregates",
        change.Subject("b.", uuid_of("b.")),
        memberships.Aggregates({az: False, ssd: True}),
        memberships.Aggregates({az: True, ssd: False}),
        generation=0,
        reason="to az; out of ssd",
        precondition=change.Precondition(
            aggregates=change.AggregatesState("b", {az: True, ssd: False}, {})
        ),
    )


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (cloud({"az": "ghost"}), "nor a compute service of this host"),
        (cloud({"az": "idle"}), "but no compute node"),
        (down(cloud({"az": "far"})), "its cell is down"),
        (down(cloud({"az": "ghost"})), r"the cell of far is down"),
        (cloud({"az": "a"}, lacks="a. a._gpu"), "nova-compute on a creates one"),
        (
            cloud({"az": "twin"}).node("a.", "twin", id=uuid_of("twin")),
            "the compute node of a has this name too",
        ),
        (cloud({"az": ""}), "no hosts"),
        (cloud({"az": ""}, {"az": "a."}), "its host is not in it: --prune"),
        (cloud({"az": ""}, {"az": "nfs"}), "not a compute node of nova: --prune --provider"),
        (cloud({"az": ""}, {"az": "a."}, nodes=RENAMED).host("renamed"), "another UUID"),
    ],
)
def test_a_skipped_change_has_its_reason(made: testing.Cloud, reason: str) -> None:
    reasons = [item.reason for item in decided(made, ALL).skipped]
    assert re.search(reason, "; ".join(reasons))


def test_a_deleted_aggregate_is_forgotten_by_its_uuid() -> None:
    (skipped,) = decided(cloud({}, {"old": "a."}), ALL, deleted="old").skipped
    assert f"in old, but nova has deleted it: --forget {uuid_of('old')}" in skipped.reason


def test_the_reason_names_the_option_that_a_forgotten_aggregate_needs() -> None:
    (skipped,) = decided(cloud({}, {"old": "nfs"}), MirrorRequest(forget=OLD)).skipped
    why = "it is not a compute node of nova: --provider removes it"
    assert skipped.reason == f"in {uuid_of('old')}, but {why}"


def test_only_stale_compute_nodes_are_counted() -> None:
    snapshot, _ = read(cloud({"az": "a ghost"}, {"az": "a. b. c. nfs"}), ALL)
    for request, count in ((ALL, 2), (PRUNE, 0)):
        skipped = mirror.decide_mirror(snapshot, request).skipped
        assert sum(map(mirror.is_stale, skipped)) == count


HOST_NAMES = ["a", "b", "c", "bm", "idle"]
MEMBERS = strategies.sets(strategies.sampled_from([*PROVIDERS]))
NAMES = strategies.sampled_from([*AGGREGATES.values()])


@hypothesis.given(
    aggregates=strategies.dictionaries(
        NAMES, strategies.sets(strategies.sampled_from([*HOST_NAMES, "ghost"]))
    ),
    members=strategies.dictionaries(NAMES, MEMBERS),
    narrowed=strategies.sets(strategies.sampled_from(HOST_NAMES)),
    prune=strategies.booleans(),
)
def test_planning_after_applying_plans_nothing(
    aggregates: dict[str, set[str]], members: dict[str, set[str]], narrowed: set[str], prune: bool
) -> None:
    made_of = (
        {name: " ".join(sorted(inside)) for name, inside in listed.items()}
        for listed in (aggregates, members)
    )
    narrow = MirrorRequest(prune=prune, hosts=frozenset(narrowed))
    snapshot, request = read(cloud(*made_of), narrow)
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
