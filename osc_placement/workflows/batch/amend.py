# SPDX-License-Identifier: Apache-2.0
"""Amending inventories: expressions such as ``VCPU:allocation_ratio=4``, and their effect. Pure.

``parse`` reads expressions; ``plan_inventory`` and ``plan_targets`` decide about each provider.
"""

from __future__ import annotations

import collections
import dataclasses
import decimal
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from osc_placement import errors
from osc_placement.model import inventory, provider
from osc_placement.model.name import is_symbol
from osc_placement.plan import change, guards, plan, reasons
from osc_placement.plan.kinds import inventories
from osc_placement.plan.kinds.inventories import InventoryState
from osc_placement.plan.reasons import Code

_FORM = re.compile(r"(?P<rc>[^:=]+):(?P<field>[^:=+*-]+)(?P<operator>=|\+=|-=|\*=)(?P<value>.*)")
_NUMBER = re.compile(r"-?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?")

_SYNTAX = "the syntax is <RESOURCE_CLASS>:<FIELD>=<VALUE> (also +=, -= and *=)"

#: ``{field: the smallest value that Placement accepts}``; a ratio must be above 0.
_SMALLEST = {"total": 1, "reserved": 0, "min_unit": 1, "max_unit": 1, "step_size": 1}


@dataclasses.dataclass(frozen=True, slots=True)
class Assignment:
    """A new value for one field of one resource class; ``operator`` is = += -= or ``*=``."""

    resource_class: str
    field: str
    operator: str
    value: decimal.Decimal

    @property
    def key(self) -> str:
        """``CLASS:field``."""
        return f"{self.resource_class}:{self.field}"

    @property
    def relative(self) -> bool:
        """Whether the new value depends on the current one."""
        return self.operator != "="

    def apply(self, current: float | None) -> tuple[int | float, str]:
        """``(new value, note)``; the note reports a fraction that was rounded down.

        ``current`` may be None only for an absolute assignment. Errors: InvalidInput for a
        value that Placement does not accept.
        """
        exact = self._exact(current)
        if self.field not in inventory.INTEGER_FIELDS:
            return _checked(self, float(exact)), ""
        whole = math.floor(exact)
        note = "" if whole == exact else f"{self.key} rounded down from {exact:f}"
        return _checked(self, whole), note

    def _exact(self, current: float | None) -> decimal.Decimal:
        if not self.relative:
            return self.value
        if current is None:
            raise errors.InvalidInput([f"{self.key}: {self.operator} needs an existing value"])
        # Convert the text, so that 0.1 is exactly a tenth and not the nearest binary number.
        base = decimal.Decimal(str(current))
        match self.operator:
            case "+=":
                return base + self.value
            case "-=":
                return base - self.value
            case _:
                return base * self.value

    def __str__(self) -> str:
        return f"{self.key}{self.operator}{self.value}"


def _checked(assignment: Assignment, value: int | float) -> int | float:
    if assignment.field not in inventory.INTEGER_FIELDS:
        if not 0 < value < math.inf:
            raise errors.InvalidInput([f"{assignment.key}={value}: a ratio must be above 0"])
        return value
    smallest = _SMALLEST[assignment.field]
    if not smallest <= value <= inventory.MAX_AMOUNT:
        text = f"{assignment.key}={value} is out of range: {smallest} to {inventory.MAX_AMOUNT}"
        raise errors.InvalidInput([text])
    return value


def parse(texts: Iterable[str]) -> tuple[Assignment, ...]:
    """Parse all expressions. Raises InvalidInput with every error of all of them."""
    assignments: dict[str, Assignment] = {}
    input_errors = errors.InputErrors()
    for text in texts:
        with input_errors.collected():
            assignment = _parse(text)
            if assignment.key in assignments:
                input_errors.add(f"{assignment.key} is given twice")
            assignments[assignment.key] = assignment
    if not assignments and not input_errors:
        input_errors.add(f"nothing to change: {_SYNTAX}")
    input_errors.check()
    return tuple(assignments.values())


def resource_classes(texts: Iterable[str]) -> tuple[str, ...]:
    """The resource classes of all expressions, invalid expressions included."""
    classes = (text.partition(":")[0] for text in texts if ":" in text)
    return tuple(dict.fromkeys(item for item in classes if is_symbol(item)))


def _parse(text: str) -> Assignment:
    """Parse one expression. Errors: InvalidInput with all its errors."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise errors.InvalidInput([f"{text!r}: {_SYNTAX}"])
    input_errors = errors.InputErrors()
    if not is_symbol(match["rc"]):
        input_errors.add(
            f"{text!r}: {match['rc']!r} is not a resource class (capital letters, digits, _)"
        )
    if match["field"] not in inventory.FIELDS:
        fields = ", ".join(inventory.FIELDS)
        input_errors.add(f"{text!r}: unknown field {match['field']!r}; the fields are {fields}")
    if not _NUMBER.fullmatch(match["value"]):
        input_errors.add(f"{text!r}: {match['value']!r} is not a number")
    input_errors.check()
    value = decimal.Decimal(match["value"])
    assignment = Assignment(match["rc"], match["field"], match["operator"], value)
    # Refuse a value that is invalid for every inventory.
    if not assignment.relative:
        if assignment.field in inventory.INTEGER_FIELDS and value != value.to_integral_value():
            raise errors.InvalidInput([f"{assignment}: {assignment.field} must be an integer"])
        assignment.apply(None)
    elif assignment.operator == "*=" and assignment.value < 0:
        raise errors.InvalidInput([f"{assignment}: a factor must not be negative"])
    return assignment


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
class AmendRequest:
    """Assignments to fields of inventories.

    ``create`` adds classes that a provider lacks. ``allow`` holds disabled guards.
    """

    assignments: tuple[Assignment, ...]
    create: bool = False
    allow: frozenset[str] = frozenset()

    @property
    def relative(self) -> bool:
        """Whether any new value depends on a current one."""
        return any(assignment.relative for assignment in self.assignments)


@dataclasses.dataclass(frozen=True, slots=True)
class Offered:
    """A provider and its inventories; ``usages`` is None if it was not read.

    ``one_time_use``: it has the trait of a one-time-use device; read where a guard needs it.
    """

    provider: provider.Provider
    generation: int
    inventories: inventory.Inventories
    usages: Mapping[str, int] | None = None
    one_time_use: bool = False

    @property
    def subject(self) -> change.Subject:
        """The provider, as changes name it."""
        return change.Subject(self.provider.name, self.provider.uuid)


def read_states(
    observed: Iterable[Offered],
) -> dict[str, change.Observed[InventoryState]]:
    """``{change key: what was read}``, for ``ObservedPlan``."""
    return {
        change.key(_KIND.name, item.subject): inventories.observed(
            item.generation, item.inventories
        )
        for item in observed
    }


def plan_inventory(observed: Iterable[Offered], request: AmendRequest) -> plan.Plan:
    """Apply ``request`` to each provider; every provider is changed or skipped.

    Providers for which ``needs_usages`` is true must have usages.
    """
    providers = list(observed)
    items = _refused_if_all_lack_it([decide(item, request) for item in providers])
    planned = plan_items(providers, items, request.allow)
    return dataclasses.replace(planned, relative=request.relative)


def plan_items(
    observed: Iterable[Offered], items: Sequence[Item], allow: Iterable[str]
) -> plan.Plan:
    """The plan of one item per provider, in the same order, with notes and capacities."""
    return plan.make(
        items,
        allow=tuple(sorted(allow)),
        notes=_notes(items),
        capacities=_capacities(observed, items),
    )


def plan_targets(
    observed: Iterable[Offered],
    target: Target,
    allow: Collection[str] = guards.ALL_BUT_DEVICES,
    *,
    exactly: bool,
) -> plan.Plan:
    """Change each provider's inventories to ``target(inventories)``. ``allow``: disabled guards.

    ``exactly``: the change also replaces fields that a concurrent write adds or changes;
    otherwise it writes only the fields that differ now.
    """
    observed = list(observed)
    items = [_targeted(item, target, allow, exactly) for item in observed]
    return plan.make(items, allow=tuple(sorted(allow)), capacities=_capacities(observed, items))


def _targeted(observed: Offered, target: Target, allow: Collection[str], exactly: bool) -> Item:
    try:
        renewed = InventoryState.of(target(observed.inventories))
    except errors.InvalidInput as error:
        return _invalid(observed, error)
    after = InventoryState({**dict.fromkeys(observed.inventories), **renewed.classes})
    return _item(observed, after, allow, exactly=exactly)


def _differing(
    before: InventoryState, after: InventoryState
) -> tuple[InventoryState, InventoryState]:
    """Both states without the fields that are equal."""
    classes = {}
    for name, fields in after.classes.items():
        current = before.classes.get(name)
        if fields is None or current is None:
            if fields is not current:
                classes[name] = fields
            continue
        differing = {
            field: value
            for field, value in fields.items()
            if not change.values_equal(current.get(field), value)
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


def amended(observed: Offered, request: AmendRequest) -> inventory.Inventories:
    """The inventories after the request; unchanged if a value is invalid."""
    try:
        after, _ = _requested(observed, request)
    except errors.InvalidInput:
        return observed.inventories
    return inventories.amended(observed.inventories, after)


def needs_usages(observed: Offered, after: inventory.Inventories) -> bool:
    """Whether a guard needs the provider's usages: it would lose capacity or release a device."""
    before = observed.inventories
    return inventories.loses_capacity(before, after) or inventories.releases(before, after)


def decide(observed: Offered, request: AmendRequest) -> Item:
    """The change of one provider, or the reason to skip it."""
    try:
        after, notes = _requested(observed, request)
    except errors.InvalidInput as error:
        return _invalid(observed, error)
    if not after.classes:
        return change.Skipped(
            _KIND.name, observed.subject, reason="; ".join(notes), code=Code.NO_INVENTORY
        )
    item = _item(observed, after, request.allow)
    if isinstance(item, change.Change):
        notes = _effects(observed, item) + notes + _written_back(item.after)
    return item if item.reason else dataclasses.replace(item, reason="; ".join(notes))


def _item(
    observed: Offered, after: InventoryState, allow: Collection[str], *, exactly: bool = False
) -> Item:
    """The change of a provider's inventories to ``after``, or why it is skipped."""
    subject, usages = observed.subject, observed.usages or {}
    before = _KIND.select(InventoryState.of(observed.inventories), after)
    if _KIND.equal(before, after):
        return change.Skipped(_KIND.name, subject, before, after, unchanged=True)
    if not exactly:
        before, after = _differing(before, after)
    renewed = inventories.amended(observed.inventories, after)
    refused = inventories.refusals(
        observed.inventories, renewed, usages, allow, one_time_use=observed.one_time_use
    )
    if refused:
        text, code = reasons.joined_texts(refused), reasons.joined_codes(refused)
        return change.Skipped(_KIND.name, subject, before, after, text, code, refused=True)
    return change.Change(
        _KIND.name,
        subject,
        before,
        after,
        observed.generation,
        capacity=_added_capacity(observed.inventories, renewed),
        over=tuple(name for name, used in usages.items() if used > _capacity(renewed, name)),
    )


def _invalid(observed: Offered, error: errors.InvalidInput) -> change.Skipped:
    text, code = "; ".join(error.reasons), Code.INVALID_VALUE
    return change.Skipped(_KIND.name, observed.subject, reason=text, code=code, refused=True)


def _requested(observed: Offered, request: AmendRequest) -> tuple[InventoryState, list[str]]:
    """``(after, notes)`` for every field of the request. Errors: InvalidInput with all errors."""
    after: dict[str, dict[str, float]] = {}
    notes: list[str] = []
    input_errors = errors.InputErrors()
    for resource_class, assignments in _grouped(request.assignments).items():
        current = observed.inventories.get(resource_class)
        if current is None and not request.create:
            notes.append(f"it has no {resource_class} (--create adds it)")
            continue
        with input_errors.collected():
            after[resource_class], rounded = _fields(resource_class, current, assignments)
            notes += rounded
    input_errors.check()
    return InventoryState(after), notes


def _fields(
    resource_class: str,
    present: inventory.Inventory | None,
    assignments: Sequence[Assignment],
) -> tuple[dict[str, float], list[str]]:
    """The requested fields of one class, and notes. Errors: InvalidInput with all errors."""
    current = present.as_dict() if present is not None else {}
    requested: dict[str, float] = {}
    notes: list[str] = []
    input_errors = errors.InputErrors()
    for assignment in assignments:
        with input_errors.collected():
            requested[assignment.field], note = assignment.apply(current.get(assignment.field))
            notes += [note] if note else []
    if present is None and "total" not in requested and not input_errors:
        input_errors.add(f"{resource_class} cannot be added without a total")
    fields = {"min_unit": 1, "max_unit": inventory.MAX_AMOUNT, **current, **requested}
    least, most = fields["min_unit"], fields["max_unit"]
    if requested.keys() & {"min_unit", "max_unit"} and least > most:
        # Placement accepts an inventory from which nothing can be allocated.
        input_errors.add(f"{resource_class}: min_unit {least} is above max_unit {most}")
    input_errors.check()
    if present is None:
        requested = inventory.Inventory.from_dict(requested).as_dict()
    return requested, notes


def _grouped(
    assignments: Iterable[Assignment],
) -> dict[str, list[Assignment]]:
    grouped: dict[str, list[Assignment]] = {}
    for assignment in assignments:
        grouped.setdefault(assignment.resource_class, []).append(assignment)
    return grouped


def _effects(observed: Offered, item: change.Change[InventoryState]) -> list[str]:
    """A text for each class whose capacity changes."""
    effects = []
    for resource_class, added in item.capacity.items():
        before = _capacity(observed.inventories, resource_class)
        effect = f"{resource_class} capacity {before} -> {before + added}"
        if observed.usages is not None:
            effect += f", {observed.usages.get(resource_class, 0)} used"
            effect += ": over capacity" if resource_class in item.over else ""
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
        f"if nova.conf sets {option}, nova-compute overwrites {resource_class}:allocation_ratio"
        " at its next periodic run"
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


def _capacities(
    observed: Iterable[Offered], items: Iterable[Item]
) -> dict[str, plan.CapacityChange]:
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


def _capacity(inventories: inventory.Inventories, resource_class: str) -> int:
    item = inventories.get(resource_class)
    return 0 if item is None else item.capacity
