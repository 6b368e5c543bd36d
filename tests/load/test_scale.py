# SPDX-License-Identifier: Apache-2.0
"""The work grows with the request, not with the cloud; see ``tools/benchmark --scale``."""

from __future__ import annotations

import sys
from typing import Any

import webob

from benchmarks import cloud, operations, scale
from osc_placement import server
from tests.support.in_process import ask

TEN_FLAT = operations.QUERIES[1].path


def work(app: server.App, path: str) -> tuple[webob.Response, int]:
    """The response to a request, and the number of calls of functions that it takes."""
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    former = sys.getprofile()
    sys.setprofile(count)
    try:
        answer = ask(app, path)
    finally:
        sys.setprofile(former)
    return answer, calls


def test_ten_candidates_take_the_same_work_in_a_large_and_in_a_small_cloud() -> None:
    calls = []
    for hosts in (scale.SMALL // 4, scale.SMALL * 2):
        app = server.create_app(load=cloud.flat_hosts(hosts))
        ask(app, TEN_FLAT.format(amount=256))
        answer, number = work(app, TEN_FLAT.format(amount=257))
        assert len(answer.json["allocation_requests"]) == 10
        calls.append(number)
    assert calls[1] < 1.2 * calls[0]


def test_too_many_candidates_are_refused_and_a_few_take_little_work() -> None:
    app = server.create_app(load=cloud.wide_host(scale.DEVICES))
    answer, calls = work(app, f"{scale.TOO_MANY}&limit=10")
    assert len(answer.json["allocation_requests"]) == 10
    assert calls < 5_000
    answer = ask(app, scale.TOO_MANY)
    assert answer.status_int == 400
    assert "limit" in answer.json["errors"][0]["detail"]
