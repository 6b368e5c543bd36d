# SPDX-License-Identifier: Apache-2.0
"""Verdicts are joined in one way."""

from __future__ import annotations

import pytest

from osc_placement.scheduling.answer import Answer, Caveats, Verdict, joined

YES, NO, UNKNOWN = Verdict(), Verdict(("down",)), Verdict(unknown=("a trait",))
BOTH = Verdict(("down",), ("a trait",))


@pytest.mark.parametrize(
    ("parts", "answer", "text"),
    [
        ((), Answer.YES, ""),
        ((YES, YES), Answer.YES, ""),
        ((YES, UNKNOWN), Answer.UNKNOWN, "a trait"),
        ((UNKNOWN, NO), Answer.NO, "down"),
        ((NO, UNKNOWN, YES), Answer.NO, "down"),
        ((BOTH, BOTH), Answer.NO, "down"),
        ((UNKNOWN, Verdict(unknown=("the image",)), UNKNOWN), Answer.UNKNOWN, "a trait; the image"),
    ],
)
def test_a_no_comes_before_what_is_not_known_and_that_before_a_yes(
    parts: tuple[Verdict, ...], answer: Answer, text: str
) -> None:
    joined = sum(parts, Verdict())
    assert (joined.answer, joined.text) == (answer, text)
    assert sum(parts[::-1], Verdict()).answer is answer


ONE = Caveats(("glance refuses",), ("local disks",), ("nova 34",), {"h1": "nova-compute down"})
OTHER = Caveats(("no aliases", "glance refuses"), (), ("nova 34",), {"h2": "disabled"})


def test_joined_caveats_have_each_line_once_in_their_order() -> None:
    assert (
        Caveats(
            ("glance refuses", "no aliases"),
            ("local disks",),
            ("nova 34",),
            {"h1": "nova-compute down", "h2": "disabled"},
        )
        == ONE + OTHER
    )
    assert joined([ONE, OTHER, ONE]) == ONE + OTHER


def test_nothing_beside_an_answer_changes_nothing() -> None:
    assert joined([]) == Caveats()
    assert ONE + Caveats() == Caveats() + ONE == ONE
