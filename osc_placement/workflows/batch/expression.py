"""Inventory expressions such as ``VCPU:allocation_ratio=4``. Pure."""

from __future__ import annotations

import dataclasses
import decimal
import math
import re
from collections.abc import Iterable

from osc_placement import errors
from osc_placement.model import inventory, name

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

        ``current`` may be None only for an absolute assignment. Raises ValueError for a
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
            raise ValueError(f"{self.key}: {self.operator} needs an existing value")
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
            raise ValueError(f"{assignment.key}={value}: a ratio must be above 0")
        return value
    smallest = _SMALLEST[assignment.field]
    if not smallest <= value <= inventory.MAX_AMOUNT:
        raise ValueError(
            f"{assignment.key}={value} is out of range: {smallest} to {inventory.MAX_AMOUNT}"
        )
    return value


def parse(texts: Iterable[str]) -> tuple[Assignment, ...]:
    """Parse all expressions. Raises InvalidInput with every error of all of them."""
    assignments: dict[str, Assignment] = {}
    input_errors = errors.InputErrors()
    for text in texts:
        try:
            assignment = _parse(text)
        except ValueError as error:
            input_errors.reasons += error.args
            continue
        if assignment.key in assignments:
            input_errors.add(f"{assignment.key} is given twice")
        assignments[assignment.key] = assignment
    if not assignments and not input_errors:
        input_errors.add(f"nothing to change: {_SYNTAX}")
    input_errors.check()
    return tuple(assignments.values())


def resource_classes(texts: Iterable[str]) -> tuple[str, ...]:
    """The resource classes of all expressions, invalid expressions included."""
    found = (text.partition(":")[0] for text in texts if ":" in text)
    return tuple(dict.fromkeys(item for item in found if name.is_symbol(item)))


def _parse(text: str) -> Assignment:
    """Parse one expression. The arguments of a ValueError are its errors."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r}: {_SYNTAX}")
    reasons = []
    if not name.is_symbol(match["rc"]):
        reasons.append(
            f"{text!r}: {match['rc']!r} is not a resource class (capital letters, digits, _)"
        )
    if match["field"] not in inventory.FIELDS:
        known = ", ".join(inventory.FIELDS)
        reasons.append(f"{text!r}: unknown field {match['field']!r}; the fields are {known}")
    if not _NUMBER.fullmatch(match["value"]):
        reasons.append(f"{text!r}: {match['value']!r} is not a number")
    if reasons:
        raise ValueError(*reasons)
    assignment = Assignment(
        match["rc"], match["field"], match["operator"], decimal.Decimal(match["value"])
    )
    _check_alone(assignment)
    return assignment


def _check_alone(assignment: Assignment) -> None:
    """Refuse a value that is invalid for every inventory."""
    if not assignment.relative:
        is_amount = assignment.field in inventory.INTEGER_FIELDS
        if is_amount and assignment.value != assignment.value.to_integral_value():
            raise ValueError(f"{assignment}: {assignment.field} must be an integer")
        assignment.apply(None)
    elif assignment.operator == "*=" and assignment.value < 0:
        raise ValueError(f"{assignment}: a factor must not be negative")
