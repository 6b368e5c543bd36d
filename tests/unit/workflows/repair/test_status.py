# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses

import pytest

from osc_placement.client import responses
from osc_placement.microversion import Microversion
from osc_placement.workflows.repair import status

SUCCESS, WARNING, FAILURE = status.CheckVerdict
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
        (39, [SUCCESS] * 3),
        (36, [SUCCESS, WARNING, SUCCESS]),
        (35, [FAILURE, WARNING, SUCCESS]),
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
        (responses.Usage({}, consumer_count=0), SUCCESS, ""),
        (responses.Usage({}), SUCCESS, ""),
        (responses.Usage({"VCPU": 2}), WARNING, "consumers have the placeholder project:"),
        (responses.Usage({"VCPU": 2}, None, 3), WARNING, "3 consumers have"),
        (responses.Usage({"VCPU": 2}, None, 1), WARNING, "1 consumer has"),
        (None, WARNING, "not checked"),
    ],
)
def test_consumers_without_an_owner_are_reported(
    incomplete: responses.Usage | None, verdict: status.CheckVerdict, message: str
) -> None:
    check = list(status.checks(dataclasses.replace(FOUND, incomplete=incomplete)))[-1]
    assert check.verdict is verdict
    assert message in check.details
