# SPDX-License-Identifier: Apache-2.0
"""The facts about releases that ``placement upgrade check`` knows, measured on nova's releases."""

from __future__ import annotations

import pytest

from lab import install, place
from osc_placement.scheduling import releases
from osc_placement.workflows.repair import status

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]

#: Nova's names of releases; later ones are those that OpenStack has beside the number.
ALIASES = {
    "Yoga": 25, "Zed": 26, "Antelope": 27, "Bobcat": 28, "Caracal": 29, "Dalmatian": 30,
    "Epoxy": 31, "Flamingo": 32, "Gazpacho": 33, "Hibiscus": 34,
}  # fmt: skip


NEWEST = max(releases.NAMES)
RELEASES = [
    release if release >= NEWEST - 3 else pytest.param(release, marks=pytest.mark.long)
    for release in releases.NAMES
]


@pytest.mark.parametrize("release", RELEASES)
def test_the_tables_equal_what_the_installed_release_says(release: int) -> None:
    measured = install.ask_release(place.find(), release, "release_facts.py")
    oldest = ALIASES[measured["oldest"]]
    assert oldest == releases.OLDEST_COMPUTE.get(release, oldest)
    assert measured["minimum"] == str(status.NOVA_NEEDS)
    written = {name for name, since in releases.WRITTEN_SINCE.items() if since <= release}
    assert written == releases.WRITTEN_SINCE.keys() & set(measured["traits"])
    assert measured["encryption"] is (release >= releases.ENCRYPTION_PROVIDERS_SINCE)
    assert measured["models"] is (release >= releases.SNP_SINCE)
    refused = "requires pci.report_in_placement" in measured["one_time_use"]
    assert refused is (release >= releases.ONE_TIME_USE_SINCE)
