# SPDX-License-Identifier: Apache-2.0
"""What explain reads in the log of nova's scheduler, as each release writes it.

``--long`` asks every release.
"""

from __future__ import annotations

import pathlib

import pytest

from lab.tests import test_api_refusals as nova
from osc_placement.workflows.explain import request_log

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]

QUESTIONS = (
    {"way": "boot", "candidates": True},
    {"way": "boot", "candidates": False},
    {"way": "boot", "candidates": True, "specs": {"capabilities:x": "y"}},
    {"way": "boot", "candidates": True, "image": {"hw_architecture": "aarch64"}},
)
ACCEPTED = [("ComputeFilter", 3, 3), ("ComputeCapabilitiesFilter", 3, 3)]
#: What the log of each question has, with ``[DEFAULT]debug`` and without it.
FILTERS = {
    True: [
        [
            *ACCEPTED,
            ("ImagePropertiesFilter", 3, 3),
            ("ServerGroupAntiAffinityFilter", 3, 3),
            ("ServerGroupAffinityFilter", 3, 3),
        ],
        [],
        [ACCEPTED[0], ("ComputeCapabilitiesFilter", 3, 0)],
        [*ACCEPTED, ("ImagePropertiesFilter", 3, 0)],
    ],
}
#: Without debug, only a search that finds no host is logged.
FILTERS[False] = [[], *FILTERS[True][1:]]


@nova.each_release
@pytest.mark.parametrize("debug", [True, False])
def test_the_filters_of_a_request_are_found(
    release: int, debug: bool, tmp_path: pathlib.Path
) -> None:
    log = tmp_path / "nova.log"
    words = (str(log), *(["--debug"] if debug else []))
    answers = nova.ask_module(release, "lab.scheduler_log", QUESTIONS, *words)
    logs = [request_log.read([log], answer["request"]) for answer in answers]
    assert [item.has_no_candidates for item in logs] == [False, True, False, False]
    assert [[tuple(step) for step in item.filters] for item in logs] == FILTERS[debug]
    options = ["debug = True" in "".join(item.missing) for item in logs]
    assert options == [not debug, False, False, False]
