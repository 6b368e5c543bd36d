# SPDX-License-Identifier: Apache-2.0
"""Recorded responses, kept compressed."""

from __future__ import annotations

import json

from osc_placement.model import recording


def test_responses_are_those_that_were_given() -> None:
    bodies = {"GET /a": {"ratio": 1.5, "names": ["ä"]}, "GET /b": []}
    responses = recording.CompressedResponses(
        (request, json.dumps(body).encode()) for request, body in bodies.items()
    )
    assert dict(responses) == bodies
    assert len(responses) == 2
