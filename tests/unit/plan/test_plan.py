from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from osc_placement.plan import change, plan, undo
from osc_placement.workflows.batch import membership, trait
from tests.support import fake_placement

KEYS = st.text('ABCDEFGHIJ_:é\n"', min_size=1, max_size=8)
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False)
)
FACTS = st.dictionaries(KEYS, st.tuples(VALUES, VALUES), max_size=3)
SUBJECTS = st.builds(change.Subject, st.text(max_size=5), st.text(max_size=5))


@st.composite
def changes(draw: st.DrawFn) -> change.Change:
    facts = draw(FACTS)
    return change.Change(
        draw(st.sampled_from(sorted(change.ABSENT))),
        draw(SUBJECTS),
        {key: pair[0] for key, pair in facts.items()},
        {key: pair[1] for key, pair in facts.items()},
        draw(st.none() | st.integers(0)),
        draw(st.text(max_size=5)),
        draw(st.integers(-1, 1)),
    )


REMARKS = st.builds(
    change.Skipped,
    st.sampled_from(sorted(change.ABSENT)),
    SUBJECTS,
    st.dictionaries(KEYS, VALUES, max_size=2),
    st.dictionaries(KEYS, VALUES, max_size=2),
    st.text(max_size=5),
    st.booleans(),
    st.booleans(),
)
PLANS = st.builds(
    plan.make,
    st.lists(st.one_of(changes(), REMARKS), max_size=4),
    command=st.text(max_size=9),
    target=st.text(max_size=9),
    relative=st.booleans(),
    allow=st.lists(st.text(max_size=3), max_size=2).map(tuple),
    notes=st.lists(st.text(max_size=3), max_size=2).map(tuple),
    capacities=st.dictionaries(
        KEYS, st.builds(plan.Capacity, st.integers(), st.integers()), max_size=2
    ),
)


@given(PLANS)
def test_a_plan_reads_back_as_it_was_written(made: plan.Plan) -> None:
    again = plan.from_json(made.to_json())
    assert again == made
    assert again.digest == made.digest
    assert again.to_json() == made.to_json()


@given(PLANS)
def test_undoing_an_undo_is_the_plan_again(made: plan.Plan) -> None:
    twice = undo.inverse(undo.inverse(made))
    assert sorted((item.key, str(item.before)) for item in twice.changes) == sorted(
        (item.key, str(item.before)) for item in made.changes
    )


def some() -> plan.Plan:
    return plan.make(
        [
            change.Change(
                change.TRAITS, change.Subject("h", "u"), {"CUSTOM_A": False}, {"CUSTOM_A": True}, 3
            )
        ],
        target="here",
    )


def test_an_edited_plan_is_refused() -> None:
    text = some().to_json().replace('"CUSTOM_A": true', '"CUSTOM_A": false')
    with pytest.raises(plan.PlanRefused, match="edited or damaged"):
        plan.from_json(text)


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", "{", '{"format_version": 1}', "\x00"])
def test_what_is_no_plan_is_refused(text: str) -> None:
    with pytest.raises(plan.PlanRefused, match="no plan"):
        plan.from_json(text)


@given(st.integers(0, 700))
def test_a_plan_cut_short_is_refused(length: int) -> None:
    text = some().to_json()
    if length < len(text) - 1:
        with pytest.raises(plan.PlanRefused):
            plan.from_json(text[:length])


def test_a_newer_plan_is_refused_by_its_version() -> None:
    document = json.loads(some().to_json())
    document["format_version"] = 2
    with pytest.raises(plan.PlanRefused, match="format version 2"):
        plan.from_json(json.dumps(document))


@pytest.mark.parametrize(
    "fields", [{"kind": "unheard_of"}, {"before": {}}, {"subject": "me"}, {"extra": 1}]
)
def test_a_change_that_makes_no_sense_is_refused(fields: dict[str, object]) -> None:
    document = json.loads(some().to_json())
    document["changes"][0].update(fields)
    with pytest.raises(plan.PlanRefused, match="damaged"):
        plan.from_json(json.dumps(document))


def test_a_plan_of_another_cloud_is_refused() -> None:
    plan.check_target(some(), "here")
    plan.check_target(some(), "a snapshot", origin="here")
    plan.check_target(some(), "here (cloud as-another-operator-calls-it)")
    with pytest.raises(plan.PlanRefused, match="made for here, this is there"):
        plan.check_target(some(), "there")


def test_the_same_input_makes_the_same_plan_in_the_same_order() -> None:
    seen = [
        membership.Observed(one, 1, {"CUSTOM_A": index % 2 == 0})
        for index, one in enumerate(
            fake_placement.FakeClient(fake_placement.hosts(9)).list_providers()
        )
    ]
    request = membership.Request(add=("CUSTOM_A",))
    assert trait.plan_traits(seen, request) == trait.plan_traits(seen[::-1], request)


def test_what_cannot_be_taken_back_is_left_alone_with_the_reason() -> None:
    made = some()
    made = made.replace(changes=(made.changes[0].replace(irreversible="nobody knows how"),))
    inverse = undo.inverse(plan.from_json(made.to_json()))
    assert not inverse.changes
    assert "nobody knows how" in inverse.remarks[0].reason


@pytest.mark.parametrize(
    ("kind", "facts", "text"),
    [
        (
            change.INVENTORIES,
            {"VCPU:total": 4, "VCPU:allocation_ratio": 4.0},
            "VCPU:total=4, VCPU:allocation_ratio=4.0",
        ),
        (change.TRAITS, {"CUSTOM_A": True, "CUSTOM_B": False}, "CUSTOM_A, no CUSTOM_B"),
        (change.INVENTORIES, {"VCPU:total": None, "VCPU:reserved": None}, "no VCPU"),
        (change.TRAITS, {}, ""),
        (
            change.ALLOCATIONS,
            {"p1:VCPU": 2, "p2:DISK_GB": 5, "p3:VCPU": None, "project_id": "acme"},
            "cmp1:VCPU=2, p2:DISK_GB=5, project_id=acme",
        ),
        (change.ALLOCATIONS, {"p1:VCPU": None}, "nothing"),
    ],
)
def test_facts_read_like_what_an_operator_writes(kind: str, facts: change.Facts, text: str) -> None:
    assert change.describe(kind, facts, names={"p1": "cmp1"}) == text
