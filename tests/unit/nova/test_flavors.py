# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import types
from typing import Any

import pytest

from osc_placement import errors
from osc_placement.nova import flavors


def glance(status: int, text: str) -> flavors.SessionGlance:
    """Glance behind a connection that answers every request with this text."""
    response = types.SimpleNamespace(
        status_code=status, reason="Not Found", headers={}, json=lambda: json.loads(text)
    )
    image = types.SimpleNamespace(request=lambda path, method, **options: response)
    return flavors.SessionGlance(types.SimpleNamespace(image=image))


@pytest.mark.parametrize(
    ("status", "text", "message"),
    [
        (404, "{}", "glance, GET /images/x: Not Found"),
        (200, "<html>", "glance, GET /images/x: the response is not JSON"),
    ],
)
def test_errors_of_glance_name_the_request(status: int, text: str, message: str) -> None:
    with pytest.raises(flavors.GlanceRefused, match=message):
        glance(status, text).ask("/images/x")


def test_an_answer_of_glance_is_parsed() -> None:
    body: Any = {"images": []}
    assert glance(200, json.dumps(body)).ask("/images") == body


def test_an_image_without_an_id_is_an_error_of_glance() -> None:
    with pytest.raises(errors.PlacementError, match="glance's response to /images lacks a field"):
        flavors.image(glance(200, "{}"), "x")
