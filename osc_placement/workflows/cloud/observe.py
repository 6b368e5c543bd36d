"""Reading the providers that matter for one query.

A database file has everything. A live cloud is asked once per constraint, never once per provider.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from osc_placement.client import api, api_errors, retry
from osc_placement.engine import record, standard, state
from osc_placement.model import candidate, provider
from osc_placement.workflows.cloud import listings
from osc_placement.workflows.cloud.model import CloudModel
from osc_placement.workflows.context import ReadContext

LOG = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")


class _Repository(Protocol):
    def snapshot(self) -> contextlib.AbstractContextManager[state.State]: ...

    def open_part(self, resource_classes: frozenset[str], traits: frozenset[str]) -> None: ...


def _repository(client: api.Client) -> _Repository | None:
    found: _Repository | None = getattr(client.transport.application(), "repository", None)
    return found


def read_part(client: api.Client, queries: Iterable[candidate.CandidateQuery]) -> None:
    """Read of a database file only what these queries need, if nothing was read yet.

    A shortcut for commands that do nothing but evaluate the queries: reading all of a large file
    takes seconds. No effect on a service. Requests: none.
    """
    repository = _repository(client)
    if repository is not None:
        known = list(queries)
        repository.open_part(
            frozenset(name for each in known for name in listings.resource_classes(each)),
            frozenset(name for each in known for name in listings.traits(each)),
        )


@contextlib.contextmanager
def whole_state(client: api.Client) -> Iterator[state.State | None]:
    """The state of a database file, during the block; None for a service. Requests: none."""
    repository = _repository(client)
    if repository is None:
        yield None
        return
    with repository.snapshot() as base:
        yield base


@contextlib.contextmanager
def observed(
    client: api.Client,
    query: candidate.CandidateQuery,
    context: ReadContext,
    *,
    with_least: bool = False,
) -> Iterator[CloudModel]:
    """What is known of the cloud for a query, during the block.

    Requests: none on a database file; otherwise as ``LiveReader.read``.
    """
    with whole_state(client) as base:
        if base is None:
            yield LiveReader(client, context).read(query, with_least=with_least)
        else:
            yield CloudModel(base, query)


class LiveReader:
    """Reads a Placement service over its API."""

    def __init__(self, client: api.Client, context: ReadContext) -> None:
        self._client, self._context = client, context
        self._all: list[list[provider.Provider]] = []

    def providers(self) -> state.State:
        """All providers without inventories, traits and aggregates, but those that share.

        Requests: two, the first time.
        """
        self._list([])
        return self._draft().state()

    def read(self, query: candidate.CandidateQuery, *, with_least: bool = False) -> CloudModel:
        """The model for a query; its classes must exist.

        Requests: those of ``read_state``.
        Errors: TooManySums.
        """
        query = listings.merge_alternatives(query)
        base = self.read_state([query], with_least=with_least)
        return CloudModel(base, query, is_complete=False)

    def read_state(
        self,
        queries: Collection[candidate.CandidateQuery],
        sharing: Collection[str] = (),
        *,
        with_least: bool = False,
    ) -> state.State:
        """The state of a model for several queries of ``listings.merge_alternatives``.

        ``sharing`` are sharing providers that matter even if they have no room now.
        Requests: one listing of all providers and one of those that share resources, unless they
        are known; one for each trait, set of alternatives and aggregate of the queries, and for
        each amount of a class that one provider may have to supply (at most three per constraint,
        and one per class ``with_least``, for lower amounts); two for each sharing provider with
        such an amount.
        Errors: TooManySums.
        """
        needed = listings.needed(queries, with_least=with_least)
        resources = listings.pairs(needed)
        calls: list[Callable[[], list[provider.Provider]]] = [
            *(
                functools.partial(self._client.list_providers, resources={name: amount})
                for name, amount in resources
            ),
            *(functools.partial(self._with_trait, name) for name in needed.traits),
            *(
                functools.partial(self._client.list_providers, member_of=[name])
                for name in needed.aggregates
            ),
        ]
        answers = self._list(calls)
        traits_at = len(resources)
        aggregates_at = traits_at + len(needed.traits)
        draft = self._draft()
        for (name, amount), found in zip(resources, answers[:traits_at], strict=True):
            draft.add_amount(name, amount, found)
        for name, found in zip(needed.traits, answers[traits_at:aggregates_at], strict=True):
            draft.add_trait(name, found)
        for name, found in zip(needed.aggregates, answers[aggregates_at:], strict=True):
            draft.add_aggregate(name, found)
        any_class = any(not group.resources for query in queries for group in query.groups)
        sharing = sorted({*sharing, *draft.sharing(any_class)})
        members = self._context.each(self.members, sharing, "reading sharing providers")
        for uuid, found in zip(sharing, members, strict=True):
            draft.add_aggregate(f"shares:{uuid}", found)
        LOG.info("read %d providers with %d listings", len(draft.providers), len(calls))
        return draft.state()

    def _list(
        self, calls: Collection[Callable[[], list[provider.Provider]]]
    ) -> list[list[provider.Provider]]:
        """The answers of listings, which are sent with the first two of all if they are missing."""
        first: list[Callable[[], list[provider.Provider]]] = [
            self._client.list_providers,
            functools.partial(self._client.list_providers, required=[standard.SHARING_TRAIT]),
        ]
        missing = [] if self._all else first
        answers = list(self._context.each(retry.read, [*missing, *calls], "reading providers"))
        self._all = self._all or answers[: len(first)]
        return answers[len(missing) :]

    def _draft(self) -> _Draft:
        """A draft with all providers, and those that share."""
        every, sharing = self._all
        draft = _Draft(every)
        draft.add_trait(standard.SHARING_TRAIT, sharing)
        return draft

    def _with_trait(self, name: str) -> list[provider.Provider]:
        """The providers with a trait; none with a trait that does not exist."""
        try:
            return self._client.list_providers(required=[name])
        except api_errors.ApiError as error:
            if error.status != 400 or name.startswith("in:"):
                raise
            return []

    def members(self, uuid: str) -> list[provider.Provider]:
        """The providers that have an aggregate in common with a provider, itself included.

        Requests: two; one for a provider without aggregates.
        """
        aggregates = retry.read(functools.partial(self._client.list_aggregates, uuid)).aggregates
        if not aggregates:
            return []
        member_of = [listings.any_of(aggregates)]
        return retry.read(functools.partial(self._client.list_providers, member_of=member_of))


class _Draft:
    """Collects listings and builds a state from them."""

    def __init__(self, providers: Sequence[provider.Provider]) -> None:
        self.providers = {each.uuid: each for each in providers}
        self._traits: dict[str, set[str]] = {}
        self._aggregates: dict[str, dict[str, None]] = {}
        self._amounts: dict[str, dict[str, list[int]]] = {}

    def add_trait(self, name: str, found: Iterable[provider.Provider]) -> None:
        """Providers with a trait, or with one of several."""
        for each in found:
            self._traits.setdefault(each.uuid, set()).add(name)

    def add_aggregate(self, name: str, found: Iterable[provider.Provider]) -> None:
        """Members of an aggregate, or of one of several."""
        for each in found:
            shares = standard.SHARING_TRAIT in self._traits.get(each.uuid, ())
            merged = name.startswith("in:")
            own = listings.SHARING + name if shares and merged else name
            self._aggregates.setdefault(each.uuid, {})[own] = None

    def add_amount(self, name: str, amount: int, found: Iterable[provider.Provider]) -> None:
        """Providers with room for an amount of a class."""
        for each in found:
            self._amounts.setdefault(each.uuid, {}).setdefault(name, []).append(amount)

    def sharing(self, any_class: bool) -> list[str]:
        """The sharing providers that may serve the query; ``any_class``: those without room too."""
        return [
            uuid
            for uuid, names in self._traits.items()
            if standard.SHARING_TRAIT in names and (any_class or uuid in self._amounts)
        ]

    def state(self) -> state.State:
        """All providers, with what was listed of them."""
        records: dict[str, record.ProviderRecord | None] = {
            uuid: record.ProviderRecord(
                uuid,
                each.name,
                root_uuid=each.root_uuid or uuid,
                parent_uuid=each.parent_uuid,
                generation=each.generation,
                inventories={
                    name: listings.inventory_for(amounts)
                    for name, amounts in self._amounts.get(uuid, {}).items()
                },
                traits=frozenset(self._traits.get(uuid, ())),
                aggregates=tuple(self._aggregates.get(uuid, ())),
            )
            for uuid, each in self.providers.items()
        }
        found = state.State()
        found.apply(record.Changes(records))
        return found
