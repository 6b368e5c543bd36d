# SPDX-License-Identifier: Apache-2.0
"""The few wide requests of ``wide.read`` give the answers of a complete reading."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pytest

from osc_placement import errors, microversion
from osc_placement.client import api_errors, responses
from osc_placement.engine import record, state
from osc_placement.model import candidate, constraint, inventory
from osc_placement.testing import service
from osc_placement.workflows.answers.capacity import show
from osc_placement.workflows.answers.explain import explain
from osc_placement.workflows.cloud import hosts, observe, wide
from osc_placement.workflows.cloud.context import ReadContext
from tests.support.candidates import cloud_builder, clouds, explained

VERSION = microversion.MAXIMUM
CONTEXT = ReadContext(workers=1)
NAME = "00000000-0000-4000-8000-{:012}"

#: VCPU, MEMORY_MB
REQUEST = clouds.query(clouds.group(VCPU=8, MEMORY_MB=64))


def draw_hosts(draw: random.Random, number: int) -> state.CloudState:
    """Hosts of a few kinds: some are full, some have a small max_unit or unusual units."""
    kinds: list[dict[str, inventory.Inventory]] = [
        {
            "VCPU": _draw_inventory(draw, 32),
            "MEMORY_MB": _draw_inventory(draw, 256),
            **({"PCPU": _draw_inventory(draw, 8)} if draw.random() < 0.3 else {}),
        }
        for _ in range(4)
    ]
    providers = []
    used: dict[str, Mapping[str, int]] = {}
    for at in range(number):
        kind = draw.choice(kinds)
        providers.append(clouds.provider(NAME.format(at), **kind))
        is_full = draw.random() < 0.2
        used[NAME.format(at)] = {
            name: max(each.capacity, 1) if is_full else draw.randint(1, max(each.capacity, 1))
            for name, each in kind.items()
        }
    return with_use(clouds.cloud(*providers), used)


def with_use(base: state.CloudState, used: Mapping[str, Mapping[str, int]]) -> state.CloudState:
    consumer = record.ConsumerRecord(NAME.format(999), 1, "p", "u", used)
    base.apply(record.Changes(consumers={consumer.uuid: consumer}))
    return base


def _draw_inventory(draw: random.Random, total: int) -> inventory.Inventory:
    total = draw.randint(total // 2, total)
    return inventory.Inventory(
        total,
        reserved=draw.choice((0, 0, 2)),
        min_unit=draw.choice((1, 1, 1, 2)),
        max_unit=draw.choice((total, total, total // 2, 5)),
        step_size=draw.choice((1, 1, 1, 2, 3)),
        allocation_ratio=draw.choice((1.0, 1.0, 1.5, 4.0)),
    )


def draw_request(draw: random.Random) -> candidate.CandidateQuery:
    amounts = {"VCPU": draw.randint(1, 40), "MEMORY_MB": draw.randint(1, 300)}
    for name in draw.sample(sorted(amounts), draw.choice((0, 0, 1))):
        del amounts[name]
    return clouds.query(clouds.group(**amounts))


def answers(client: Any, queries: Sequence[candidate.CandidateQuery]) -> Any:
    """What explain and capacity show say."""
    requests = [
        explain.ExplainedQuery(query, constraint.constraints_of(query)) for query in queries
    ]
    asked = show.ShowRequest({str(at): query for at, query in enumerate(queries)})
    each = dataclasses.replace(asked, by=show.By.HOST)
    return (
        [answer(partial(explain.explain, client, [request], CONTEXT)) for request in requests],
        answer(partial(show.show, client, asked, CONTEXT)),
        answer(partial(show.show, client, each, CONTEXT)),
    )


def answer(ask: Callable[[], object]) -> object:
    """The answer, or the error."""
    try:
        return ask()
    except errors.PlacementError as error:
        return repr(error)


@pytest.mark.seeds(10, long=400)
@pytest.mark.parametrize("trees", ["flat", "any"])
def test_wide_requests_and_a_complete_reading_give_the_same_answers(
    seed: int, trees: str, placement: service.InProcessPlacement, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(f"wide {seed}")
    if trees == "flat":
        base = draw_hosts(draw, draw.choice((5, 30, 60)))
        queries = [draw_request(draw) for _ in range(3)]
    else:
        # Nested and sharing, with traits, aggregates and several groups.
        base = cloud_builder.draw_state(draw)
        queries = [cloud_builder.draw_query(draw, base, VERSION) for _ in range(2)]
    client = as_service(placement, base)
    short = answers(client, queries)

    def complete(
        client: Any, context: ReadContext, queries: Any, more: Any = (), **options: Any
    ) -> wide.ObservedCloud:
        return wide.ObservedCloud(
            observe.CloudReader(client, context).read(queries, more, **options)
        )

    monkeypatch.setattr(wide, "read", complete)
    assert short == answers(client, queries)


def as_service(
    placement: service.InProcessPlacement, base: state.CloudState
) -> explained.CountingClient:
    client = explained.seeded(placement, base)
    client.transport.local = lambda: None
    return client


def serving(base: state.CloudState) -> set[str]:
    return set(hosts.HostSearch(base, REQUEST).serving())


@pytest.mark.parametrize("number", [50, 500])
def test_the_number_of_requests_does_not_grow_with_the_hosts(
    number: int, placement: service.InProcessPlacement
) -> None:
    base = clouds.cloud(
        *(clouds.provider(NAME.format(at), VCPU=4 + at % 8, MEMORY_MB=128) for at in range(number))
    )
    client = as_service(placement, base)
    assert serving(wide.read(client, CONTEXT, [REQUEST]).base) == serving(base)
    assert client.sent == {
        "resource_providers/": 1,
        "resource_providers/required": 1,
        "allocation_candidates/resources": 1,
        # 1 and the requested amount of each class.
        "resource_providers/resources": 4,
    }


@pytest.mark.parametrize(
    "error",
    [
        *(lambda status=status: refusal(status) for status in (400, 413, 429, 500, 504)),
        lambda: api_errors.TimedOut("no answer in 60 seconds"),
        lambda: api_errors.TooLarge("more than 1 GiB"),
        lambda: api_errors.ConnectionFailed("the connection was closed"),
    ],
)
def test_a_refused_wide_request_is_replaced_by_one_for_each_host(
    error: Callable[[], Exception],
    placement: service.InProcessPlacement,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    base = clouds.cloud(
        *(clouds.provider(NAME.format(at), VCPU=4 + at % 8, MEMORY_MB=128) for at in range(20))
    )
    client = as_service(placement, base)

    def refuse(request: Any) -> responses.Candidates:
        raise error()

    monkeypatch.setattr(client, "list_allocation_candidates", refuse)
    assert serving(wide.read(client, CONTEXT, [REQUEST]).base) == serving(base)
    assert client.sent["resource_providers/inventories/"] == 20
    assert "each of the 20 providers is read" in caplog.text


def test_a_listing_that_is_refused_while_hosts_are_refined_reads_each_provider(
    placement: service.InProcessPlacement,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    base = clouds.cloud(
        *(
            clouds.provider(NAME.format(at), VCPU=inventory.Inventory(16, max_unit=4 + at % 3))
            for at in range(20)
        )
    )
    client = as_service(placement, base)
    cloud = wide.read(client, CONTEXT, [clouds.query(clouds.group(VCPU=8))])

    def refuse(**_: Any) -> list[Any]:
        raise refusal(504)

    monkeypatch.setattr(client, "list_providers", refuse)
    smaller = clouds.query(clouds.group(VCPU=5))
    # Also what shows a smaller max_unit of other providers is a listing.
    for roots in ([NAME.format(0)], ()):
        cloud.refine(roots, [smaller])
    found, expected = (
        hosts.HostSearch(each, smaller).serving(list(base.providers)) for each in (cloud.base, base)
    )
    assert (found, cloud.open_trees()) == (expected, [])
    assert 0 < len(expected) < 20
    assert "every provider is read" in caplog.text


def test_a_busy_service_is_asked_again(
    placement: service.InProcessPlacement, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = clouds.cloud(*(clouds.provider(NAME.format(at), VCPU=8) for at in range(20)))
    client = as_service(placement, base)
    answers, failures = client.list_allocation_candidates, [refusal(503), refusal(429)]

    def busy(request: Any) -> responses.Candidates:
        if failures:
            raise failures.pop()
        return answers(request)

    monkeypatch.setattr(client, "list_allocation_candidates", busy)
    wide.read(client, CONTEXT, [clouds.query(clouds.group(VCPU=1))])
    assert not failures
    assert not client.sent["resource_providers/inventories/"]


def refusal(status: int) -> Exception:
    return api_errors.from_status(status, detail="too much", method="GET", url="/")


def test_the_hosts_that_a_service_cuts_off_are_read_one_by_one(
    placement: service.InProcessPlacement,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    base = clouds.cloud(
        *(clouds.provider(NAME.format(at), VCPU=4 + at % 8, MEMORY_MB=128) for at in range(40))
    )
    client = as_service(placement, base)
    complete = client.list_allocation_candidates

    def cut(pairs: Any) -> responses.Candidates:
        return complete(
            [("limit", "10") if name == "limit" else (name, text) for name, text in pairs]
        )

    monkeypatch.setattr(client, "list_allocation_candidates", cut)
    assert serving(wide.read(client, CONTEXT, [REQUEST]).base) == serving(base)
    assert client.sent["resource_providers/inventories/"] == 30
    assert "30 are read one by one" in caplog.text


def test_trees_without_room_are_found_by_their_other_classes(
    placement: service.InProcessPlacement,
) -> None:
    used = {NAME.format(at): {"MEMORY_MB": 128, "VCPU": 8} for at in range(40)}
    with_pcpu = (
        clouds.provider(NAME.format(at), VCPU=8, MEMORY_MB=128, PCPU=1) for at in range(40)
    )
    base = with_use(clouds.cloud(*with_pcpu), used)
    client = as_service(placement, base)
    read = wide.read(client, CONTEXT, [REQUEST]).base
    assert client.sent["resource_providers/inventories/"] == 8
    for uuid in base.providers:
        assert {name: used for name, used in read.used(uuid).items() if used} == base.used(uuid)
        assert read.providers[uuid].inventories.keys() == base.providers[uuid].inventories.keys()
