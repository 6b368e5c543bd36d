# SPDX-License-Identifier: Apache-2.0
"""The few wide requests of ``Wide`` give the answers of a complete reading."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pytest

from osc_placement import errors, microversion
from osc_placement.client import api_errors, responses, retry
from osc_placement.engine import state
from osc_placement.model import candidate, constraint, inventory
from osc_placement.testing import service
from osc_placement.workflows.capacity import show
from osc_placement.workflows.cloud import hosts, wide
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.explain import explain
from tests.support.candidates import clouds, explained, random_queries

VERSION = microversion.MAXIMUM
CONTEXT = ReadContext(workers=1)
NAME = "00000000-0000-4000-8000-{:012}"
AGGREGATE = "aaaaaaaa-0000-4000-8000-{:012}"

#: VCPU, MEMORY_MB
REQUEST = clouds.query(clouds.group(VCPU=8, MEMORY_MB=64))


def draw_hosts(draw: random.Random, number: int) -> state.CloudState:
    """Hosts of a few kinds: some are full, some have a small max_unit or unusual units.

    Some are Ironic nodes: one unit of one class, in use or free.
    """
    kinds: list[dict[str, inventory.Inventory]] = [
        {
            "VCPU": _draw_inventory(draw, 32),
            "MEMORY_MB": _draw_inventory(draw, 256),
            **({"PCPU": _draw_inventory(draw, 8)} if draw.random() < 0.3 else {}),
        }
        for _ in range(4)
    ]
    kinds.append({"CUSTOM_BAREMETAL": inventory.Inventory(1, reserved=draw.choice((0, 0, 1)))})
    providers = [clouds.provider(NAME.format(number), **kinds[-1])]
    used: dict[str, Mapping[str, int]] = {}
    for at in range(number):
        kind = draw.choice(kinds)
        providers.append(clouds.provider(NAME.format(at), **kind))
        is_full = draw.random() < 0.2
        used[NAME.format(at)] = {
            name: max(offer.capacity, 1) if is_full else draw.randint(1, max(offer.capacity, 1))
            for name, offer in kind.items()
        }
    return clouds.cloud(*providers, used=used)


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
    if draw.random() < 0.2:
        return clouds.query(clouds.group(CUSTOM_BAREMETAL=draw.choice((1, 1, 2))))
    amounts = {"VCPU": draw.randint(1, 40), "MEMORY_MB": draw.randint(1, 300)}
    for name in draw.sample(sorted(amounts), draw.choice((0, 0, 1))):
        del amounts[name]
    return clouds.query(clouds.group(**amounts))


def answers(client: Any, queries: Sequence[candidate.CandidateQuery]) -> Any:
    """What explain and capacity show say."""
    requests = [
        explain.ExplainedQuery(query, constraint.constraints_of(query)) for query in queries
    ]
    show_request = show.ShowRequest({str(at): ((query,),) for at, query in enumerate(queries)})
    by_host = dataclasses.replace(show_request, by=show.By.HOST)
    return (
        [answer(partial(explain.explain, client, [request], CONTEXT)) for request in requests],
        answer(partial(show.show, client, show_request, CONTEXT)),
        answer(partial(show.show, client, by_host, CONTEXT)),
    )


def answer(ask: Callable[[], object]) -> object:
    """The answer, or the error."""
    try:
        return ask()
    except errors.PlacementError as error:
        return repr(error)


@pytest.mark.seeds(10, long=400)
@pytest.mark.parametrize("trees", ["flat", "any"])
def test_wide_requests_and_the_database_give_the_same_answers(
    seed: int, trees: str, placement: service.InProcessPlacement
) -> None:
    draw = random.Random(f"wide {seed}")
    if trees == "flat":
        base = draw_hosts(draw, draw.choice((5, 30, 60)))
        queries = [draw_request(draw) for _ in range(3)]
    else:
        # Nested and sharing, with traits, aggregates and several groups.
        base = clouds.draw_state(draw)
        queries = [random_queries.draw_query(draw, base, VERSION) for _ in range(2)]
    client = explained.seeded(placement, base)
    of_database = answers(client, queries)
    client.transport.local = lambda: None
    assert answers(client, queries) == of_database


def read_wide(client: Any, queries: Any, **options: Any) -> wide.Wide:
    return wide.Wide(wide.WideReader(client, CONTEXT), queries, **options)


def serving(base: state.CloudState) -> set[str]:
    return set(hosts.HostSearch(base, REQUEST).hosts())


@pytest.mark.parametrize("number", [50, 500])
def test_the_number_of_requests_does_not_grow_with_the_hosts(
    number: int, placement: service.InProcessPlacement
) -> None:
    base = clouds.cloud(
        *(clouds.provider(NAME.format(at), VCPU=4 + at % 8, MEMORY_MB=128) for at in range(number))
    )
    client = explained.as_service(placement, base)
    assert serving(read_wide(client, [REQUEST]).base) == serving(base)
    assert client.sent == {
        "resource_providers/": 1,
        "resource_providers/required": 1,
        "allocation_candidates/resources": 1,
        # 1 and the requested amount of each class.
        "resource_providers/resources": 4,
    }


def test_one_of_many_hosts_with_the_same_small_max_unit_is_read(
    placement: service.InProcessPlacement,
) -> None:
    small = inventory.Inventory(16, max_unit=4)
    base = clouds.cloud(
        *(
            clouds.provider(NAME.format(at), VCPU=small if at % 2 else 16, MEMORY_MB=128)
            for at in range(50)
        )
    )
    client = explained.as_service(placement, base)
    cloud = read_wide(client, [clouds.query(clouds.group(VCPU=2, MEMORY_MB=64))])
    assert cloud.refine((), [REQUEST])
    assert serving(cloud.base) == serving(base)
    assert client.sent["resource_providers/inventories/"] == 1


def test_full_hosts_are_not_read_for_groups_with_one_class(
    placement: service.InProcessPlacement,
) -> None:
    names = [NAME.format(at) for at in range(30)]
    base = clouds.cloud(
        *(clouds.provider(name, VCPU=8, MEMORY_MB=128) for name in names),
        used={name: {"VCPU": 8} for name in names[10:]},
    )
    client = explained.as_service(placement, base)
    groups = [clouds.group(suffix, VCPU=5) for suffix in ("1", "2")]
    read_wide(client, [clouds.query(*groups)])
    assert client.sent["resource_providers/inventories/"] == 10


def a_cloud(number: int, aggregates: Mapping[int, Sequence[int]] | None = None) -> state.CloudState:
    """Hosts; ``aggregates``: the numbers of the aggregates of each."""
    return clouds.cloud(
        *(
            clouds.provider(
                NAME.format(at),
                aggregates=" ".join(
                    AGGREGATE.format(each) for each in (aggregates or {}).get(at, ())
                ),
                VCPU=4 + at % 8,
                MEMORY_MB=128,
            )
            for at in range(number)
        )
    )


@pytest.mark.parametrize(
    "error",
    [
        *(lambda status=status: refusal(status) for status in (400, 413, 429, 500, 504)),
        lambda: api_errors.TimedOut("no answer in 60 seconds"),
        lambda: api_errors.TooLarge("more than 1 GiB"),
        lambda: api_errors.ConnectionFailed("the connection was closed"),
    ],
)
@pytest.mark.parametrize(
    ("most", "by_aggregate", "one_by_one"),
    [
        # Each aggregate is answered; none; the smaller one.
        (40, 90, 10),
        (0, 0, 100),
        (30, 60, 40),
    ],
)
def test_a_refused_request_for_all_hosts_is_replaced_by_narrower_ones_and_single_reads(
    error: Callable[[], Exception],
    most: int,
    by_aggregate: int,
    one_by_one: int,
    placement: service.InProcessPlacement,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    base = a_cloud(100, {at: [at // 30] for at in range(90)})
    sizes = {AGGREGATE.format(0): 25, AGGREGATE.format(1): 28, AGGREGATE.format(2): 35}
    client = explained.as_service(placement, base)
    complete, narrow = client.list_allocation_candidates, list[str]()

    def refuse(pairs: Any) -> responses.Candidates:
        aggregate = dict(pairs).get("member_of", "")
        narrow.append(aggregate)
        if not aggregate or sizes[aggregate] > most:
            raise error()
        return complete(pairs)

    monkeypatch.setattr(client, "list_allocation_candidates", refuse)
    monkeypatch.setattr(retry, "backoff", lambda _: [0.0, 0.0])
    assert serving(read_wide(client, [REQUEST]).base) == serving(base)
    assert client.sent["resource_providers/inventories/"] == one_by_one
    assert f"{by_aggregate} are read by aggregate, {one_by_one} one by one" in caplog.text
    assert len(caplog.records) == 1


@pytest.mark.parametrize("answered", range(4))
def test_a_refused_listing_is_replaced_by_single_reads(
    answered: int,
    placement: service.InProcessPlacement,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    base = a_cloud(20)
    client = explained.as_service(placement, base)
    complete, left = client.list_providers, [None] * (answered + 1)

    def refuse(**parts: Any) -> list[Any]:
        if "resources" in parts:
            if not left:
                raise refusal(504)
            left.pop()
        return complete(**parts)

    left.pop()
    monkeypatch.setattr(client, "list_providers", refuse)
    monkeypatch.setattr(retry, "backoff", lambda _: [0.0, 0.0])
    cloud = read_wide(client, [REQUEST])
    assert (serving(cloud.base), cloud.open_trees()) == (serving(base), [])
    assert client.sent["resource_providers/inventories/"] == 20
    assert caplog.text.count("each of the 20 providers is read") == 1


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
    client = explained.as_service(placement, base)
    cloud = read_wide(client, [clouds.query(clouds.group(VCPU=8))])

    def refuse(**_: Any) -> list[Any]:
        raise refusal(504)

    monkeypatch.setattr(client, "list_providers", refuse)
    smaller = clouds.query(clouds.group(VCPU=5))
    # Also what shows a smaller max_unit of other providers is a listing.
    for roots in ([NAME.format(0)], ()):
        cloud.refine(roots, [smaller])
    found, expected = (
        hosts.HostSearch(each, smaller).hosts(list(base.providers)) for each in (cloud.base, base)
    )
    assert (found, cloud.open_trees()) == (expected, [])
    assert 0 < len(expected) < 20
    assert "each of the 20 providers is read" in caplog.text


def test_a_busy_service_is_asked_again(
    placement: service.InProcessPlacement, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = clouds.cloud(*(clouds.provider(NAME.format(at), VCPU=8) for at in range(20)))
    client = explained.as_service(placement, base)
    answers, failures = client.list_allocation_candidates, [refusal(503), refusal(429)]

    def busy(request: Any) -> responses.Candidates:
        if failures:
            raise failures.pop()
        return answers(request)

    monkeypatch.setattr(client, "list_allocation_candidates", busy)
    read_wide(client, [clouds.query(clouds.group(VCPU=1))])
    assert not failures
    assert not client.sent["resource_providers/inventories/"]


def refusal(status: int) -> Exception:
    return api_errors.from_status(status, detail="too much", method="GET", url="/")


@pytest.mark.parametrize(
    ("aggregates", "asked", "by_aggregate"),
    [
        ({}, 0, 0),
        ({at: [at // 10] for at in range(100)}, 9, 90),
        # Some are in no aggregate; each of the others is in one with all and in a small one.
        ({at: [99, at // 10] for at in range(60)}, 6, 50),
        # The first ten of an aggregate are known already.
        ({at: [99] for at in range(100)}, 1, 0),
        # The last eight are too few for a request.
        ({at: [0 if at < 20 else (at - 20) // 9 + 1] for at in range(10, 100)}, 9, 82),
    ],
)
def test_the_hosts_that_a_service_cuts_off_are_read_by_aggregate_and_one_by_one(
    aggregates: Mapping[int, Sequence[int]],
    asked: int,
    by_aggregate: int,
    placement: service.InProcessPlacement,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    base = a_cloud(100, aggregates)
    client = explained.as_service(placement, base)
    complete = client.list_allocation_candidates

    def cut(pairs: Any) -> responses.Candidates:
        return complete(
            [("limit", "10") if name == "limit" else (name, text) for name, text in pairs]
        )

    monkeypatch.setattr(client, "list_allocation_candidates", cut)
    assert serving(read_wide(client, [REQUEST]).base) == serving(base)
    one_by_one = 90 - by_aggregate
    assert client.sent["resource_providers/inventories/"] == one_by_one
    assert client.sent["allocation_candidates/resources"] == 1 + asked
    assert f"{by_aggregate} are read by aggregate, {one_by_one} one by one" in caplog.text


def a_liar(
    client: Any, monkeypatch: pytest.MonkeyPatch, lie: Callable[[dict[str, Any]], object]
) -> None:
    """Change the summaries of each answer with candidates."""
    truth = client.list_allocation_candidates

    def answer(pairs: Any) -> responses.Candidates:
        verdict = truth(pairs)
        summaries = dict(verdict.summaries)
        lie(summaries)
        return verdict._replace(summaries=summaries)

    monkeypatch.setattr(client, "list_allocation_candidates", answer)


def test_what_a_service_leaves_out_of_a_tree_is_read(
    placement: service.InProcessPlacement, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = clouds.cloud(
        *(clouds.provider(NAME.format(at), MEMORY_MB=128) for at in range(20)),
        *(
            clouds.provider(f"{at:08}-1111-4000-8000-000000000000", parent=NAME.format(at), VCPU=8)
            for at in range(20)
        ),
    )
    client = explained.as_service(placement, base)

    def leave_out(summaries: dict[str, Any]) -> None:
        for uuid in [uuid for uuid in summaries if "-1111-" in uuid][:5]:
            del summaries[uuid]

    a_liar(client, monkeypatch, leave_out)
    assert serving(read_wide(client, [REQUEST]).base) == serving(base)
    assert client.sent["resource_providers/inventories/"] == 10


def test_a_summary_that_contradicts_a_listing_is_replaced_by_single_reads(
    placement: service.InProcessPlacement, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = a_cloud(20)
    client = explained.as_service(placement, base)

    def lower(summaries: dict[str, Any]) -> None:
        for at, (uuid, summary) in enumerate(list(summaries.items())[:6]):
            resources = dict(summary.resources)
            if at % 2:
                del resources["VCPU"]
            else:
                resources["VCPU"] = resources["VCPU"]._replace(used=4)
            summaries[uuid] = summary._replace(resources=resources)

    a_liar(client, monkeypatch, lower)
    assert serving(read_wide(client, [REQUEST]).base) == serving(base)
    assert 0 < client.sent["resource_providers/inventories/"] <= 6


def test_trees_without_room_are_found_by_their_other_classes(
    placement: service.InProcessPlacement,
) -> None:
    used = {NAME.format(at): {"MEMORY_MB": 128, "VCPU": 8} for at in range(40)}
    with_pcpu = (
        clouds.provider(NAME.format(at), VCPU=8, MEMORY_MB=128, PCPU=1) for at in range(40)
    )
    base = clouds.cloud(*with_pcpu, used=used)
    client = explained.as_service(placement, base)
    read = read_wide(client, [REQUEST]).base
    assert client.sent["resource_providers/inventories/"] == 8
    for uuid in base.providers:
        assert {name: used for name, used in read.used(uuid).items() if used} == base.used(uuid)
        assert read.providers[uuid].inventories.keys() == base.providers[uuid].inventories.keys()
