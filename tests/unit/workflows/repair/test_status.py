# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses

import pytest

from osc_placement.client import responses
from osc_placement.microversion import Microversion
from osc_placement.workflows.repair import status

FOUND = status.CloudStatus(
    target="here",
    server=(Microversion(1, 0), Microversion(1, 39)),
    in_use=Microversion(1, 39),
    pinned=False,
    providers=1,
    trees=1,
    custom_traits=0,
    custom_resource_classes=0,
    lacking=(),
    incomplete=responses.Usage({}, consumer_count=0),
)


@pytest.mark.parametrize(
    ("minor", "verdicts"),
    [
        (39, [status.CheckVerdict.SUCCESS] * 3),
        (
            36,
            [status.CheckVerdict.SUCCESS, status.CheckVerdict.WARNING, status.CheckVerdict.SUCCESS],
        ),
        (
            35,
            [status.CheckVerdict.FAILURE, status.CheckVerdict.WARNING, status.CheckVerdict.SUCCESS],
        ),
    ],
)
def test_checks_compare_the_server_with_the_needs_of_nova_and_the_client(
    minor: int, verdicts: list[status.CheckVerdict]
) -> None:
    server = (Microversion(1, 0), Microversion(1, minor))
    checks = list(status.checks(dataclasses.replace(FOUND, server=server)))
    assert [item.verdict for item in checks] == verdicts
    assert all(item.details for item in checks if item.verdict)


@pytest.mark.parametrize(
    ("incomplete", "verdict", "message"),
    [
        (responses.Usage({}, consumer_count=0), status.CheckVerdict.SUCCESS, ""),
        (responses.Usage({}), status.CheckVerdict.SUCCESS, ""),
        (
            responses.Usage({"VCPU": 2}),
            status.CheckVerdict.WARNING,
            "consumers have the placeholder project:",
        ),
        (responses.Usage({"VCPU": 2}, None, 3), status.CheckVerdict.WARNING, "3 consumers have"),
        (responses.Usage({"VCPU": 2}, None, 1), status.CheckVerdict.WARNING, "1 consumer has"),
        (None, status.CheckVerdict.WARNING, "not checked"),
    ],
)
def test_consumers_without_an_owner_are_reported(
    incomplete: responses.Usage | None, verdict: status.CheckVerdict, message: str
) -> None:
    check = list(status.checks(dataclasses.replace(FOUND, incomplete=incomplete)))[-1]
    assert check.verdict is verdict
    assert message in check.details
