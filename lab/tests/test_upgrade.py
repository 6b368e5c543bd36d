# SPDX-License-Identifier: Apache-2.0
"""The facts about releases that ``placement upgrade check`` knows, measured on nova's releases."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from lab import place, release_tables
from osc_placement.scheduling import nova_options, releases
from osc_placement.workflows.health import upgrade_checks
from osc_placement.workflows.health.upgrade_requests import ReleaseStep
from osc_placement.workflows.repair import status

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def facts() -> dict[int, dict[str, Any]]:
    return release_tables.facts(place.find())


def test_the_tables_lack_nothing_and_invent_nothing(facts: dict[int, dict[str, Any]]) -> None:
    """``tools/release-tables`` writes the file."""
    assert json.loads(release_tables.PATH.read_text()) == release_tables.tables(facts)


def test_what_a_release_does_at_its_start_is_what_the_installed_release_does(
    facts: dict[int, dict[str, Any]],
) -> None:
    for release, measured in facts.items():
        assert measured["minimum"] == str(status.NOVA_NEEDS)
        assert measured["encryption"] is (release >= releases.ENCRYPTION_PROVIDERS_SINCE)
        assert measured["models"] is (release >= releases.SNP_SINCE)
        refused = "requires pci.report_in_placement" in measured["one_time_use"]
        assert refused is (release >= releases.ONE_TIME_USE_SINCE)
        assert measured["workaround"]


def test_a_step_fails_if_and_only_if_the_new_services_refuse_the_old_computes(
    facts: dict[int, dict[str, Any]],
) -> None:
    """``oldest`` is where nova's raise_if_old_compute ends to raise."""
    pairs = list(itertools.combinations(sorted(facts), 2))
    assert len(pairs) == 28
    for old, new in pairs:
        outcome = upgrade_checks.step(ReleaseStep(old, new, nova_options.SchedulerOptions()))
        is_refused = facts[old]["version"] < facts[new]["oldest"]
        assert (outcome.result == "failure") is is_refused, (old, new, outcome)
