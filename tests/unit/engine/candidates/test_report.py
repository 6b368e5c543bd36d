# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import pytest

from osc_placement.engine.candidates import forest as forests, plans, report as reports
from osc_placement.engine.candidates.report import Refusal, RefusalReason
from osc_placement.model.inventory import Inventory
from tests.support.candidates.clouds import cloud, group, provider, query


class Recorder:
    """Why the providers and trees of a cloud do not serve a query."""

    def __init__(self, base, query) -> None:
        self.providers = {}
        self.trees = {}
        plan = plans.prepare(base, query)
        for item in base.providers.values():
            for slot in plan.slots:
                refusals = reports.provider_refusals(base, slot, item)
                if refusals:
                    only = None if slot.group.suffix else next(iter(slot.resources), None)
                    self.provider_dropped(slot.group.suffix, only, item.uuid, refusals)
        forest = forests.Forest(base, plan)
        for root_uuid in dict.fromkeys(each.root_uuid for each in base.providers.values()):
            refusals = reports.tree_refusals(forest, root_uuid)
            if refusals:
                self.trees[root_uuid] = list(refusals)

    def provider_dropped(self, suffix, resource_class, uuid, refusals):
        self.providers.setdefault(uuid, []).append((suffix, resource_class, *refusals))


def reported(base, *groups, **binding) -> Recorder:
    return Recorder(base, query(*groups, **binding))


def test_a_provider_is_dropped_with_every_failed_condition():
    base = cloud(
        provider("full", VCPU=4, traits="SLOW", aggregates="A"), used={"full": {"VCPU": 3}}
    )
    request_group = group("_A", VCPU=2, required="FAST|QUICK", forbidden="SLOW", member_of="B")
    assert reported(base, request_group).providers == {
        "full": [
            (
                "_A",
                None,
                Refusal(RefusalReason.CAPACITY, ("VCPU",), requested=2),
                Refusal(RefusalReason.REQUIRED, ("FAST", "QUICK")),
                Refusal(RefusalReason.FORBIDDEN, ("SLOW",)),
                Refusal(RefusalReason.MEMBER_OF, ("B",)),
            )
        ]
    }


@pytest.mark.parametrize(
    ("inventory", "reason"),
    [
        (Inventory(8, min_unit=4), RefusalReason.MIN_UNIT),
        (Inventory(8, max_unit=2), RefusalReason.MAX_UNIT),
        (Inventory(8, step_size=2), RefusalReason.STEP_SIZE),
        (Inventory(8, reserved=6), RefusalReason.CAPACITY),
        (Inventory(8, reserved=8), RefusalReason.CAPACITY),
    ],
)
def test_refusals_have_the_requested_amount(inventory: Inventory, reason: RefusalReason):
    base = cloud(provider("host", VCPU=inventory))
    assert reported(base, group("_A", VCPU=3)).providers == {
        "host": [("_A", None, Refusal(reason, ("VCPU",), requested=3))]
    }


def test_each_class_of_the_unsuffixed_group_is_reported_separately():
    base = cloud(provider("host", VCPU=4))
    listener = reported(base, group(VCPU=1, DISK_GB=5))
    assert listener.providers == {
        "host": [("", "DISK_GB", Refusal(RefusalReason.NO_INVENTORY, ("DISK_GB",), requested=5))]
    }
    assert listener.trees == {"host": [Refusal(RefusalReason.NO_PROVIDER, ("", "DISK_GB"))]}


def test_excluded_aggregates_and_trees_are_named():
    base = cloud(provider("host", VCPU=4, aggregates="A B"), provider("other", VCPU=4))
    request_group = group("_A", VCPU=1, not_member_of="B C", in_tree="other")
    assert reported(base, request_group).providers == {
        "host": [
            (
                "_A",
                None,
                Refusal(RefusalReason.FORBIDDEN_AGGREGATE, ("B",)),
                Refusal(RefusalReason.IN_TREE, ("other",)),
            )
        ]
    }


def test_a_tree_is_dropped_for_the_traits_of_its_root():
    base = cloud(provider("host", VCPU=4, traits="T"))
    listener = reported(
        base, group(VCPU=1), root_required=frozenset({"A", "B"}), root_forbidden=frozenset({"T"})
    )
    assert listener.trees == {
        "host": [
            Refusal(RefusalReason.ROOT_REQUIRED, ("A",)),
            Refusal(RefusalReason.ROOT_REQUIRED, ("B",)),
            Refusal(RefusalReason.ROOT_FORBIDDEN, ("T",)),
        ]
    }


TREE = (
    provider("host", DISK_GB=9),
    provider("numa0", "host", VCPU=4, VGPU=1, traits="N"),
    provider("numa1", "host", VCPU=1, traits="T"),
)


@pytest.mark.parametrize(
    ("groups", "binding", "reason"),
    [
        ((group("_A", VCPU=2), group("_B", VCPU=2)), {"isolate": True}, RefusalReason.ISOLATE),
        ((group("_A", VCPU=3), group("_B", VCPU=3)), {}, RefusalReason.COMBINED_CAPACITY),
        (
            (group("_A", VGPU=1), group("_B", VCPU=1, required="T")),
            {"same_subtree": (frozenset({"_A", "_B"}),)},
            RefusalReason.SAME_SUBTREE,
        ),
        ((group(DISK_GB=1, VCPU=1),), {"nested": False}, RefusalReason.NOT_NESTED),
        ((group(VCPU=1, DISK_GB=1, required="N T"),), {}, RefusalReason.GROUP_REQUIRED),
    ],
)
def test_a_conflict_between_groups_is_reported_with_its_condition(groups, binding, reason):
    assert reported(cloud(*TREE), *groups, **binding).trees == {"host": [Refusal(reason)]}


def test_a_conflict_of_several_conditions_is_reported_as_combination():
    groups = (group("_A", VCPU=3), group("_B", VCPU=3))
    assert reported(cloud(*TREE), *groups, isolate=True).trees == {
        "host": [Refusal(RefusalReason.COMBINATION)]
    }


def test_refusals_of_one_provider_need_no_search():
    base = cloud(*TREE)
    slots = plans.prepare(base, query(group("_A", VCPU=4))).slots
    refusals = {
        provider.uuid: reports.provider_refusals(base, slots[0], provider)
        for provider in base.providers.values()
    }
    assert refusals == {
        "host": [Refusal(RefusalReason.NO_INVENTORY, ("VCPU",), requested=4)],
        "numa0": [],
        "numa1": [Refusal(RefusalReason.CAPACITY, ("VCPU",), requested=4)],
    }
