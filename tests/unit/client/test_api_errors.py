"""Errors are told apart by code and, below 1.23, by text."""

from __future__ import annotations

import pytest

from osc_placement import errors
from osc_placement.client import api_errors
from osc_placement.microversion import Microversion

CONFLICT = "There was a conflict when trying to complete your request.\n\n "


@pytest.mark.parametrize(
    ("code", "text", "kind"),
    [
        ("placement.concurrent_update", "whatever", api_errors.GenerationConflict),
        (None, "resource provider generation conflict", api_errors.GenerationConflict),
        (None, "Resource provider's generation already changed.", api_errors.GenerationConflict),
        (
            None,
            "consumer generation conflict - expected 3 but got 1",
            api_errors.GenerationConflict,
        ),
        ("placement.inventory.inuse", "whatever", api_errors.InventoryInUse),
        (None, "Inventory for 'VCPU' on resource provider 'u' in use.", api_errors.InventoryInUse),
        (
            "placement.concurrent_update",
            "Unable to delete inventory of class VCPU: Inventory for 'VCPU' on resource"
            " provider 'u' in use.",
            api_errors.InventoryInUse,
        ),
        (None, "Conflicting resource provider name: x already exists.", api_errors.Conflict),
        ("placement.duplicate_name", "resource provider generation conflict", api_errors.Conflict),
    ],
)
def test_conflicts_are_told_apart(code: str | None, text: str, kind: type[Exception]) -> None:
    assert type(api_errors.from_status(409, CONFLICT + text, code=code, method="PUT")) is kind


@pytest.mark.parametrize(
    ("status", "method", "kind"),
    [
        (404, "GET", api_errors.NotFound),
        (406, "GET", api_errors.NotAcceptable),
        (400, "PUT", api_errors.ApiError),
        (401, "GET", api_errors.ApiError),
        (403, "GET", api_errors.Forbidden),
        (500, "GET", api_errors.ApiError),
        (500, "PUT", api_errors.OutcomeUnknown),
        (501, "PUT", api_errors.ApiError),
    ],
)
def test_statuses_are_told_apart(status: int, method: str, kind: type[Exception]) -> None:
    assert type(api_errors.from_status(status, "x", method=method)) is kind


def test_a_missing_version_is_told_as_upstream_tells_it() -> None:
    error = api_errors.UnsupportedVersion(
        "traits", Microversion(1, 6), Microversion(1, 5), "--trait"
    )
    assert str(error) == (
        "Operation or argument is not supported with version 1.5;"
        " requires at least version 1.6 (--trait, traits)"
    )


def test_every_reason_stands_on_a_line_of_its_own() -> None:
    assert str(errors.InvalidInput(["one", "two"])) == "one\ntwo"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "Access was denied to this resource.\n\n"
            " Policy does not allow placement:traits:list to be performed.  ",
            "Policy does not allow placement:traits:list to be performed. (HTTP 403):"
            " by default this needs the role admin or service",
        ),
        (
            "Access was denied to this resource.\n\n"
            " Policy does not allow placement:reshaper:reshape to be performed.  ",
            "Policy does not allow placement:reshaper:reshape to be performed. (HTTP 403):"
            " by default this needs the role service",
        ),
        (
            "Access was denied to this resource.\n\n placement:traits:list  ",
            "placement:traits:list needs a project-scoped token; this token has the scope of a"
            " domain or of the system (HTTP 403)",
        ),
        ("a proxy says no", "a proxy says no (HTTP 403)"),
    ],
)
def test_a_refusal_tells_which_right_is_missing(text: str, told: str) -> None:
    assert str(api_errors.from_status(403, text, method="GET")) == told
