# SPDX-License-Identifier: Apache-2.0
"""Names and lists of names."""

from __future__ import annotations

from osc_placement.model import name


def test_a_long_list_of_names_ends_with_the_number_of_the_others() -> None:
    assert name.and_more(["a", "b", "c"]) == "a, b, c"
    assert name.and_more(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"
    assert name.and_more(["a", "b"], limit=1) == "a and 1 more"
