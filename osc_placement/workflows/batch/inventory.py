"""Planning changes of inventories: pure decisions about one provider at a time.

``batch`` observes and calls ``plan_inventory``; ``kind`` calls ``amended`` and ``refusals``
again when a provider has changed between planning and writing.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence

from osc_placement import errors
from osc_placement.model import inventory, provider
from osc_placement.plan import change, guards, plan
from osc_placement.plan.kinds import inventories
from osc_placement.plan.kinds.inventories import InventoryState
from osc_placement.workflows.batch import expression

_KIND = inventories.TYPE

#: What a provider's inventories shall become; InvalidInput when they cannot.
Target = Callable[[inventory.Inventories], inventory.Inventories]

#: Classes of which nova-compute writes all but the ratio at each of its periodic runs,
#: and the option of nova.conf that makes it write the ratio too.
_WRITTEN_BY_NOVA = {
    "VCPU": "cpu_allocation_ratio",
    "MEMORY_MB": "ram_allocation_ratio",
    "DISK_GB": "disk_allocation_ratio",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """What shall become of inventories.

    ``create`` makes a class that a provider lacks. ``allow`` holds the guards that are
    overridden.
    """

    assignments: tuple[expression.Assignment, ...]
    create: bool = False
    allow: frozenset[str] = frozenset()

    @property
    def relative(self) -> bool:
        """Whether any value depends on what is there."""
        return any(assignment.relative for assignment in self.assignments)


@dataclasses.dataclass(frozen=True, slots=True)
class Observed:
    """One provider as it was read; ``usages`` is None while nobody asked for them."""

    provider: provider.Provider
    generation: int
    inventories: inventory.Inventories
    usages: Mapping[str, int] | None = None


def plan_inventory(observed: Iterable[Observed], request: Request) -> plan.Plan:
    """What ``request`` means for each provider; every provider has a change or a remark.

    Usages must be there for those that ``needs_usages`` names.
    """
    seen = list(observed)
    items = _answered([decide(item, request) for item in seen])
    return plan.make(
        items,
        relative=request.relative,
        allow=tuple(sorted(request.allow)),
        notes=_notes(items),
        capacities=_capacities(seen, items),
    )


def plan_targets(observed: Iterable[Observed], target: Target, *, exactly: bool) -> plan.Plan:
    """Every provider gets what ``target`` makes of its inventories, and no guard is asked.

    ``exactly``: what others add or change before the write is replaced too, otherwise it
    stays, as far as it is not what differs.
    """
    items = [_targeted(item, target, exactly) for item in observed]
    return plan.make(items, allow=tuple(sorted(guards.ALL)))


def _targeted(observed: Observed, target: Target, exactly: bool) -> change.Change | change.Skipped:
    subject = change.Subject(observed.provider.name, observed.provider.uuid)
    found = InventoryState.of(observed.inventories)
    try:
        target_state = InventoryState.of(target(observed.inventories))
    except errors.InvalidInput as error:
        return change.Skipped(_KIND.name, subject, reason=str(error), refused=True)
    after = InventoryState({**dict.fromkeys(found.classes), **target_state.classes})
    before = _KIND.select(found, after)
    if _KIND.equal(before, after):
        return change.Skipped(_KIND.name, subject, before, after, unchanged=True)
    if not exactly:
        before, after = _differing(before, after)
    return change.Change(_KIND.name, subject, before, after, observed.generation)


def _differing(
    before: InventoryState, after: InventoryState
) -> tuple[InventoryState, InventoryState]:
    """Both states without the fields that are equal."""
    classes = {}
    for name, fields in after.classes.items():
        known = before.classes.get(name)
        if fields is None or known is None:
            if fields is not known:
                classes[name] = fields
            continue
        differing = {
            field: value
            for field, value in fields.items()
            if not change.values_equal(known.get(field), value)
        }
        if differing:
            classes[name] = differing
    narrowed = InventoryState(classes)
    return _KIND.select(before, narrowed), narrowed


def _answered(
    items: Sequence[change.Change | change.Skipped],
) -> list[change.Change | change.Skipped]:
    """When no provider at all has what was asked for, that is no answer to the operator's wish."""
    remarks = [item for item in items if isinstance(item, change.Skipped) and item.after is None]
    if len(remarks) < len(items):
        return list(items)
    return [dataclasses.replace(item, refused=True) for item in remarks]


def needs_usages(observed: Observed, request: Request) -> bool:
    """Whether what is used decides about the provider: it would lose capacity."""
    try:
        _, after, _ = _wanted(observed, request)
    except ValueError:
        return False
    return inventories.loses_capacity(
        observed.inventories, inventories.amended(observed.inventories, after)
    )


def decide(observed: Observed, request: Request) -> change.Change | change.Skipped:
    """The change of one provider, or why there is none."""
    subject = change.Subject(observed.provider.name, observed.provider.uuid)
    try:
        before, after, reasons = _wanted(observed, request)
    except ValueError as error:
        return change.Skipped(_KIND.name, subject, reason=str(error), refused=True)
    if not after.classes:
        return change.Skipped(_KIND.name, subject, reason="; ".join(reasons))
    if _KIND.equal(before, after):
        return change.Skipped(
            _KIND.name, subject, before, after, "; ".join(reasons), unchanged=True
        )
    before, after = _differing(before, after)
    renewed = inventories.amended(observed.inventories, after)
    refused = inventories.refusals(
        observed.inventories, renewed, observed.usages or {}, request.allow
    )
    if refused:
        return change.Skipped(_KIND.name, subject, before, after, "; ".join(refused), refused=True)
    reasons = _effects(observed, renewed) + reasons + _written_back(after)
    return change.Change(
        _KIND.name, subject, before, after, observed.generation, "; ".join(reasons)
    )


def _wanted(
    observed: Observed, request: Request
) -> tuple[InventoryState, InventoryState, list[str]]:
    """``(before, after, remarks)`` over every field that the request names.

    Raises ValueError, with all reasons, when a value cannot be.
    """
    after: dict[str, dict[str, float]] = {}
    remarks: list[str] = []
    faults: list[str] = []
    for resource_class, assignments in _grouped(request.assignments).items():
        known = observed.inventories.get(resource_class)
        if known is None and not request.create:
            remarks.append(f"it has no {resource_class} (--create makes it)")
            continue
        try:
            fields, dropped = _fields(resource_class, known, assignments)
        except ValueError as error:
            faults += error.args
            continue
        after[resource_class] = fields
        remarks += dropped
    if faults:
        raise ValueError("; ".join(faults))
    state = InventoryState(after)
    return _KIND.select(InventoryState.of(observed.inventories), state), state, remarks


def _fields(
    resource_class: str,
    known: inventory.Inventory | None,
    assignments: Sequence[expression.Assignment],
) -> tuple[dict[str, float], list[str]]:
    """The requested fields of one class, and remarks; ValueError's arguments are faults."""
    current = known.as_dict() if known is not None else {}
    wanted: dict[str, float] = {}
    remarks: list[str] = []
    faults: list[str] = []
    for assignment in assignments:
        try:
            wanted[assignment.field], remark = assignment.apply(current.get(assignment.field))
        except ValueError as error:
            faults += error.args
            continue
        remarks += [remark] if remark else []
    if known is None and "total" not in wanted and not faults:
        faults.append(f"{resource_class} cannot be made without a total")
    if wanted.keys() & {"min_unit", "max_unit"}:
        faults += _unit_error(resource_class, {**current, **wanted})
    if faults:
        raise ValueError(*faults)
    if known is None:
        wanted = inventory.Inventory.from_dict(wanted).as_dict()
    return wanted, remarks


def _unit_error(resource_class: str, fields: Mapping[str, float]) -> list[str]:
    """Placement accepts an inventory from which nothing can be allocated."""
    least, most = fields.get("min_unit", 1), fields.get("max_unit", inventory.MAX_AMOUNT)
    return [f"{resource_class}: min_unit {least} is above max_unit {most}"] if least > most else []


def _grouped(
    assignments: Iterable[expression.Assignment],
) -> dict[str, list[expression.Assignment]]:
    grouped: dict[str, list[expression.Assignment]] = {}
    for assignment in assignments:
        grouped.setdefault(assignment.resource_class, []).append(assignment)
    return grouped


def _effects(observed: Observed, renewed: inventory.Inventories) -> list[str]:
    """What becomes of capacity, class by class."""
    effects = []
    for resource_class in [*observed.inventories, *(renewed.keys() - observed.inventories)]:
        before = _capacity(observed.inventories, resource_class)
        after = _capacity(renewed, resource_class)
        if before == after:
            continue
        effect = f"{resource_class} capacity {before} -> {after}"
        if observed.usages is not None:
            used = observed.usages.get(resource_class, 0)
            effect += f", {used} used" + (": over capacity" if used > after else "")
        effects.append(effect)
    return effects


def _written_back(after: InventoryState) -> list[str]:
    keys = [
        f"{resource_class}:{field}"
        for resource_class, fields in after.classes.items()
        if resource_class in _WRITTEN_BY_NOVA
        for field in fields or ()
        if field != "allocation_ratio"
    ]
    return [f"nova-compute writes {', '.join(keys)} back"] if keys else []


def _notes(items: Iterable[change.Change | change.Skipped]) -> tuple[str, ...]:
    states = [_changed(item) for item in items]
    notes = [
        f"{resource_class}:allocation_ratio lasts only where nova.conf does not set {option}:"
        " nova-compute writes a configured ratio back at its next periodic run"
        for resource_class, option in _WRITTEN_BY_NOVA.items()
        if any("allocation_ratio" in (state.classes.get(resource_class) or ()) for state in states)
    ]
    if any(map(_written_back, states)):
        notes.append(
            "on a compute node nova-compute writes every field but the ratio of VCPU, MEMORY_MB"
            " and DISK_GB at its next periodic run: change nova.conf instead"
        )
    return tuple(notes)


def _changed(item: change.Change | change.Skipped) -> InventoryState:
    """What a change writes; nothing for a skipped provider."""
    if isinstance(item, change.Change) and isinstance(item.after, InventoryState):
        return item.after
    return InventoryState({})


def _capacities(
    observed: Iterable[Observed], items: Iterable[change.Change | change.Skipped]
) -> dict[str, plan.Capacity]:
    """``{resource class: Capacity}`` over all of ``observed``, for the classes that change."""
    before: collections.Counter[str] = collections.Counter()
    after: collections.Counter[str] = collections.Counter()
    over: collections.Counter[str] = collections.Counter()
    touched: set[str] = set()
    for state, item in zip(observed, items, strict=True):
        changed = _changed(item)
        renewed = inventories.amended(state.inventories, changed)
        touched |= changed.classes.keys()
        before.update({name: one.capacity for name, one in state.inventories.items()})
        after.update({name: one.capacity for name, one in renewed.items()})
        usages = (state.usages or {}) if changed.classes else {}
        over.update(name for name, used in usages.items() if used > _capacity(renewed, name))
    return {name: plan.Capacity(before[name], after[name], over[name]) for name in sorted(touched)}


def _capacity(inventories: inventory.Inventories, resource_class: str) -> int:
    item = inventories.get(resource_class)
    return 0 if item is None else item.capacity
