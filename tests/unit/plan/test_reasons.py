# SPDX-License-Identifier: Apache-2.0
"""The codes of reasons: the documentation lists each of them, and nothing else."""

from __future__ import annotations

import pathlib
import re

from osc_placement.plan import guards, reasons
from osc_placement.plan.reasons import Code, Reason

PAGE = pathlib.Path(__file__).parents[3] / "doc/source/user/reference/reason-codes.rst"


def test_the_documentation_lists_all_codes() -> None:
    listed = re.findall(r"^``([a-z-]+)``$", PAGE.read_text(), re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert set(listed) == {*Code} - {Code.NONE}


def test_a_guard_of_a_plan_has_its_name_as_code() -> None:
    assert {*guards.ALL} <= {*Code}


def test_a_reason_without_a_text_is_false() -> None:
    assert not reasons.NONE
    assert Reason(Code.MOVING, "its resize is finished")


def test_several_reasons_have_each_code_once() -> None:
    found = [Reason(Code.OVER_CAPACITY, "a"), Reason(Code.OVER_CAPACITY, "b")]
    assert reasons.joined_codes([*found, Reason(Code.NO_HOST, "c")]) == "over-capacity,no-host"
    assert reasons.joined_texts(found) == "a; b"
    assert reasons.first_of(found) == Reason(Code.OVER_CAPACITY, "a; b")
