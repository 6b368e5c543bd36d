# SPDX-License-Identifier: Apache-2.0
"""Random clouds and queries: the same candidates and errors as openstack-placement.

``tools/differential-candidates`` runs more of the queries that have candidates.
"""

from __future__ import annotations

import contextlib
import random

import pytest

from tests.support.candidates import comparison, spoilt
from tests.support.peer import target as targets
from tests.support.sequences import compare


@pytest.mark.parametrize("seed", range(8))
def test_search_finds_what_the_real_service_finds(
    seed: int, real_placement: targets.RealPlacement
) -> None:
    real_placement.reset()
    base, cases = comparison.draw_cases(seed, 30)
    comparison.seed(base, real_placement)
    for case in cases:
        real, ours = comparison.response_of(case, real_placement), comparison.result_of_search(case)
        if real != ours and not comparison.excuse(case, real, ours):
            pytest.fail("\n".join(comparison.describe(case, real, ours)))


@pytest.mark.seeds(2, long=60)
def test_a_spoilt_query_has_the_error_of_the_real_service_or_none(
    seed: int, real_placement: targets.RealPlacement
) -> None:
    """Also whether a name is looked up at all: an earlier condition may leave no provider."""
    draw = random.Random(seed)
    base, cases = comparison.draw_cases(seed, 40)
    real_placement.reset()
    with contextlib.ExitStack() as stack:
        ours = targets.Loopback(first_generation=0)
        stack.callback(ours.stop)
        for placement in (real_placement, ours):
            comparison.seed(base, placement)
        ask_real, ask_ours = (compare.Server(one.url) for one in (real_placement, ours))
        stack.callback(ask_real.close)
        stack.callback(ask_ours.close)
        for case in cases:
            request = spoilt.draw_request(draw, case)
            real, own = ask_real(request), ask_ours(request)
            # The candidates themselves have a comparison of their own, with known differences.
            if real.status == 500 or (real.status == own.status == 200 and "alloc" in request.path):
                continue
            assert not compare.difference(real, own), str(request)
