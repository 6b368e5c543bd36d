"""The codes of findings: the documentation lists each of them, and nothing else."""

from __future__ import annotations

import pathlib
import re

from osc_placement.workflows.finding import Action

PAGE = pathlib.Path(__file__).parents[3] / "doc/source/user/audit.rst"


def test_the_documentation_lists_all_actions() -> None:
    section = PAGE.read_text().partition("\nActions, ")[2].partition("\n===")[0]
    listed = re.findall(r"^``([a-z-]+)``$", section, re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert set(listed) == {*Action}
