# SPDX-License-Identifier: Apache-2.0
"""The options of nova.conf, and the facts of hosts and requests, that nova's scheduler reads.

The file of data has what ``lab/configuration_reads.py`` measured. ``python -m
lab.tests.test_configuration_reads`` writes it, and prints a table of the options with the filters
and request filters that read them, and the releases. ``--long`` asks every release.
"""

from __future__ import annotations

import collections
import json
from typing import Any

import pytest

from lab import install, place
from lab.tests.test_api_refusals import RELEASES, each_release

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]

FILE = place.HERE / "tests" / "data" / "configuration_reads.json"


def measure(release: int) -> dict[str, Any]:
    """What the scheduler of a release reads."""
    words = ("-m", "lab.configuration_reads")
    answer: dict[str, Any] = json.loads(install.output_of_release(place.find(), release, *words))
    return answer


def measured() -> dict[str, Any]:
    """``{release: what its scheduler reads}``, of the file."""
    answer: dict[str, Any] = json.loads(FILE.read_text())
    return answer


def readers() -> dict[str, dict[str, list[str]]]:
    """``{option: {filter or request filter: releases}}``."""
    table: dict[str, dict[str, list[str]]] = collections.defaultdict(dict)
    for release, reads in measured().items():
        options = {name: facts["options"] for name, facts in reads["filters"].items()}
        for name, names in {**options, **reads["request_filters"]}.items():
            for option in names:
                table[option].setdefault(name, []).append(release)
    return dict(sorted(table.items()))


@each_release
def test_the_scheduler_reads_what_was_measured(release: int) -> None:
    assert measure(release) == measured()[str(release)]


def write() -> None:
    data = {str(release): measure(release) for release in RELEASES}
    FILE.write_text(json.dumps(data, indent=1, sort_keys=True) + "\n")
    for option, names in readers().items():
        for name, releases in names.items():
            print(f"{option:62} {name:36} {' '.join(releases)}")


if __name__ == "__main__":
    write()
