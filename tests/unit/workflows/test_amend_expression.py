# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import decimal

import pytest
from hypothesis import given, strategies as st

from osc_placement import errors
from osc_placement.workflows import amend


def one(text: str) -> amend.Assignment:
    return amend.parse([text])[0]


@pytest.mark.parametrize(
    ("text", "current", "value"),
    [
        ("VCPU:allocation_ratio=4", 16.0, 4.0),
        ("VCPU:allocation_ratio=4", None, 4.0),
        ("VCPU:total+=2", 32, 34),
        ("VCPU:total-=2", 32, 30),
        ("VCPU:reserved=0", 4, 0),
        ("VCPU:allocation_ratio*=0.9", 16.0, 14.4),
        ("VCPU:allocation_ratio+=0.1", 0.2, 0.3),
        ("CUSTOM_GPU_2:total=1e3", None, 1000),
        ("MEMORY_MB:total*=.5", 4096, 2048),
    ],
)
def test_an_expression_sets_a_field(text: str, current: float | None, value: float) -> None:
    assert one(text).apply(current) == (value, "")


@pytest.mark.parametrize(
    ("text", "current", "value", "note"),
    [
        ("VCPU:total*=0.9", 32, 28, "VCPU:total rounded down from 28.8"),
        ("VCPU:reserved+=1.5", 0, 1, "VCPU:reserved rounded down from 1.5"),
        ("MEMORY_MB:total*=0.29", 100, 29, ""),
    ],
)
def test_integer_fields_are_rounded_down_with_a_note(
    text: str, current: int, value: int, note: str
) -> None:
    assert one(text).apply(current) == (value, note)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("VCPU", "the syntax is"),
        ("", "the syntax is"),
        ("VCPU=4", "the syntax is"),
        ("VCPU:total", "the syntax is"),
        ("VCPU:total/=2", "unknown field"),
        ("VCPU:bogus=4", "unknown field 'bogus'"),
        ("vcpu:total=4", "not a resource class"),
        ("VCPU:total=four", "'four' is not a number"),
        ("VCPU:total=", "'' is not a number"),
        ("VCPU:total=nan", "not a number"),
        ("VCPU:total=inf", "not a number"),
        ("VCPU:total=1e9999", "not a number"),
        ("VCPU:total=1e400", "out of range"),
        ("VCPU:total=0", "out of range"),
        ("VCPU:total=-1", "out of range"),
        ("VCPU:reserved=2147483648", "out of range"),
        ("VCPU:allocation_ratio=0", "above 0"),
        ("VCPU:allocation_ratio=-1", "above 0"),
        ("VCPU:total*=-1", "must not be negative"),
    ],
)
def test_a_malformed_expression_is_an_error_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(errors.InvalidInput, match=message):
        amend.parse([text])


def test_all_errors_of_all_expressions_are_reported() -> None:
    with pytest.raises(errors.InvalidInput) as caught:
        amend.parse(["vcpu:bogus=four", "VCPU:total=4", "VCPU:total=5", "what", "DISK_GB:total=0"])
    assert len(caught.value.reasons) == 6


def test_no_expression_is_an_error() -> None:
    with pytest.raises(errors.InvalidInput, match="nothing to change"):
        amend.parse([])


def test_a_relative_value_needs_an_existing_value() -> None:
    with pytest.raises(errors.InvalidInput, match="needs an existing value"):
        one("VCPU:total+=1").apply(None)


def test_classes_are_also_found_in_invalid_expressions() -> None:
    texts = ["CUSTOM_X:bogus=1", "VCPU:total=no", "nothing", "lower:total=1"]
    assert amend.resource_classes(texts) == ("CUSTOM_X", "VCPU")


@given(st.text(max_size=40))
def test_any_text_is_parsed_or_an_input_error(text: str) -> None:
    with contextlib.suppress(errors.InvalidInput):
        assert amend.parse([text])


@given(
    st.integers(1, 2**31 - 1),
    st.decimals("0.01", "0.99", places=2),
)
def test_shrinking_a_total_never_makes_it_larger(total: int, factor: decimal.Decimal) -> None:
    try:
        value, _ = one(f"VCPU:total*={factor}").apply(total)
    except errors.InvalidInput:
        assert int(total * factor) == 0
    else:
        assert value <= total


@pytest.mark.parametrize("text", ["VCPU:total=1.5", "VCPU:reserved=0.1", "VCPU:step_size=15e-1"])
def test_a_fraction_of_an_amount_is_refused(text: str) -> None:
    with pytest.raises(errors.InvalidInput, match="must be an integer"):
        amend.parse([text])
    assert amend.parse(["VCPU:total=1.50e2"])[0].apply(None) == (150, "")
