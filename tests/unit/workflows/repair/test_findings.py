# SPDX-License-Identifier: Apache-2.0
"""The documentation of both audits lists each action, and no other one."""

from __future__ import annotations

import pathlib
import re

from osc_placement.workflows.repair.findings import Remedy

PAGES = pathlib.Path(__file__).parents[4] / "doc/source/user/repair"


def test_the_documentation_lists_all_actions() -> None:
    section = _section("audit-output.rst", "\nActions, ", "\n===")
    listed = re.findall(r"^``([a-z-]+)``$", section, re.MULTILINE)
    assert len(listed) == len(set(listed))
    of_providers = re.findall(
        r"``([a-z-]+)``", _section("provider-audit.rst", "\nActions: ", "\n\n")
    )
    assert {*listed, *of_providers} - {"traits"} == {*Remedy}


def _section(page: str, start: str, end: str) -> str:
    return (PAGES / page).read_text().partition(start)[2].partition(end)[0]
