"""Planning the inventories of providers. Pure."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from osc_placement import errors
from osc_placement.model import inventory, provider
from osc_placement.plan import change, guards, plan, reasons
from osc_placement.plan.kinds import inventories
from osc_placement.plan.kinds.inventories import InventoryState
from osc_placement.plan.reasons import Code
from osc_placement.workflows.batch import expression

_KIND = inventories.TYPE

#: The decision about one provider.
Item = change.Change[InventoryState] | change.Skipped

#: Returns the new inventories of a provider. Errors: InvalidInput.
Target = Callable[[inventory.Inventories], inventory.Inventories]

#: nova-compute writes all fields of these classes except the ratio at each periodic run; with
#: the option of nova.conf it also writes the ratio.
_WRITTEN_BY_NOVA = {
    "VCPU": "cpu_allocation_ratio",
    "MEMORY_MB": "ram_allocation_ratio",
    "DISK_GB": "disk_allocation_ratio",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """Assignments to fields of inventories.

    ``create`` adds classes that a provider lacks. ``allow`` holds disabled guards.
    """

    assignments: tuple[expression.Assignment, ...]
    create: bool = False
    allow: frozenset[str] = frozenset()

    @property
    def relative(self) -> bool:
        """Whether any new value depends on a current one."""
        return any(assignment.relative for assignment in self.assignments)


@dataclasses.dataclass(frozen=True, slots=True)
class Observed:
    """A provider and its inventories; ``usages`` is None if it was not read.

    ``one_time_use``: it has the trait of a one-time-use device; read where a guard needs it.
    """

    provider: provider.Provider
    generation: int
    inventories: inventory.Inventories
    usages: Mapping[str, int] | None = None
    one_time_use: bool = False


def plan_inventory(observed: Iterable[Observed], request: Request) -> plan.Plan:
    """Apply ``request`` to each provider; every provider is changed or skipped.

    Providers for which ``needs_usages`` is true must have usages.
    """
    providers = list(observed)
    items = _refused_if_all_lack_it([decide(item, request) for item in providers])
    planned = plan_items(providers, items, request.allow)
    return dataclasses.replace(planned, relative=request.relative)


def plan_items(
    observed: Iterable[Observed], items: Sequence[Item], allow: Iterable[str]
) -> plan.Plan:
    """The plan of one item per provider, in the same order, with notes and capacities."""
    return plan.make(
        items,
        allow=tuple(sorted(allow)),
        notes=_notes(items),
        capacities=_capacities(observed, items),
    )


def plan_targets(
    observed: Iterable[Observed],
    target: Target,
    allow: Collection[str] = guards.ALL_BUT_DEVICES,
    *,
    exactly: bool,
) -> plan.Plan:
    """Change each provider's inventories to ``target(inventories)``. ``allow``: disabled guards.

    ``exactly``: the change also replaces fields that a concurrent write adds or changes;
    otherwise it writes only the fields that differ now.
    """
    items = [_targeted(item, target, allow, exactly) for item in observed]
    return plan.make(items, allow=tuple(sorted(allow)))


def releases_to(observed: Observed, target: Target) -> bool:
    """As ``releases``, for a target; False if it is invalid."""
    try:
        return inventories.releases(observed.inventories, target(observed.inventories))
    except errors.InvalidInput:
        return False


def _targeted(observed: Observed, target: Target, allow: Collection[str], exactly: bool) -> Item:
    subject = change.Subject(observed.provider.name, observed.provider.uuid)
    found = InventoryState.of(observed.inventories)
    try:
        renewed = target(observed.inventories)
    except errors.InvalidInput as error:
        return _invalid(subject, error)
    target_state = InventoryState.of(renewed)
    after = InventoryState({**dict.fromkeys(found.classes), **target_state.classes})
    before = _KIND.select(found, after)
    if _KIND.equal(before, after):
        return change.Skipped(_KIND.name, subject, before, after, unchanged=True)
    if not exactly:
        before, after = _differing(before, after)
    refused = _refusals(observed, renewed, allow)
    if refused:
        return _refused(subject, before, after, refused)
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


def _refused_if_all_lack_it(items: Sequence[Item]) -> list[Item]:
    """The items; if no provider has any requested class, the operator gets an error."""
    skipped = [item for item in items if isinstance(item, change.Skipped) and item.after is None]
    if len(skipped) < len(items):
        return list(items)
    return [dataclasses.replace(item, refused=True) for item in skipped]


def needs_usages(observed: Observed, request: Request) -> bool:
    """Whether a guard needs the provider's usages: it would lose capacity or release a device."""
    after = _amended(observed, request)
    return inventories.loses_capacity(observed.inventories, after) or inventories.releases(
        observed.inventories, after
    )


def releases(observed: Observed, request: Request) -> bool:
    """Whether a guard needs to know whether the provider is a one-time-use device."""
    return inventories.releases(observed.inventories, _amended(observed, request))


def _amended(observed: Observed, request: Request) -> inventory.Inventories:
    """The inventories after the request; unchanged if a value is invalid."""
    try:
        _, after, _ = _requested(observed, request)
    except ValueError:
        return observed.inventories
    return inventories.amended(observed.inventories, after)


def decide(observed: Observed, request: Request) -> Item:
    """The change of one provider, or the reason to skip it."""
    subject = change.Subject(observed.provider.name, observed.provider.uuid)
    try:
        before, after, notes = _requested(observed, request)
    except ValueError as error:
        return _invalid(subject, error)
    if not after.classes:
        return change.Skipped(_KIND.name, subject, reason="; ".join(notes), code=Code.NO_INVENTORY)
    if _KIND.equal(before, after):
        return change.Skipped(_KIND.name, subject, before, after, "; ".join(notes), unchanged=True)
    before, after = _differing(before, after)
    amended = inventories.amended(observed.inventories, after)
    refused = _refusals(observed, amended, request.allow)
    if refused:
        return _refused(subject, before, after, refused)
    notes = _effects(observed, amended) + notes + _written_back(after)
    return change.Change(
        _KIND.name,
        subject,
        before,
        after,
        observed.generation,
        "; ".join(notes),
        capacity=_added_capacity(observed.inventories, amended),
        over=_over_capacity(amended, observed.usages or {}),
    )


def _refusals(
    observed: Observed, after: inventory.Inventories, allow: Collection[str]
) -> list[reasons.Reason]:
    return inventories.refusals(
        observed.inventories,
        after,
        observed.usages or {},
        allow,
        one_time_use=observed.one_time_use,
    )


def _refused(
    subject: change.Subject,
    before: InventoryState,
    after: InventoryState,
    refused: Sequence[reasons.Reason],
) -> change.Skipped:
    return change.Skipped(
        _KIND.name,
        subject,
        before,
        after,
        reasons.joined_texts(refused),
        reasons.joined_codes(refused),
        refused=True,
    )


def _invalid(subject: change.Subject, error: Exception) -> change.Skipped:
    return change.Skipped(
        _KIND.name, subject, reason=str(error), code=Code.INVALID_VALUE, refused=True
    )


def _requested(
    observed: Observed, request: Request
) -> tuple[InventoryState, InventoryState, list[str]]:
    """``(before, after, notes)`` for every field of the request.

    Raises ValueError with all errors if a value is invalid.
    """
    after: dict[str, dict[str, float]] = {}
    notes: list[str] = []
    invalid: list[str] = []
    for resource_class, assignments in _grouped(request.assignments).items():
        known = observed.inventories.get(resource_class)
        if known is None and not request.create:
            notes.append(f"it has no {resource_class} (--create adds it)")
            continue
        try:
            fields, rounded = _fields(resource_class, known, assignments)
        except ValueError as error:
            invalid += error.args
            continue
        after[resource_class] = fields
        notes += rounded
    if invalid:
        raise ValueError("; ".join(invalid))
    state = InventoryState(after)
    return _KIND.select(InventoryState.of(observed.inventories), state), state, notes


def _fields(
    resource_class: str,
    known: inventory.Inventory | None,
    assignments: Sequence[expression.Assignment],
) -> tuple[dict[str, float], list[str]]:
    """The requested fields of one class, and notes. The arguments of a ValueError are errors."""
    current = known.as_dict() if known is not None else {}
    requested: dict[str, float] = {}
    notes: list[str] = []
    invalid: list[str] = []
    for assignment in assignments:
        try:
            requested[assignment.field], note = assignment.apply(current.get(assignment.field))
        except ValueError as error:
            invalid += error.args
            continue
        notes += [note] if note else []
    if known is None and "total" not in requested and not invalid:
        invalid.append(f"{resource_class} cannot be added without a total")
    if requested.keys() & {"min_unit", "max_unit"}:
        invalid += _unit_error(resource_class, {**current, **requested})
    if invalid:
        raise ValueError(*invalid)
    if known is None:
        requested = inventory.Inventory.from_dict(requested).as_dict()
    return requested, notes


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


def _effects(observed: Observed, amended: inventory.Inventories) -> list[str]:
    """A text for each class whose capacity changes."""
    effects = []
    for resource_class in [*observed.inventories, *(amended.keys() - observed.inventories)]:
        before = _capacity(observed.inventories, resource_class)
        after = _capacity(amended, resource_class)
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


def _notes(items: Iterable[Item]) -> tuple[str, ...]:
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


def _changed(item: Item) -> InventoryState:
    """The state that a change writes; an empty state for a skipped provider."""
    return item.after if isinstance(item, change.Change) else InventoryState({})


def _capacities(observed: Iterable[Observed], items: Iterable[Item]) -> dict[str, plan.Capacity]:
    """``{resource class: Capacity}`` over all of ``observed``, for the classes that change."""
    before: collections.Counter[str] = collections.Counter()
    for state in observed:
        before.update({name: one.capacity for name, one in state.inventories.items()})
    changes = [item for item in items if isinstance(item, change.Change)]
    touched = sorted({name for item in changes for name in item.after.classes})
    return {name: plan.capacity_after(name, before[name], changes) for name in touched}


def _added_capacity(before: inventory.Inventories, after: inventory.Inventories) -> dict[str, int]:
    """``{resource class: how much more capacity after}``, of the classes that differ."""
    added = {
        name: _capacity(after, name) - _capacity(before, name)
        for name in dict.fromkeys([*before, *after])
    }
    return {name: amount for name, amount in added.items() if amount}


def _over_capacity(amended: inventory.Inventories, usages: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(name for name, used in usages.items() if used > _capacity(amended, name))


def _capacity(inventories: inventory.Inventories, resource_class: str) -> int:
    item = inventories.get(resource_class)
    return 0 if item is None else item.capacity
