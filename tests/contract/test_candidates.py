"""Random clouds and queries: the search finds the same candidates as openstack-placement.

``tools/differential-candidates`` runs more of them.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.candidates import comparison
from tests.support.peer import target as targets


@pytest.mark.parametrize("seed", range(8))
def test_search_finds_what_the_real_service_finds(
    seed: int, real_placement: targets.RealPlacement
) -> None:
    def send(method: str, path: str, body: Any, version: str) -> tuple[int, Any]:
        answer = real_placement.request(method, path, body, version)
        return answer.status_code, answer.json() if answer.content else None

    real_placement.reset()
    base, cases = comparison.draw_cases(seed, 30)
    comparison.seed(base, send)
    for case in cases:
        real, ours = comparison.response_of(case, send), comparison.result_of_search(case)
        if real != ours and not comparison.excuse(case, real, ours):
            pytest.fail("\n".join(comparison.describe(case, real, ours)))
