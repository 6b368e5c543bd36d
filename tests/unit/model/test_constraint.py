# SPDX-License-Identifier: Apache-2.0
"""The constraints of a query."""

from __future__ import annotations

import random

import pytest

from osc_placement.model import constraint
from osc_placement.model.constraint import Constraint, Kind
from tests.support.candidates import clouds, random_queries

QUERY = clouds.query(
    clouds.group(VCPU=2, DISK_GB=5, required="A B|C", forbidden="D", member_of="x|y"),
    clouds.group("_G", VGPU=1, in_tree="root", not_member_of="z w"),
    clouds.group("_H", required="N"),
    isolate=True,
    same_subtree=(frozenset({"_G", "_H"}),),
    root_required=frozenset({"R"}),
    root_forbidden=frozenset({"S"}),
)

#: The kinds of constraints between groups.
BETWEEN = {Kind.ISOLATE, Kind.SAME_SUBTREE}


def test_each_constraint_is_a_parameter_of_the_query() -> None:
    assert [str(condition) for condition in constraint.constraints_of(QUERY)] == [
        "resources=VCPU:2",
        "resources=DISK_GB:5",
        "resources_G=VGPU:1",
        "required=A",
        "required=in:B,C",
        "required=!D",
        "member_of=in:x,y",
        "member_of_G=!w",
        "member_of_G=!z",
        "in_tree_G=root",
        "required_H=N",
        "root_required=R",
        "root_required=!S",
        "group_policy=isolate",
        "same_subtree=_G,_H",
    ]


@pytest.mark.seeds(100, long=1000)
def test_a_query_without_a_constraint_has_the_others(seed: int) -> None:
    draw = random.Random(seed)
    base = clouds.draw_state(draw)
    query = random_queries.draw_query(draw, base, random_queries.draw_version(draw))
    conditions = constraint.constraints_of(query)
    assert constraint.without(query, []) == query
    for removed in conditions:
        left = constraint.constraints_of(constraint.without(query, [removed]))
        assert removed not in left
        lost = set(conditions) - set(left)
        # A group that is removed loses its other conditions, and its place between groups.
        assert {each.suffix for each in lost if each.kind not in BETWEEN} <= {removed.suffix}
        if len(constraint.without(query, [removed]).groups) == len(query.groups):
            assert lost == {removed}


def test_a_group_goes_with_its_last_resources() -> None:
    gone = constraint.without(QUERY, [Constraint(Kind.RESOURCES, "_G", ("VGPU",), 1)])
    assert [group.suffix for group in gone.groups] == ["", "_H"]
    assert gone.same_subtree == (frozenset({"_H"}),)


def test_an_amount_is_replaced_and_zero_removes_it() -> None:
    vcpu = Constraint(Kind.RESOURCES, "", ("VCPU",), 2)
    assert constraint.with_amount(QUERY, vcpu, 1).groups[0].resources == {"VCPU": 1, "DISK_GB": 5}
    assert constraint.with_amount(QUERY, vcpu, 0).groups[0].resources == {"DISK_GB": 5}
