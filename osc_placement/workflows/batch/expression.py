"""``VCPU:allocation_ratio=4``: what an operator writes about one field of an inventory.

Pure. ``parse`` is called by the commands, ``Assignment.apply`` by ``inventory``.
"""

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

_WANTED = "<RESOURCE_CLASS>:<FIELD>=<VALUE> is wanted (also +=, -= and *=)"

#: ``{field: the smallest value that Placement takes}``; a ratio must be above 0.
_SMALLEST = {"total": 1, "reserved": 0, "min_unit": 1, "max_unit": 1, "step_size": 1}


@dataclasses.dataclass(frozen=True, slots=True)
class Assignment:
    """One field of one resource class, and what it shall be: ``operator`` is = += -= or ``*=``."""

    resource_class: str
    field: str
    operator: str
    value: decimal.Decimal

    @property
    def key(self) -> str:
        """The key of the fact that it is about."""
        return f"{self.resource_class}:{self.field}"

    @property
    def relative(self) -> bool:
        """Whether the outcome depends on what is there."""
        return self.operator != "="

    def apply(self, current: float | None) -> tuple[int | float, str]:
        """``(new value, remark)``; the remark tells of a fraction that was dropped.

        Whole amounts are rounded down. ``current`` may be None for an absolute
        assignment only. Raises ValueError for a value that Placement does not take.
        """
        exact = self._exact(current)
        if self.field not in inventory.INTEGER_FIELDS:
            return _checked(self, float(exact)), ""
        whole = math.floor(exact)
        remark = "" if whole == exact else f"{self.key} rounded down from {exact:f}"
        return _checked(self, whole), remark

    def _exact(self, current: float | None) -> decimal.Decimal:
        if not self.relative:
            return self.value
        if current is None:
            raise ValueError(f"{self.key}: {self.operator} needs a value that is there already")
        # By way of its text: 0.1 is a tenth here, not the binary number beside it.
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
            raise ValueError(f"{assignment.key}={value}: a ratio is above 0")
        return value
    smallest = _SMALLEST[assignment.field]
    if not smallest <= value <= inventory.MAX_AMOUNT:
        raise ValueError(
            f"{assignment.key}={value} is out of range: {smallest} to {inventory.MAX_AMOUNT}"
        )
    return value


def parse(texts: Iterable[str]) -> tuple[Assignment, ...]:
    """Read all of ``texts``; raises InvalidInput with every fault in any of them."""
    assignments: dict[str, Assignment] = {}
    faults: list[str] = []
    for text in texts:
        try:
            assignment = _parse(text)
        except ValueError as error:
            faults += error.args
            continue
        if assignment.key in assignments:
            faults.append(f"{assignment.key} is given twice")
        assignments[assignment.key] = assignment
    if not assignments and not faults:
        faults.append(f"nothing to change: {_WANTED}")
    if faults:
        raise errors.InvalidInput(faults)
    return tuple(assignments.values())


def resource_classes(texts: Iterable[str]) -> tuple[str, ...]:
    """What stands where a resource class should, in good and in faulty expressions alike."""
    found = (text.partition(":")[0] for text in texts if ":" in text)
    return tuple(dict.fromkeys(item for item in found if name.is_symbol(item)))


def _parse(text: str) -> Assignment:
    """One expression; ValueError's arguments are its faults."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r}: {_WANTED}")
    faults = []
    if not name.is_symbol(match["rc"]):
        faults.append(f"{text!r}: {match['rc']!r} is no resource class: capitals, digits and _")
    if match["field"] not in inventory.FIELDS:
        known = ", ".join(inventory.FIELDS)
        faults.append(f"{text!r}: unknown field {match['field']!r}; there are {known}")
    if not _NUMBER.fullmatch(match["value"]):
        faults.append(f"{text!r}: {match['value']!r} is no number")
    if faults:
        raise ValueError(*faults)
    assignment = Assignment(
        match["rc"], match["field"], match["operator"], decimal.Decimal(match["value"])
    )
    _check_alone(assignment)
    return assignment


def _check_alone(assignment: Assignment) -> None:
    """What is wrong whatever the inventory holds."""
    if not assignment.relative:
        assignment.apply(None)
    elif assignment.operator == "*=" and assignment.value < 0:
        raise ValueError(f"{assignment}: a factor is not negative")
