# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from osc_placement.client import transport
from osc_placement.model import inventory as model
from osc_placement.plan import apply, change, plan, reasons
from osc_placement.plan.kinds import allocations, base, inventories, memberships, provider, reshape
from osc_placement.workflows.batch import batch
from tests.support import embedded, plans

TEXTS = st.text('ABCDEFGHIJ_:é\n"', min_size=1, max_size=8)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
SUBJECTS = st.builds(change.Subject, st.text(max_size=5), st.text(max_size=5))


def small(keys: st.SearchStrategy[Any], values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(keys, values, max_size=2)


AMOUNTS = small(TEXTS, small(TEXTS, st.integers(1, 9)))
INVENTORY = st.builds(model.Inventory, total=st.integers(1, 9))
OPTIONAL = st.none() | TEXTS
CONSUMER = {"project_id": OPTIONAL, "user_id": OPTIONAL, "consumer_type": OPTIONAL}

#: ``{kind: its states}``
STATES: dict[str, st.SearchStrategy[Any]] = {
    "inventories": st.builds(
        inventories.InventoryState, small(TEXTS, st.none() | small(TEXTS, NUMBERS))
    ),
    "traits": st.builds(memberships.Traits, small(TEXTS, st.booleans())),
    "aggregates": st.builds(memberships.Aggregates, small(TEXTS, st.booleans())),
    "trait": st.builds(memberships.Existence, small(TEXTS, st.booleans())),
    "provider": st.builds(provider.ProviderState, OPTIONAL, OPTIONAL)
    | st.builds(provider.ProviderState, name=TEXTS),
    "allocations": st.builds(allocations.ConsumerState, AMOUNTS, **CONSUMER),
    "bound allocations": st.builds(
        allocations.BoundState, AMOUNTS, **CONSUMER, ports=small(TEXTS, small(TEXTS, TEXTS))
    ),
    "reshape": st.builds(
        reshape.ReshapeState,
        small(TEXTS, small(TEXTS, st.none() | INVENTORY)),
        small(TEXTS, AMOUNTS),
        AMOUNTS,
    ),
}
PRECONDITIONS = st.none() | st.builds(
    change.Precondition,
    st.none()
    | st.builds(
        change.ServerState, OPTIONAL, OPTIONAL, OPTIONAL, OPTIONAL, small(TEXTS, st.integers(1, 9))
    ),
    st.booleans(),
)


@st.composite
def changes(draw: st.DrawFn) -> change.Change:
    kind = draw(st.sampled_from(sorted(STATES)))
    return change.Change(
        kind,
        draw(SUBJECTS),
        draw(STATES[kind]),
        draw(STATES[kind]),
        draw(st.none() | st.integers(0)),
        draw(st.text(max_size=5)),
        draw(st.integers(-1, 1)),
        precondition=draw(PRECONDITIONS),
        group=draw(st.text(max_size=5)),
        capacity=draw(small(TEXTS, st.integers())),
        over=tuple(draw(st.lists(TEXTS, max_size=2))),
    )


@st.composite
def skipped(draw: st.DrawFn) -> change.Skipped:
    kind = draw(st.sampled_from(sorted(STATES)))
    return change.Skipped(
        kind,
        draw(SUBJECTS),
        draw(st.none() | STATES[kind]),
        draw(st.none() | STATES[kind]),
        draw(st.text(max_size=5)),
        draw(st.sampled_from(reasons.Code)),
        unchanged=draw(st.booleans()),
        refused=draw(st.booleans()),
    )


PLANS = st.builds(
    plan.make,
    st.lists(st.one_of(changes(), skipped()), max_size=4),
    command=st.text(max_size=9),
    target=st.text(max_size=9),
    relative=st.booleans(),
    allow=st.lists(st.text(max_size=3), max_size=2).map(tuple),
    notes=st.lists(st.text(max_size=3), max_size=2).map(tuple),
    capacities=st.dictionaries(
        TEXTS, st.builds(plan.CapacityChange, st.integers(), st.integers()), max_size=2
    ),
)


@given(PLANS)
def test_a_plan_is_equal_after_writing_and_reading(stored: plan.Plan) -> None:
    again = plan.from_json(plans.text_of(stored))
    assert again == stored
    assert again.digest == stored.digest
    assert plans.text_of(again) == plans.text_of(stored)


@given(PLANS)
def test_the_inverse_of_the_inverse_has_the_same_changes(stored: plan.Plan) -> None:
    twice = apply.inverse_of(apply.inverse_of(stored))
    assert sorted((item.key, str(item.before)) for item in twice.changes) == sorted(
        (item.key, str(item.before)) for item in stored.changes
    )


@given(PLANS)
def test_the_digest_is_that_of_the_compact_document(stored: plan.Plan) -> None:
    document = json.loads(plans.text_of(stored))
    assert document.pop("digest") == stored.digest
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    assert stored.digest == f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def test_the_text_of_a_plan_is_created_item_by_item(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = some().json_parts()
    next(parts)
    monkeypatch.setattr(change.Change, "to_dict", lambda _: {"read": "late"})
    assert "late" in "".join(parts)


def some() -> plan.Plan:
    return plan.make(
        [
            change.Change(
                "traits",
                change.Subject("h", "u"),
                memberships.Traits({"CUSTOM_A": False}),
                memberships.Traits({"CUSTOM_A": True}),
                3,
            )
        ],
        target="here",
    )


def test_an_edited_plan_is_refused() -> None:
    text = plans.text_of(some()).replace('"CUSTOM_A": true', '"CUSTOM_A": false')
    with pytest.raises(plan.PlanRefused, match="edited or damaged"):
        plan.from_json(text)


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", "{", '{"format_version": 3}', "\x00"])
def test_other_files_are_refused(text: str) -> None:
    with pytest.raises(plan.PlanRefused, match="not a plan file"):
        plan.from_json(text)


@given(st.integers(0, 700))
def test_a_plan_cut_short_is_refused(length: int) -> None:
    text = plans.text_of(some())
    if length < len(text) - 1:
        with pytest.raises(plan.PlanRefused):
            plan.from_json(text[:length])


def test_another_format_version_is_refused() -> None:
    document = json.loads(plans.text_of(some()))
    document["format_version"] = 2
    with pytest.raises(plan.PlanRefused, match="format version 2"):
        plan.from_json(json.dumps(document))


@pytest.mark.parametrize(
    "fields", [{"kind": "unheard_of"}, {"before": {}}, {"subject": "me"}, {"extra": 1}]
)
def test_an_invalid_change_is_refused(fields: dict[str, object]) -> None:
    document = json.loads(plans.text_of(some()))
    document["changes"][0].update(fields)
    with pytest.raises(plan.PlanRefused, match="damaged"):
        plan.from_json(json.dumps(document))


def test_a_plan_of_another_cloud_is_refused() -> None:
    plan.check_target(some(), "here")
    plan.check_target(some(), "a snapshot", origin="here")
    with pytest.raises(plan.PlanRefused, match="made for here, this is there"):
        plan.check_target(some(), "there")


def made_for(target: transport.Target) -> plan.Plan:
    return dataclasses.replace(some(), target=str(target), identity=target.identity)


NAMES = ("", " (prod)", " (test)", " (cloud a)", " (cloud a, region b)", "(", " ((", ") (")
FILES = [transport.Target.local(f"/x{name}.sqlite") for name in NAMES] + [
    transport.Target.local(f"the database of /x{name}.conf") for name in NAMES
]
SERVICES = [
    transport.Target.service(f"{scheme}://h{number}/placement", None, region)
    for scheme in ("http", "https")
    for number in range(2)
    for region in ("one", "two")
]


@pytest.mark.parametrize("target", [*FILES, *SERVICES])
def test_a_plan_is_refused_on_every_target_but_its_own(target: transport.Target) -> None:
    stored = plan.from_json(plans.text_of(made_for(target)))
    plan.check_target(stored, target)
    for other in (*FILES, *SERVICES):
        if other.identity == target.identity:
            continue
        with pytest.raises(plan.PlanRefused, match="the plan was made for"):
            plan.check_target(stored, other)


def test_the_name_of_a_cloud_is_not_compared_but_the_region_is() -> None:
    def service(name: str, region: str) -> transport.Target:
        label = f"cloud {name}, region {region}" if region else f"cloud {name}"
        return transport.Target.service("http://p/placement/", label, region)

    stored = plan.from_json(plans.text_of(made_for(service("one (a), region x", "east"))))
    for region in ("east", ""):
        plan.check_target(stored, service("another", region))
    with pytest.raises(plan.PlanRefused):
        plan.check_target(stored, service("one", "west"))


def test_a_plan_of_a_snapshot_is_accepted_on_its_cloud_and_on_other_snapshots_of_it() -> None:
    rehearsed = dataclasses.replace(some(), target="a snapshot", origin="the cloud")
    assert plan.from_json(plans.text_of(rehearsed)) == rehearsed
    plan.check_target(rehearsed, "a snapshot", origin="the cloud")
    plan.check_target(rehearsed, "another snapshot", origin="the cloud")
    plan.check_target(rehearsed, "the cloud")
    for target, origin in (("there", ""), ("another snapshot", "another cloud")):
        with pytest.raises(plan.PlanRefused, match="made for a snapshot"):
            plan.check_target(rehearsed, target, origin)


def test_the_order_of_the_input_does_not_change_the_plan() -> None:
    seen = [
        batch.ChosenMembership(host, 1, {"CUSTOM_A": index % 2 == 0})
        for index, host in enumerate(embedded.Client(embedded.hosts(9)).list_providers())
    ]
    request = batch.MembershipRequest(add=("CUSTOM_A",))
    assert batch.decide_traits(seen, request) == batch.decide_traits(seen[::-1], request)


def test_an_irreversible_change_is_skipped_by_undo_with_its_reason() -> None:
    stored = some()
    item = dataclasses.replace(stored.changes[0], irreversible="no request does it")
    stored = dataclasses.replace(stored, changes=(item,))
    inverse = apply.inverse_of(plan.from_json(plans.text_of(stored)))
    assert not inverse.changes
    assert "no request does it" in inverse.skipped[0].reason


@pytest.mark.parametrize(
    ("kind", "state", "text"),
    [
        (
            inventories.TYPE,
            inventories.InventoryState({"VCPU": {"total": 4, "allocation_ratio": 4.0}}),
            "VCPU:total=4, VCPU:allocation_ratio=4.0",
        ),
        (
            memberships.TRAITS,
            memberships.Traits({"CUSTOM_A": True, "CUSTOM_B": False}),
            "CUSTOM_A, no CUSTOM_B",
        ),
        (memberships.TRAITS, memberships.Traits({}), ""),
        (
            allocations.TYPE,
            allocations.ConsumerState({"p1": {"VCPU": 2}, "p2": {"DISK_GB": 5}}, "acme"),
            "cmp1:VCPU=2, p2:DISK_GB=5, project_id=acme",
        ),
        (allocations.TYPE, allocations.ConsumerState(), "nothing"),
        (provider.TYPE, provider.ProviderState("gpu", "p1"), "name=gpu, parent=cmp1"),
        (provider.TYPE, provider.ABSENT, "no provider"),
    ],
)
def test_tables_show_states_as_operators_write_them(
    kind: base.ChangeType[Any], state: change.State, text: str
) -> None:
    facts = kind.facts(state, state, {"p1": "cmp1"})
    assert ", ".join(kind.describe(base.after_side(facts))) == text


def test_a_class_without_inventory_reads_as_one_fact() -> None:
    absent = inventories.InventoryState({"VCPU": None})
    present = inventories.InventoryState({"VCPU": {"total": 4, "reserved": 0}})
    facts = inventories.TYPE.facts(absent, present)
    assert [(fact.key, fact.before) for fact in facts] == [
        ("VCPU:total", None),
        ("VCPU:reserved", None),
    ]
    assert inventories.TYPE.describe(base.before_side(facts)) == ["no VCPU"]
