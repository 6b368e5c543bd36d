# SPDX-License-Identifier: Apache-2.0
"""The same answers from openstack-placement, the reference server, a database and a snapshot.

Services are read over the API, the others as a whole: two independent ways to each answer. A seed
asks about 20 questions. openstack-placement is asked about clouds without providers that share: it
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

from osc_placement import errors, microversion, server, testing
from osc_placement.client import api, api_errors, wsgi
from osc_placement.engine import record, standard, state
from osc_placement.model import candidate, constraint
from osc_placement.nova import api as nova_api
from osc_placement.plan import plan
from osc_placement.scheduling import nova_options
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.testing import service
from osc_placement.workflows.batch import mirror
from osc_placement.workflows.capacity import show
from osc_placement.workflows.cloud import compute_nodes, nova_servers, rehearsal
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.explain import explain, flavor_audit
from osc_placement.workflows.health import health
from osc_placement.workflows.moving import retire, stop_hosts
from osc_placement.workflows.repair import findings
from osc_placement.workflows.repair.allocations import audit as allocation_audit, heal
from osc_placement.workflows.repair.allocations.heal_request import HealRequest
from osc_placement.workflows.repair.providers import (
    audit as provider_audit,
    observe as providers_observe,
)
from osc_placement.workflows.snapshot import save
from tests.support.candidates import clouds, comparison, explained, random_queries
from tests.support.peer import target as targets

pytestmark = [pytest.mark.seeds(5, long=60), pytest.mark.timeout(120)]
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
        over_api = explained.as_service(placement, base)
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
            "snapshot": stack.enter_context(snapshot_of(over_api)),
        }


@contextlib.contextmanager
def snapshot_of(client: api.Client) -> Iterator[api.Client]:
    """A client of the snapshot of a cloud, at the same microversion."""
    with save.saved(client, CONTEXT) as path, rehearsal.opened_file(path) as copy:
        yield copy.at(client.microversion)


def nova_of(cloud: testing.Cloud) -> nova_api.RecordedNova:
    """Nova's half, with servers for most consumers, some where they have no allocations."""
    return nova_api.RecordedNova(cloud.nova(), "a test")


def questions(
    draw: random.Random, base: state.CloudState, nova: nova_api.Nova
) -> Iterator[tuple[str, Question]]:
    """``(name, question)``."""
    compute = compute_nodes.read_server_hosts(nova)
    roots = [base.providers[root].name for root in base.tree]
    for number in range(QUERIES):
        drawn = (random_queries.draw_query(draw, base, VERSION) for _ in itertools.count())
        query = next(itertools.filterfalse(repeats_class, drawn))
        yield f"explain {number}", functools.partial(explanation, query, compute)
        by = draw.choice((None, *(part for part in show.By if part is not show.By.ZONE)))
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


def repairs(nova: nova_api.Nova, roots: list[str]) -> Iterator[tuple[str, Question]]:
    """Findings and plans of repairs, which need the owners of consumers."""
    yield (
        "allocation audit",
        lambda client: shown(
            allocation_audit.audit_cloud(
                client, nova, allocation_audit.AuditRequest(repair=True, check_owners=True), CONTEXT
            )
        ),
    )
    yield (
        "provider audit",
        lambda client: shown(
            provider_audit.audit_providers(
                client, nova, None, providers_observe.ProviderAuditRequest(repair=True), CONTEXT
            )
        ),
    )
    request = HealRequest(check_owners=True)
    yield "heal", lambda client: of_plan(heal.plan_healing(client, nova, request, CONTEXT).plan)
    wanted = mirror.MirrorRequest(prune=True)
    yield "mirror", lambda client: of_plan(mirror.plan_mirror(client, nova, wanted, CONTEXT).plan)
    for root in roots:
        yield (
            f"retire {root}",
            lambda client, root=root: of_plan(
                retire.plan_retire(client, nova, [root], CONTEXT).plan
            ),
        )


def shown(result: findings.AuditResult[Any]) -> object:
    listed = [
        (item.code, item.subject, item.hosts, item.evidence.text, item.proposed.text)
        for item in result.findings
    ]
    return listed, of_plan(result.planned.plan), result.not_checked


def of_plan(planned: plan.Plan) -> object:
    """A plan without generations, which a service counts in another way."""
    return (
        [
            (item.kind, item.subject, item.before, item.after, item.reason)
            for item in planned.changes
        ],
        [(item.kind, item.subject, item.reason, item.code) for item in planned.skipped],
        planned.notes,
    )


def repeats_class(query: candidate.CandidateQuery) -> bool:
    """Whether openstack-placement adds amounts up in place, unless group_policy=none is given."""
    return comparison.adds_up(dataclasses.replace(query, isolate=True))


def explanation(
    query: candidate.CandidateQuery, compute: ServerHosts, client: api.Client
) -> object:
    explained_query = explain.ExplainedQuery(query, constraint.constraints_of(query))
    return explain.explain(client, [explained_query], CONTEXT, compute)


def checked(nova: nova_api.Nova, client: api.Client) -> list[Any]:
    """What health finds, without the figures that name the source."""
    areas = health.check_areas(health.HealthServices(client, nova, "no neutron"), CONTEXT)
    return [
        area._replace(problems=sorted(area.problems)) for area in areas if area.name != "placement"
    ]


def answered(question: Question, client: api.Client) -> object:
    """The answer, or the class of an error."""
    try:
        return question(client)
    except (errors.PlacementError, api_errors.ApiError) as error:
        return f"{type(error).__name__}: {error}"


def without_sharing(base: state.CloudState) -> state.CloudState:
    """The same cloud; no provider shares with other trees."""
    shares = frozenset({standard.SHARING_TRAIT})
    providers = {
        uuid: dataclasses.replace(provider, traits=provider.traits - shares)
        for uuid, provider in base.providers.items()
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
    cloud = testing.random_cloud(draw)
    base = clouds.state_of(cloud)
    if seed % 2:
        base = without_sharing(base)
    shares = base.with_trait[standard.SHARING_TRAIT]
    compared = answered_with_error = 0
    nova = nova_of(cloud)
    real = None if shares else real_placement
    roots = [*base.tree]
    asked = [
        *questions(draw, base, nova),
        *repairs(nova, draw.sample(roots, min(2, len(roots)))),
    ]
    with sources(base, str(tmp_path / "cloud.sqlite"), real) as clients:
        for name, question in asked:
            answers = {source: answered(question, client) for source, client in clients.items()}
            first = answers["service"]
            different = [source for source, answer in answers.items() if answer != first]
            assert not different, (name, different, first, answers[different[0]])
            compared += 1
            answered_with_error += isinstance(first, str)
    record_property("questions", compared)
    record_property("sources", len(clients))
    assert compared > answered_with_error
