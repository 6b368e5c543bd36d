# SPDX-License-Identifier: Apache-2.0
"""Error classes by status, error code and, below 1.23, text."""

from __future__ import annotations

import pytest

from osc_placement import errors
from osc_placement.client import api_errors
from osc_placement.microversion import Microversion

CONFLICT = "There was a conflict when trying to complete your request.\n\n "


@pytest.mark.parametrize(
    ("code", "text", "kind"),
    [
        ("placement.concurrent_update", "any text", api_errors.GenerationConflict),
        (None, "resource provider generation conflict", api_errors.GenerationConflict),
        (None, "Resource provider's generation already changed.", api_errors.GenerationConflict),
        (
            None,
            "consumer generation conflict - expected 3 but got 1",
            api_errors.GenerationConflict,
        ),
        ("placement.inventory.inuse", "any text", api_errors.InventoryInUse),
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
def test_each_conflict_has_its_error_class(
    code: str | None, text: str, kind: type[Exception]
) -> None:
    assert type(api_errors.from_status(409, CONFLICT + text, error_code=code, method="PUT")) is kind


@pytest.mark.parametrize(
    ("status", "method", "kind"),
    [
        (404, "GET", api_errors.NotFound),
        (406, "GET", api_errors.ApiError),
        (400, "PUT", api_errors.BadRequest),
        (401, "GET", api_errors.Unauthorized),
        (403, "GET", api_errors.Forbidden),
        (500, "GET", api_errors.ApiError),
        (500, "PUT", api_errors.OutcomeUnknown),
        (501, "PUT", api_errors.ApiError),
    ],
)
def test_each_status_has_its_error_class(status: int, method: str, kind: type[Exception]) -> None:
    assert type(api_errors.from_status(status, "x", method=method)) is kind


def test_an_unsupported_version_has_the_message_of_upstream() -> None:
    error = api_errors.UnsupportedVersion(
        "traits", Microversion(1, 6), Microversion(1, 5), "--trait"
    )
    assert str(error) == (
        "Operation or argument is not supported with version 1.5;"
        " requires at least version 1.6 (--trait, traits)"
    )


def test_each_reason_has_its_own_line() -> None:
    assert str(errors.InvalidInput(["one", "two"])) == "one\ntwo"


@pytest.mark.parametrize(
    ("text", "message"),
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
            "placement:traits:list (HTTP 403): this needs a project-scoped token; this token has"
            " the scope of a domain or of the system",
        ),
        ("a proxy says no", "a proxy says no (HTTP 403)"),
    ],
)
def test_a_refusal_names_the_policy_rule_and_the_role(text: str, message: str) -> None:
    assert str(api_errors.from_status(403, text, method="GET")) == message
