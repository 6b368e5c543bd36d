# SPDX-License-Identifier: Apache-2.0
"""Random requests: the reference server answers what openstack-placement answers.

``tools/differential-sequences`` does the same for as long as one likes.
"""

from __future__ import annotations

import pathlib

import pytest

from tests.support.sequences import run


@pytest.mark.seeds(1, long=20)
def test_a_random_sequence_is_answered_alike(seed: int, tmp_path: pathlib.Path) -> None:
    differences = [str(difference) for difference in run.differences(seed, 400, tmp_path)]
    assert not differences, "\n\n".join(differences)
