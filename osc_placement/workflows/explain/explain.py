"""The explanation of a query: read the cloud, then judge it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from osc_placement import errors
from osc_placement.client import api, lookup, query as queries, retry
from osc_placement.model import candidate, constraint
from osc_placement.model.constraint import Constraint
from osc_placement.workflows.cloud import listings, observe, trees
from osc_placement.workflows.cloud.model import CloudModel
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

    Requests: on a database file one, which checks the query; plus those of
    ``lookup.find_providers`` for named hosts. On a service also those of ``LiveReader.read``, up to
    five for each explained tree, and up to one for each change that lowers amounts.
    Errors: ApiError as Placement refuses the query; UnknownProvider.
    """
    observe.read_part(client, [request.query])
    given = request.parameters or queries.candidate_pairs(request.query)
    pairs = [*(pair for pair in given if pair[0] != "limit"), ("limit", "1")]
    retry.read(lambda: client.list_allocation_candidates(pairs))
    named = lookup.find_providers(client, request.hosts)
    errors.InputErrors(
        lookup.unknown_provider(text) for text in request.hosts if text not in named
    ).check()
    roots = list(dict.fromkeys(each.root_uuid or each.uuid for each in named.values()))
    with observe.observed(client, request.query, context, with_least=True) as model:
        return _Explainer(client, request, context, model).explain(roots)


class _Explainer:
    def __init__(
        self,
        client: api.Client,
        request: ExplainRequest,
        context: ReadContext,
        model: CloudModel,
    ) -> None:
        self._reader = trees.TreeReader(client, context)
        self._request, self._model = request, model
        self._order = _in_model(request, model)
        self._relaxations = Relaxations(model, list(self._order))

    def explain(self, named: Sequence[str]) -> Explanation:
        model = self._model
        every = [each.uuid for each in model.roots()]
        steps = {root: self._relaxations.step(root) for root in every}
        serving = [root for root, step in steps.items() if step == len(self._order)]
        failing = [root for root in every if steps[root] < len(self._order)]
        chosen = list(named) or ([] if serving else self._nearest(failing, steps))
        detailed = self._reader.with_trees(model, chosen)
        found: list[Change] = []
        if not serving:
            found = changes.of_query(model, self._relaxations, failing, self._read_capacities)
            for root in chosen:
                found += changes.of_host(detailed.state, detailed.query, root)
        return Explanation(
            len(every),
            tuple(self._funnel(steps)),
            tuple(model.names(serving)),
            tuple(model.names(chosen)),
            tuple(failures.explained(detailed.state, detailed.query, chosen)),
            tuple(map(self._of_request, found)),
        )

    def _of_request(self, change: Change) -> Change:
        """The change with the constraints of the request instead of the model's."""
        return dataclasses.replace(
            change,
            removed=tuple(sorted(self._order[each] for each in change.removed)),
            amounts={self._order[each]: amount for each, amount in change.amounts.items()},
        )

    def _funnel(self, steps: Mapping[str, int]) -> list[FunnelStep]:
        return [
            FunnelStep(self._order[each], sum(step >= count for step in steps.values()))
            for count, each in enumerate(self._order, start=1)
        ]

    def _nearest(self, failing: Sequence[str], steps: Mapping[str, int]) -> list[str]:
        """The hosts that fail the fewest constraints, first those that have every class."""
        base = self._model.state
        classes = listings.resource_classes(self._model.query)

        def distance(root: str) -> tuple[int, int, int, str]:
            sizes = [len(each) for each in self._relaxations.smallest(root)]
            least = min(sizes, default=len(self._order))
            missing = len(classes - self._relaxations.classes_of(root))
            return least, missing, -steps[root], base.providers[root].name

        return sorted(failing, key=distance)[: self._request.nearest]

    def _read_capacities(self, query: candidate.CandidateQuery) -> CloudModel:
        pairs = queries.candidate_pairs(listings.split_alternatives(query))
        return self._reader.with_capacities(self._model, pairs)


def _in_model(request: ExplainRequest, model: CloudModel) -> dict[Constraint, Constraint]:
    """``{constraint of the model's query: constraint of the request}``, in the funnel's order."""
    mine = constraint.constraints_of(model.query)
    theirs = constraint.constraints_of(request.query)
    found = dict(zip(theirs, mine, strict=True))
    return {found[each]: each for each in request.order}
