# SPDX-License-Identifier: Apache-2.0
"""A service, read with a few wide requests, answers about hosts as its database does."""

from __future__ import annotations

import random

import pytest

from osc_placement.testing import service
from osc_placement.workflows.cloud.hosts import hosts_of
from osc_placement.workflows.moving import stop_hosts
from tests.support.candidates import explained
from tests.support.capacity import brute_force


@pytest.mark.seeds(40, long=1000)
def test_a_service_and_its_database_give_the_same_answer(
    seed: int, placement: service.InProcessPlacement
) -> None:
    draw = random.Random(f"host check {seed}")
    base, _ = brute_force.cloud_with_servers(draw, 6, small=draw.random() < 0.5)
    names = [base.providers[root].name for root in hosts_of(base)]
    chosen = draw.sample(names, draw.randint(1, min(3, len(names))))
    most = draw.choice((None, None, 1, 2))
    request = stop_hosts.StopRequest(chosen, most=most, only_placement=True)
    client = explained.seeded(placement, base)
    whole = stop_hosts.check(client, request)
    assert not client.sent
    client.transport.local = lambda: None
    assert stop_hosts.check(client, request) == whole
