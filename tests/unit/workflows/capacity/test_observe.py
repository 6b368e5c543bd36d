"""A service, read with few requests, gives the same counts as its database."""

from __future__ import annotations

import dataclasses
import random

import pytest

from osc_placement import microversion
from osc_placement.client import api
from osc_placement.engine import state
from osc_placement.model import candidate
from osc_placement.testing import service
from osc_placement.workflows.capacity import count, observe
from osc_placement.workflows.cloud import observe as cloud_observe
from osc_placement.workflows.cloud.model import CloudModel
from osc_placement.workflows.context import ReadContext
from tests.support.candidates import cloud_builder, clouds, explained
from tests.support.candidates.clouds import group, provider, query

CONTEXT = ReadContext(workers=1)


def read(client: api.Client, request: candidate.CandidateQuery) -> CloudModel:
    """Read over the API, as from a service in another process."""
    model = cloud_observe.LiveReader(client, CONTEXT).read(request)
    base = observe.with_amounts(client, model.state, [model.query], CONTEXT)
    return dataclasses.replace(model, state=base)


def counted(base: state.State, request: candidate.CandidateQuery) -> tuple[int, int]:
    roots = [uuid for uuid, each in base.providers.items() if each.root_uuid == uuid]
    found = count.Counter(base, request).count(roots)
    return found.count.least, found.count.most


@pytest.mark.seeds(25, long=600)
def test_a_service_is_counted_as_its_database(
    seed: int, placement: service.InProcessPlacement
) -> None:
    draw = random.Random(f"capacity of a service {seed}")
    base = cloud_builder.draw_state(draw)
    client = explained.seeded(placement, base)
    for _ in range(3):
        request = cloud_builder.draw_query(draw, base, microversion.MAXIMUM)
        model = read(client, request)
        assert counted(model.state, model.query) == counted(base, request)


@pytest.mark.parametrize("hosts", [2, 40])
def test_the_number_of_requests_does_not_depend_on_the_hosts(
    hosts: int, placement: service.InProcessPlacement
) -> None:
    base = cloud_builder.draw_state(random.Random(0))
    client = explained.seeded(placement, base)
    for number in range(hosts):
        created = client.create_provider(f"host{number}")
        client.replace_inventories(
            created.uuid, created.generation, dict(provider("", VCPU=8, MEMORY_MB=64)[4])
        )
    client.sent.clear()
    request = query(group(VCPU=2, MEMORY_MB=1))
    model = read(client, request)
    assert counted(model.state, model.query)[0] >= 4 * hosts
    candidates = {key: n for key, n in client.sent.items() if key.startswith("allocation_cand")}
    # Two for VCPU (1 and the requested amount), one for MEMORY_MB.
    assert candidates == {"allocation_candidates/resources": 3}
    listings = client.sent.total() - 3
    sharing = sum(clouds.SHARES in each.traits for each in base.providers.values())
    assert 4 <= listings <= 4 + 2 * sharing
