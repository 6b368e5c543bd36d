# SPDX-License-Identifier: Apache-2.0
"""A plan that removes too much of what exists is refused as a whole. Pure.

A policy rule, a filter or an unreachable cell that hides servers makes their allocations look
orphaned. No single change shows that; their number does.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Collection

from osc_placement.model import inventory
from osc_placement.plan import guards, reasons
from osc_placement.plan.kinds import registry
from osc_placement.plan.plan import CapacityChange, Plan

_TEXT = (
    "the plan removes {removed} of {existing} {unit}, and the limit is {limit}"
    f" (--allow {guards.MANY} to do it anyway)"
)


def removals(plan: Plan) -> dict[str, int]:
    """``{unit: how many the plan removes}``, without units of which it removes none."""
    counts: collections.Counter[str] = collections.Counter()
    for item in plan.changes:
        kind = registry.CHANGE_TYPES[item.kind]
        if kind.unit:
            counts[kind.unit] += kind.removes(item.before, item.after)
    for name, capacity in plan.capacities.items():
        if _unit_of(name) in plan.existing:
            counts[_unit_of(name)] = max(capacity.before, 0) - max(capacity.after, 0)
    return dict(+counts)


def with_capacity(plan: Plan) -> Plan:
    """The plan with a limit for the capacity of each resource class.

    The capacity before and after are sums over the providers of the plan: what one provider loses
    and another gets is no removal.
    """
    capacities = {
        _unit_of(name): max(capacity.before, 0) for name, capacity in plan.capacities.items()
    }
    return dataclasses.replace(plan, existing={**plan.existing, **capacities})


def refusal_of_inventories(
    before: inventory.Inventories,
    after: inventory.Inventories,
    max_percent: int | None,
    allow: Collection[str],
) -> reasons.Reason:
    """Why one provider must not get the inventories ``after``; None as ``max_percent``: no limit.

    The classes that it has before and not after lose all of their capacity.
    """
    if max_percent is None:
        return reasons.NONE
    capacities = {
        name: CapacityChange(item.capacity, after[name].capacity if name in after else 0)
        for name, item in before.items()
    }
    plan = Plan((), capacities=capacities, max_percent=max_percent)
    return refusal(with_capacity(plan), allow)


def _unit_of(resource_class: str) -> str:
    return f"units of {resource_class} capacity"


def summary(plan: Plan) -> str:
    """The removals of a plan in one line, with the limit of those that have one."""
    parts = []
    for unit, count in removals(plan).items():
        existing = plan.existing.get(unit)
        if existing is None:
            parts.append(f"{count} {unit}")
        else:
            most = limit(existing, plan.max_percent)
            refused = ", refused" * (count > most and guards.MANY not in plan.allow)
            parts.append(f"{count} of {existing} {unit} (limit {most}{refused})")
    return ", ".join(parts)


def limit(existing: int, max_percent: int | None) -> int:
    """How many of ``existing`` objects a plan may remove; None is the default limit."""
    if max_percent is not None:
        return existing * max_percent // 100
    return max(existing * guards.MAX_PERCENT // 100, min(guards.SMALL, existing // 2))


def refusal(plan: Plan, allow: Collection[str] = ()) -> reasons.Reason:
    """Why the plan is refused; false if it may be applied. ``allow`` adds to the plan's guards."""
    if guards.MANY in {*plan.allow, *allow}:
        return reasons.NONE
    removed = removals(plan)
    for unit, existing in plan.existing.items():
        count, most = removed.get(unit, 0), limit(existing, plan.max_percent)
        if count > most:
            text = _TEXT.format(removed=count, existing=existing, unit=unit, limit=most)
            return reasons.Reason(reasons.Code.MANY, text)
    return reasons.NONE
