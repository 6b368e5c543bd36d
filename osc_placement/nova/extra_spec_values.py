"""The operators in the values of extra specs: ``>= 4``, ``<or> a <or> b``. Pure.

tests/interop/test_filters.py compares the results with those of nova's own filters.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

_OR, _IN, _ALL_IN = "<or>", "<in>", "<all-in>"

_NUMBERS: Mapping[str, Callable[[float, float], bool]] = {
    "=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
}
_TEXTS: Mapping[str, Callable[[str, str], bool]] = {
    "s==": operator.eq,
    "s!=": operator.ne,
    "s>=": operator.ge,
    "s>": operator.gt,
    "s<=": operator.le,
    "s<": operator.lt,
}

#: Words of a requirement that are not values.
OPERATORS = frozenset({_OR, _IN, _ALL_IN, *_NUMBERS, *_TEXTS})


def matches(value: str, requirement: str) -> bool:
    """Whether a value meets the requirement of an extra spec."""
    words = requirement.split()
    if not words:
        return value == requirement
    sign, operands = words[0], words[1:]
    if sign == _OR:
        return value in operands[::2]
    if sign == _IN:
        return bool(operands) and operands[0] in value
    if sign == _ALL_IN:
        return all(each in value for each in operands)
    if sign in _NUMBERS and operands:
        try:
            return _NUMBERS[sign](float(value), float(operands[0]))
        except ValueError:
            return False
    if sign in _TEXTS and operands:
        return _TEXTS[sign](value, operands[0])
    return value == requirement
