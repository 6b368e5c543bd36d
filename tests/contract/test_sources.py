# SPDX-License-Identifier: Apache-2.0
"""The same answers from openstack-placement, the reference server, a database and a snapshot.

Services are read over the API, the others as a whole: two independent ways to each answer. A seed
asks up to 17 questions. openstack-placement is asked about clouds without providers that share: it
loses candidates of the others, see the page Conformance.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import pathlib
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from osc_placement import errors, microversion, server
from osc_placement.client import api, api_errors, wsgi
from osc_placement.engine import record, standard, state
from osc_placement.model import candidate, constraint
from osc_placement.nova import api as nova_api
from osc_placement.scheduling import nova_options
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.testing import service
from osc_placement.workflows.capacity import show
from osc_placement.workflows.cloud import compute_nodes, nova_servers
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.explain import explain, flavor_audit
from osc_placement.workflows.health import health
from osc_placement.workflows.moving import stop_hosts
from osc_placement.workflows.snapshot import replay
from tests.support.candidates import cloud_builder, comparison, explained
from tests.support.clouds import compute_services
from tests.support.peer import target as targets

pytestmark = [pytest.mark.seeds(14, long=60), pytest.mark.timeout(120)]
CONTEXT = ReadContext(workers=1)
VERSION = microversion.MAXIMUM
QUERIES = 4

Question = Callable[[api.Client], object]


@contextlib.contextmanager
def sources(
    base: state.CloudState, path: str, real: targets.RealPlacement | None
) -> Iterator[Mapping[str, api.Client]]:
    """``{source: its client}`` of one cloud; ``real`` is None to leave openstack-placement out."""
    with contextlib.ExitStack() as stack:
        placement = stack.enter_context(service.InProcessPlacement())
        explained.seed(placement, base)
        over_api = placement.client(VERSION)
        over_api.transport.local = lambda: None
        with service.InProcessPlacement(database=path) as file:
            explained.seed(file, base)
        app = stack.enter_context(contextlib.closing(server.create_app(path, lazily=True)))
        others = {}
        if real is not None:
            real.reset()
            comparison.seed(base, real)
            others["openstack-placement"] = targets.client_at(real.url, version=VERSION)
        yield {
            "service": over_api,
            **others,
            "reference server": placement.client(VERSION),
            "database": api.Client(wsgi.in_process(lambda: app, path), VERSION),
            "snapshot": stack.enter_context(replay.copied(over_api, CONTEXT)),
        }


def nova_of(draw: random.Random, roots: list[str]) -> nova_api.RecordedNova:
    """Hosts in random states, and some flavors with traits."""
    flavors = [
        {
            "id": str(number), "name": f"f{number}", "vcpus": draw.randint(1, 4), "swap": 0,
            "ram": draw.randint(1, 8), "disk": draw.randint(0, 4), "OS-FLV-EXT-DATA:ephemeral": 0,
            "extra_specs": draw.choice(({}, {}, {"trait:HW_CPU_X86_AVX": "required"})),
        }
        for number in range(QUERIES)
    ]  # fmt: skip
    answers = {
        "GET /v2.1/flavors/detail": {"flavors": flavors},
        "GET /v2.1/os-aggregates": {"aggregates": []},
        "GET /v2.1/servers/detail": {"servers": []},
        "GET /v2.1/os-migrations": {"migrations": []},
        "GET /v2.1/os-server-groups": {"server_groups": []},
    }
    return compute_services.nova(compute_services.draw_states(draw, roots), **answers)


def questions(
    draw: random.Random, base: state.CloudState, nova: nova_api.Nova
) -> Iterator[tuple[str, Question]]:
    """``(name, question)``."""
    compute = compute_nodes.read_server_hosts(nova)
    roots = [each.name for each in base.providers.values() if each.uuid == each.root_uuid]
    for number in range(QUERIES):
        drawn = (cloud_builder.draw_query(draw, base, VERSION) for _ in itertools.count())
        query = next(itertools.filterfalse(repeats_class, drawn))
        yield f"explain {number}", functools.partial(explanation, query, compute)
        by = draw.choice((None, *(each for each in show.By if each is not show.By.ZONE)))
        counted = show.ShowRequest({"query": ((dataclasses.replace(query, limit=None),),)}, by=by)
        reader = nova_servers.NovaReader(compute)
        yield (
            f"capacity {number} by {by}",
            functools.partial(show.show, request=counted, context=CONTEXT, nova=reader),
        )
    for root in draw.sample(roots, min(QUERIES, len(roots))):
        stops = stop_hosts.StopRequest([root])
        yield (
            f"host check {root}",
            functools.partial(
                stop_hosts.check,
                request=stops,
                nova=nova_servers.NovaReader(compute),
                context=CONTEXT,
            ),
        )
    yield (
        "flavor audit",
        lambda client: flavor_audit.audit(
            client, nova, (), nova_options.SchedulerOptions(), CONTEXT, compute
        ),
    )
    yield "health", functools.partial(checked, nova)


def repeats_class(query: candidate.CandidateQuery) -> bool:
    """Whether openstack-placement adds amounts up in place, unless group_policy=none is given."""
    return comparison.adds_up(dataclasses.replace(query, isolate=True))


def explanation(
    query: candidate.CandidateQuery, compute: ServerHosts, client: api.Client
) -> object:
    asked = explain.ExplainedQuery(query, constraint.constraints_of(query))
    return explain.explain(client, [asked], CONTEXT, compute)


def checked(nova: nova_api.Nova, client: api.Client) -> list[Any]:
    """What health finds, without the figures that name the source."""
    areas = health.examine(health.HealthServices(client, nova, "no neutron"), CONTEXT)
    return [
        area._replace(problems=sorted(area.problems)) for area in areas if area.name != "placement"
    ]


def answered(question: Question, client: api.Client) -> object:
    """The answer, or the class of an error."""
    try:
        return question(client)
    except (errors.PlacementError, api_errors.ApiError) as error:
        return type(error).__name__


def without_sharing(base: state.CloudState) -> state.CloudState:
    """The same cloud; no provider shares with other trees."""
    shares = frozenset({standard.SHARING_TRAIT})
    providers = {
        uuid: dataclasses.replace(each, traits=each.traits - shares)
        for uuid, each in base.providers.items()
    }
    changed = base.copy()
    changed.apply(record.Changes(providers))
    return changed


def test_every_source_gives_the_same_answer(
    seed: int,
    tmp_path: pathlib.Path,
    real_placement: targets.RealPlacement,
    record_property: Callable[[str, object], None],
) -> None:
    draw = random.Random(f"sources {seed}")
    base = cloud_builder.draw_state(draw)
    if seed % 2:
        base = without_sharing(base)
    shares = base.with_trait[standard.SHARING_TRAIT]
    asked = answered_with_error = 0
    roots = [uuid for uuid, each in base.providers.items() if each.root_uuid == uuid]
    nova = nova_of(draw, roots)
    real = None if shares else real_placement
    with sources(base, str(tmp_path / "cloud.sqlite"), real) as clients:
        for name, question in questions(draw, base, nova):
            answers = {source: answered(question, client) for source, client in clients.items()}
            first = answers["service"]
            different = [source for source, answer in answers.items() if answer != first]
            assert not different, (name, different, first, answers[different[0]])
            asked += 1
            answered_with_error += isinstance(first, str)
    record_property("questions", asked)
    record_property("sources", len(clients))
    assert asked > answered_with_error
