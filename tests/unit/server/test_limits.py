# SPDX-License-Identifier: Apache-2.0
"""Limits of the time and the size of candidate searches, and snapshots of the state."""

from __future__ import annotations

import webob

from benchmarks import cloud
from osc_placement import server
from tests.support.in_process import ask
from tests.support.load.expensive import DEVICES, devices, packing


def detail(answer: webob.Response) -> str:
    return str(answer.json["errors"][0]["detail"])


def test_a_search_beyond_its_time_is_refused_with_advice() -> None:
    document, path = packing()
    app = server.create_app(load=document, request_limits=server.Limits(search_seconds=0.3))
    answer = ask(app, f"{path}&limit=1")
    assert answer.status_int == 400
    assert "more than 0.3 seconds. Narrow the query" in detail(answer)


def test_a_response_beyond_its_size_is_refused() -> None:
    limits = server.Limits(response_bytes=100_000)
    app = server.create_app(load=cloud.wide_host(DEVICES), request_limits=limits)
    answer = ask(app, devices(1, 1, 1))
    assert answer.status_int == 400
    assert "more than 100000 bytes. Set a lower limit." in detail(answer)
    assert ask(app, devices(1, 1, 1) + "&limit=10").status_int == 200


def test_a_write_during_a_snapshot_does_not_change_it() -> None:
    app = server.create_app(load=cloud.flat_hosts(1))
    with app.repository.snapshot() as before:
        with app.repository.write() as draft:
            draft.put_trait("CUSTOM_A")
            draft.remove_provider(next(iter(before.providers)))
        assert "CUSTOM_A" not in before.traits
        assert len(before.providers) == len(list(before.tree)) == 1
        assert before.with_class["VCPU"]
    with app.repository.read() as after:
        assert "CUSTOM_A" in after.traits
        assert not after.providers
        assert not list(after.tree)
        assert not after.with_class["VCPU"]
