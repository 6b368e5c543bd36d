# SPDX-License-Identifier: Apache-2.0
"""The steps of an action of a server."""

from __future__ import annotations

import pytest

from osc_placement.nova import api, servers

PATH = "/servers/a/os-instance-actions/req-1"


@pytest.mark.parametrize(("result", "failed"), [("Error", True), ("Success", False), (None, False)])
def test_a_step_failed_if_its_result_is_an_error(result: str | None, failed: bool) -> None:
    step = {"event": "compute_prep_resize", "start_time": "2026-11-27", "result": result}
    answer = {"instanceAction": {"events": [step]}}
    (event,) = servers.events(api.RecordedNova({f"GET /v2.1{PATH}": answer}, ""), "a", "req-1")
    assert event.failed is failed
