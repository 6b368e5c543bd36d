"""The explanation of a query: read the cloud, then judge it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from osc_placement.client import api, lookup, query as queries, retry
from osc_placement.engine import state
from osc_placement.model import candidate
from osc_placement.model.constraint import Constraint
from osc_placement.workflows import selector
from osc_placement.workflows.cloud import observe
from osc_placement.workflows.context import ReadContext
from osc_placement.workflows.explain import changes, failures
from osc_placement.workflows.explain.relaxations import Relaxations
from osc_placement.workflows.explain.values import Change, Failure, FunnelStep

#: Hosts that are explained if none is named.
NEAREST = 3


@dataclasses.dataclass(frozen=True, slots=True)
class ExplainRequest:
    """A query, and the hosts to explain: those named, or ``nearest`` ones if none can serve it.

    ``order`` are the constraints of the query in the order of the funnel. ``parameters`` is the
    query as the operator gave it, which Placement checks; empty if only ``query`` is known.
    """

    query: candidate.CandidateQuery
    order: Sequence[Constraint]
    hosts: Sequence[str] = ()
    nearest: int = NEAREST
    parameters: Sequence[tuple[str, str]] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Explanation:
    """Why a query has the candidates that it has.

    ``all_hosts`` is the number of provider trees; ``candidates`` are the names of the hosts that
    can serve the query; ``explained`` are the names of the explained hosts.
    """

    all_hosts: int
    funnel: tuple[FunnelStep, ...]
    candidates: tuple[str, ...]
    explained: tuple[str, ...]
    failures: tuple[Failure, ...]
    changes: tuple[Change, ...]


def explain(client: api.Client, request: ExplainRequest, context: ReadContext) -> Explanation:
    """Explain a query.

    Requests: one, which checks the query; those of ``lookup.find_providers`` for named hosts; on a
    service also those of ``CloudReader.read``.
    Errors: ApiError as Placement refuses the query; UnknownProvider.
    """
    observe.read_part(client, [request.query])
    given = request.parameters or queries.candidate_pairs(request.query)
    pairs = [*(pair for pair in given if pair[0] != "limit"), ("limit", "1")]
    retry.read(lambda: client.list_allocation_candidates(pairs))
    roots = _roots(client, request.hosts, context)
    with observe.observed(client, [request.query], context) as base:
        return _Explainer(request, base).explain(roots)


def _roots(client: api.Client, hosts: Sequence[str], context: ReadContext) -> list[str]:
    """The root UUIDs of hosts by name or UUID. Errors: UnknownProvider."""
    providers = {}

    def find(texts: Sequence[str]) -> dict[str, str]:
        named = lookup.find_providers(client, texts)
        providers.update({item.uuid: item for item in named.values()})
        return {text: item.uuid for text, item in named.items()}

    uuids = selector.host_uuids(find, hosts, context.compute_hosts)
    named = (providers[uuid] for found in uuids.values() for uuid in found)
    return list(dict.fromkeys(item.root_uuid or item.uuid for item in named))


class _Explainer:
    def __init__(self, request: ExplainRequest, base: state.State) -> None:
        self._request, self._base, self._query = request, base, request.query
        self._order = list(request.order)
        self._relaxations = Relaxations(base, request.query, self._order)

    def explain(self, named: Sequence[str]) -> Explanation:
        base, query = self._base, self._query
        every = [uuid for uuid, each in base.providers.items() if each.root_uuid == uuid]
        steps = {root: self._relaxations.step(root) for root in every}
        serving = [root for root, step in steps.items() if step == len(self._order)]
        failing = [root for root in every if steps[root] < len(self._order)]
        chosen = list(named) or ([] if serving else self._nearest(failing, steps))
        found: list[Change] = []
        if not serving:
            found = changes.of_query(base, query, self._relaxations, failing)
            for root in chosen:
                found += changes.of_host(base, query, root)
        return Explanation(
            len(every),
            tuple(self._funnel(steps)),
            tuple(base.providers[root].name for root in serving),
            tuple(base.providers[root].name for root in chosen),
            tuple(failures.explained(base, query, chosen)),
            tuple(found),
        )

    def _funnel(self, steps: Mapping[str, int]) -> list[FunnelStep]:
        return [
            FunnelStep(each, sum(step >= count for step in steps.values()))
            for count, each in enumerate(self._order, start=1)
        ]

    def _nearest(self, failing: Sequence[str], steps: Mapping[str, int]) -> list[str]:
        """The hosts that fail the fewest constraints, first those that have every class."""
        base = self._base
        classes = observe.resource_classes([self._query])

        def distance(root: str) -> tuple[int, int, int, str]:
            sizes = [len(each) for each in self._relaxations.smallest(root)]
            least = min(sizes, default=len(self._order))
            missing = len(classes - self._relaxations.classes_of(root))
            return least, missing, -steps[root], base.providers[root].name

        return sorted(failing, key=distance)[: self._request.nearest]
