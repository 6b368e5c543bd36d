"""Changes of the inventories of a provider."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from osc_placement.client import api
from osc_placement.model import inventory
from osc_placement.plan import change, guards
from osc_placement.plan.kinds import base


def observed(generation: int, found: inventory.Inventories) -> change.Observed:
    """What was read of a provider, in the form in which a write needs it."""
    return change.Observed(generation, observed_facts(found), found)


def amended(
    inventories: inventory.Inventories, after: change.Facts
) -> dict[str, inventory.Inventory]:
    """Inventories with the facts of ``after`` put in; a class whose total is None goes."""
    renewed = dict(inventories)
    for resource_class, fields in by_class(after).items():
        if fields.get("total", 0) is None:
            renewed.pop(resource_class, None)
        else:
            known = renewed.get(resource_class)
            start = known.as_dict() if known is not None else {}
            renewed[resource_class] = inventory.Inventory.from_dict(start | fields)  # type: ignore[arg-type]
    return renewed


def loses_capacity(before: inventory.Inventories, after: inventory.Inventories) -> bool:
    """Whether any class has less capacity after than before, or goes."""
    return any(
        resource_class not in after or after[resource_class].capacity < item.capacity
        for resource_class, item in before.items()
    )


def refusals(
    before: inventory.Inventories,
    after: inventory.Inventories,
    usages: Mapping[str, int],
    allow: Collection[str],
) -> list[str]:
    """Why one provider's inventories should not become ``after``: each guard that says no."""
    reasons = []
    for resource_class, old in before.items():
        used = usages.get(resource_class, 0)
        new = after.get(resource_class)
        if new is None and used and guards.CLASS_IN_USE not in allow:
            reasons.append(
                f"{resource_class} would vanish with {used} in use{_hint(guards.CLASS_IN_USE)}"
            )
        if new is not None and _overfills(old, new, used) and guards.OVER_CAPACITY not in allow:
            reasons.append(
                f"{resource_class} would be over capacity: {used} used, capacity"
                f" {old.capacity} -> {new.capacity}{_hint(guards.OVER_CAPACITY)}"
            )
    if guards.RESERVED_ABOVE_TOTAL not in allow:
        reasons += [
            f"{resource_class} would have reserved {new.reserved} above total {new.total}"
            + _hint(guards.RESERVED_ABOVE_TOTAL)
            for resource_class, new in after.items()
            if new.reserved > new.total and new != before.get(resource_class)
        ]
    return reasons


def observed_facts(inventories: inventory.Inventories) -> dict[str, change.Value]:
    """Everything that inventories say, as facts."""
    return {
        f"{resource_class}:{field}": value
        for resource_class, item in inventories.items()
        for field, value in item.as_dict().items()
    }


def _overfills(old: inventory.Inventory, new: inventory.Inventory, used: int) -> bool:
    return new.capacity < old.capacity and used > max(new.capacity, 0)


def _hint(guard: str) -> str:
    return f" (--allow {guard} to do it anyway)"


def by_class(facts: change.Facts) -> dict[str, dict[str, change.Value]]:
    """Facts as ``{resource class: {field: value}}``."""
    grouped: dict[str, dict[str, change.Value]] = {}
    for key, value in facts.items():
        resource_class, _, field = key.partition(":")
        grouped.setdefault(resource_class, {})[field] = value
    return grouped


def _read_inventories(client: api.Client, item: change.Change) -> change.Observed:
    found = client.list_inventories(item.subject.uuid)
    return observed(found.generation, found.inventories)


def _write_inventories(
    client: api.Client, item: change.Change, seen: change.Observed
) -> change.Observed:
    renewed = amended(seen.whole, item.after)
    found = client.replace_inventories(item.subject.uuid, seen.generation or 0, renewed)
    return observed(found.generation, found.inventories)


def _refuse_inventories(
    client: api.Client, item: change.Change, seen: change.Observed, allow: Collection[str]
) -> list[str]:
    renewed = amended(seen.whole, item.after)
    usages = {}
    if loses_capacity(seen.whole, renewed):
        usages = client.list_usages(item.subject.uuid)
    return refusals(seen.whole, renewed, usages, allow)


TYPE = base.ChangeType(_read_inventories, _write_inventories, _refuse_inventories)
