# SPDX-License-Identifier: Apache-2.0
"""The facts about releases that ``placement upgrade check`` knows, measured on nova's releases."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from lab import install, place, release_tables
from osc_placement.nova import compute_options, values
from osc_placement.scheduling import nova_options, releases, request
from osc_placement.workflows.cloud.cloud import Cloud
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


ALIAS = {"name": "a", "vendor_id": "10de", "product_id": "1eb8", "device_type": "type-PCI"}
NO_TYPE = {key: value for key, value in ALIAS.items() if key != "device_type"}
CLASS = {"name": "a", "resource_class": "PGPU"}
#: The aliases of one nova.conf each; each is started with and without pci_in_placement.
ALIASES: tuple[list[dict[str, str]], ...] = (
    [], [ALIAS], [ALIAS, ALIAS], [NO_TYPE], [NO_TYPE, NO_TYPE], [ALIAS, NO_TYPE], [CLASS],
    [CLASS, CLASS], [ALIAS, {**ALIAS, "name": "b", "device_type": "type-VF"}],
    *([ALIAS, {**ALIAS, **more}] for more in (
        {"device_type": "type-VF"}, {"product_id": "1eb9"}, {"numa_policy": "required"},
        {"numa_policy": "legacy"}, {"live_migratable": "yes"},
    )),
    *([{**ALIAS, **more}] for more in (
        {"device_type": "x"}, {"numa_policy": "socket"}, {"numa_policy": "x"}, {"vendor_id": "zz"},
        {"vendor_id": "10D"}, {"vendor_id": "10DE"}, {"product_id": "1eb8A"}, {"color": "red"},
        {"capability_type": "pci"}, {"capability_type": "x"}, {"live_migratable": "True"},
        {"live_migratable": "x"}, {"live_migratable": ""}, {"name": ""}, {"name": "x" * 256},
        {"name": "x" * 257}, {"traits": "CUSTOM_A,!"}, {"traits": ""}, {"resource_class": ""},
        {"resource_class": "gpu"},
    )),
    *([{key: value for key, value in ALIAS.items() if key != gone}]
      for gone in ("vendor_id", "product_id")),
)  # fmt: skip


@pytest.mark.parametrize("release", releases.NAMES)
def test_a_nova_conf_fails_if_and_only_if_nova_compute_does_not_start(release: int) -> None:
    cases = [
        {"alias": [json.dumps(alias) for alias in aliases], "in_placement": in_placement}
        for aliases in ALIASES
        for in_placement in (False, True)
    ]
    theirs = install.ask_release(place.find(), release, "compute_start.py", cases)
    compute = compute_options.ComputeOptions("nova.conf")
    differences = []
    for case, error in zip(cases, theirs, strict=True):
        options = nova_options.SchedulerOptions(
            aliases=nova_options.read_aliases(case["alias"]), pci_in_placement=case["in_placement"]
        )
        step = ReleaseStep(27, release, options, compute)
        nothing = Cloud(values.Hosts(), {})
        outcome = upgrade_checks.compute_options(nothing, step)
        if (outcome.result == "failure") is not bool(error):
            differences.append(f"{case}: {error or 'starts'}, not {outcome}")
    print(f"nova {release}: {len(cases)} files, {sum(map(bool, theirs))} do not start")
    assert not differences, "\n".join(differences)
    assert any(theirs) is (release >= request.ALIASES_CHECKED_SINCE)


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
