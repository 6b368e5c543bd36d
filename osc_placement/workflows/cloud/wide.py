# SPDX-License-Identifier: Apache-2.0
"""Reading what queries need of a service, with a number of requests that hosts do not multiply.

One request for candidates has the capacity, usage and traits of all trees with room. Placement's
listings say which providers can supply an amount, whatever decides it: what is free, max_unit,
min_unit or step_size. Single requests read only the trees without any room, sharing providers,
unusual units, and what ``refine`` is told to read. This module sends requests.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from osc_placement.client import api_errors, responses, retry
from osc_placement.engine import standard, state
from osc_placement.model import candidate
from osc_placement.model.inventory import Inventories, subset_sums
from osc_placement.workflows.cloud import observe
from osc_placement.workflows.cloud.estimate import Amount, Estimate

LOG = logging.getLogger(__name__)

R = TypeVar("R")

#: Classes of which nearly every host has some: their candidates have nearly all trees.
_COMMON = ("MEMORY_MB", "VCPU", "DISK_GB")

#: Trees that are rather read one by one than with one more request for all.
_FEW = 8

#: Sums of the amounts of several groups that are listed; for more, each provider is read.
_MOST_SUMS = 8

#: Requests by aggregate for hosts that a request for all did not return.
_NARROWER = 40

#: Times that a request for all hosts is sent to a service that is busy.
_ATTEMPTS = 3

#: Statuses of a service that cannot, or will not, answer a request for all hosts.
_REFUSED = frozenset({400, 413, 414, 429})


class ObservedCloud:
    """A state that answers queries as the cloud does.

    This class has every record; ``Wide`` knows some inventories as far as the queries need them.
    """

    def __init__(self, base: state.CloudState) -> None:
        self.base = base

    def refine(
        self,
        roots: Collection[str] | None = (),
        queries: Collection[candidate.CandidateQuery] = (),
    ) -> bool:
        """Make ``base`` exact for these trees (None: for all) and queries; whether it changed.

        Requests: none.
        """
        return False

    def open_trees(self) -> list[str]:
        """The roots of the trees of which not every inventory is known exactly."""
        return []


class _Refused(Exception):
    """Placement does not answer a request for all hosts."""


class WideReader(observe.CloudReader):
    """Sends the requests that are about all hosts."""

    def trees_with(
        self, resource_class: str, aggregate: str = ""
    ) -> Mapping[str, responses.ProviderSummary]:
        """The summaries of all trees with room of a class, or of those in an aggregate.

        Requests: one. Errors: _Refused.
        """
        pairs = [("resources", f"{resource_class}:1"), ("limit", str(max(len(self.listed), 1)))]
        if aggregate:
            pairs.append(("member_of", aggregate))

        def send(pairs: list[tuple[str, str]]) -> Mapping[str, responses.ProviderSummary]:
            return _asked(lambda: self._client.list_allocation_candidates(pairs)).summaries

        where = "an aggregate" if aggregate else "all hosts"
        title = f"reading capacity and use of {where} by {resource_class}"
        (answer,) = self._context.each(send, [pairs], title)
        return answer

    def aggregates_of(self, provider: str) -> Sequence[str]:
        """The aggregates of a provider, none if it was deleted. Requests: one."""
        return self._reader.aggregates([provider]).get(provider, ())

    def supplying(self, amounts: Iterable[Amount]) -> dict[Amount, frozenset[str]]:
        """``{(class, amount): the providers that can supply it}``. Requests: one for each."""

        def listed(amount: Amount) -> frozenset[str]:
            name, requested = amount
            items = _asked(lambda: self._client.list_providers(resources={name: requested}))
            return frozenset(item.uuid for item in items)

        wanted = list(dict.fromkeys(amounts))
        answers = self._context.each(listed, wanted, "listing the hosts with room")
        return dict(zip(wanted, answers, strict=True))


def _asked(request: Callable[[], R]) -> R:
    """The answer to a request for all hosts.

    It is sent again to a service that is busy or restarts, not to one that it is too much for.
    """
    try:
        return retry.call(request, _is_busy, retry.backoff(_ATTEMPTS))
    except (api_errors.ConnectionFailed, api_errors.TooLarge) as error:
        raise _Refused(str(error)) from error
    except api_errors.ApiError as error:
        if isinstance(error, api_errors.UnexpectedResponse):
            raise _Refused(str(error)) from error
        if error.status not in _REFUSED and error.status < 500:
            raise
        raise _Refused(f"HTTP {error.status}") from error


def _is_busy(error: Exception) -> bool:
    if isinstance(error, api_errors.TimedOut):
        return False
    is_lost = isinstance(error, api_errors.ConnectionFailed)
    return is_lost or getattr(error, "status", 0) in retry.OVERLOADED


class Wide(ObservedCloud):
    """The state of a service for some queries, and for every query with fewer constraints.

    Some inventories are known only as far as the queries need them. ``more`` and
    ``with_aggregates`` as in ``CloudReader.members``. ``reader`` may have read providers.

    Requests: two listings; one request for candidates and one listing for a common class, and the
    same for each further class that has room in more than eight trees which are not known yet. One
    listing for each class of the queries, and one for each of its amounts. Those of
    ``CloudReader.members``. For each provider of a tree without room two, and then one listing for
    each trait of the queries; one for each provider with unusual units or, where groups request a
    class several times, with less room than all of them. If the service refuses a request for
    candidates, or cuts its answer off: one for each of up to forty aggregates, and one for the
    aggregates of a host in them; two for each provider of the hosts that these leave. If it refuses
    a listing: up to two for each provider. Below 1.29 summaries have no whole trees of several
    providers: these are read one by one.
    """

    def __init__(
        self,
        reader: WideReader,
        queries: Collection[candidate.CandidateQuery],
        more: Collection[str] = (),
        *,
        with_aggregates: bool = False,
    ) -> None:
        self._reader, self._classes = reader, observe.resource_classes(queries)
        self._names = sorted(observe.traits(queries) - {standard.SHARING_TRAIT})
        self._roots = {item.uuid: item.root_uuid or item.uuid for item in reader.listed}
        self._trees: dict[str, list[str]] = {}
        for uuid, root in self._roots.items():
            self._trees.setdefault(root, []).append(uuid)
        self._known = Estimate()
        self._traits: dict[str, Collection[str]] = {}
        self._with_traits: Mapping[str, Collection[str]] | None = None
        self._requested: dict[str, int] = {}
        #: Whether Placement has refused a request for all candidates; a listing.
        self._is_refused, self._is_complete = False, False
        self._cover()
        self._read_amounts(queries)
        offering = [uuid for uuid in self._roots if self._classes & self._known.classes(uuid)]
        shared = [uuid for uuid in offering if uuid in reader.sharing]
        self._members = reader.members(offering, queries, more, with_aggregates=with_aggregates)
        self._read_exactly(shared)
        super().__init__(self._state())
        LOG.info("read %d providers, %d of them one by one", len(self._roots), self._known.exact)

    def refine(
        self,
        roots: Collection[str] | None = (),
        queries: Collection[candidate.CandidateQuery] = (),
    ) -> bool:
        """Make ``base`` exact for these trees (None: for all) and queries; whether it changed.

        Requests: one for each provider of the trees that was not read alone; one listing for each
        new amount, and for each smaller max_unit that shows.
        """
        before = self._known.version
        chosen = self._trees if roots is None else roots
        self._read_exactly(uuid for root in chosen for uuid in self._trees[root])
        for query in queries:
            self._refine_query(query)
        if self._known.version == before:
            return False
        self.base = self._state()
        return True

    def open_trees(self) -> list[str]:
        """The roots of the trees of which not every inventory is known exactly."""
        return [
            root
            for root, uuids in self._trees.items()
            if any(self._classes & self._known.estimated(uuid) for uuid in uuids)
        ]

    # What has room

    def _cover(self) -> None:
        """Learn capacity, usage and traits of every tree."""
        missing = set(self._trees)
        untried = list(dict.fromkeys([*_COMMON, *sorted(self._classes)]))
        while missing and untried and not self._is_refused:
            name = untried.pop(0)
            room = self._list([(name, 1)]).get((name, 1), frozenset())
            new = missing & {self._roots[uuid] for uuid in room if uuid in self._roots}
            if len(new) > _FEW or (new and name == _COMMON[0]):
                missing -= self._learn_all(name, new)
            if not untried and len(missing) > _FEW:
                # Their other classes may have room.
                sample = list(missing)[:_FEW]
                self._read_trees(sample, every_class=True)
                missing.difference_update(sample)
                untried = sorted(
                    {
                        name
                        for root in sample
                        for uuid in self._trees[root]
                        for name in self._known.classes(uuid)
                        if self._known.free(uuid, name) > 0 and not self._known.is_listed(name, 1)
                    }
                )
        self._read_trees(root for root in self._trees if root in missing)

    def _learn_all(self, name: str, expected: Collection[str]) -> set[str]:
        """Learn the trees with room of a class, all at once or by aggregate; returns their roots.

        ``expected`` are the roots of those that are not known. The ones that Placement does not
        return are read.
        """
        try:
            learned = self._learn(self._reader.trees_with(name))
            problem = f"returns only some of the hosts with {name}, see max_allocation_candidates"
        except _Refused as error:
            # It would refuse those of the next class, too.
            self._is_refused, learned = True, set()
            problem = f"refuses a request for all hosts with {name} ({error})"
        lost = [root for root in self._trees if root in expected and root not in learned]
        if lost:
            learned |= self._learn_by_aggregate(name, lost)
            rest = [root for root in lost if root not in learned]
            LOG.warning(
                "Placement %s: %d are read by aggregate, %d one by one",
                problem,
                len(lost) - len(rest),
                len(rest),
            )
            self._read_trees(rest)
        return learned.union(lost)

    def _learn_by_aggregate(self, name: str, lost: Collection[str]) -> set[str]:
        """Learn trees with one request for each aggregate of those that are left."""
        learned, tried = set[str](), set[str]()
        left = [*lost]
        while len(left) > _FEW and len(tried) < _NARROWER:
            before = len(left)
            for aggregate in self._reader.aggregates_of(left[0]):
                if aggregate not in tried:
                    tried.add(aggregate)
                    with contextlib.suppress(_Refused):
                        learned |= self._learn(self._reader.trees_with(name, aggregate))
            left = [root for root in left if root not in learned]
            if before - len(left) <= _FEW:
                break
        return learned

    def _learn(self, summaries: Mapping[str, responses.ProviderSummary]) -> set[str]:
        """Keep the summaries of whole trees; returns their roots."""
        roots = {self._roots[uuid] for uuid in summaries if uuid in self._roots}
        whole = {root for root in roots if all(uuid in summaries for uuid in self._trees[root])}
        for uuid, summary in summaries.items():
            if self._roots.get(uuid) in whole:
                self._known.add_summary(uuid, summary.resources)
                self._traits[uuid] = summary.traits or ()
        return whole

    def _read_trees(self, roots: Iterable[str], *, every_class: bool = False) -> None:
        """Read trees one by one: their inventories, and the usage of those that are requested."""
        uuids = [
            uuid for root in roots for uuid in self._trees[root] if not self._known.is_exact(uuid)
        ]
        for uuid, answer in self._reader.inventories(uuids).items():
            self._known.add_exact(uuid, answer)
        offering = [
            uuid
            for uuid in uuids
            if self._known.classes(uuid)
            and (every_class or self._classes & self._known.classes(uuid))
        ]
        for uuid, used in self._reader.usages(offering).items():
            self._known.add_used(uuid, used)
        if uuids and self._with_traits is None:
            self._with_traits = self._reader.with_traits(self._names)

    def _list(self, amounts: Iterable[Amount]) -> Mapping[Amount, frozenset[str]]:
        """Who can supply amounts. If Placement refuses a listing, every provider is read."""
        new = [amount for amount in amounts if not self._known.is_listed(*amount)]
        if self._is_complete:
            return self._known.listed
        try:
            for amount, uuids in self._reader.supplying(new).items():
                self._known.add_listed(amount, uuids)
        except _Refused as error:
            LOG.warning(
                "Placement refuses a listing (%s): each of the %d providers is read",
                error,
                len(self._roots),
            )
            self._is_refused = self._is_complete = True
            self._read_inventories(self._roots)
            self._read_trees(self._trees)
        return self._known.listed

    # Which amounts fit

    def _read_amounts(self, queries: Collection[candidate.CandidateQuery]) -> None:
        amounts: dict[str, set[int]] = {name: {1} for name in self._classes}
        repeated = set[str]()
        for query in queries:
            for name, requested in _requested(query).items():
                sums = subset_sums(requested, _MOST_SUMS) - {0}
                amounts[name] |= sums or {sum(requested)}
                if len(requested) > 1:
                    repeated.add(name)
                self._requested[name] = max(self._requested.get(name, 0), sum(requested))
        self._list((name, amount) for name in sorted(amounts) for amount in sorted(amounts[name]))
        # They have changed between two requests, or Placement contradicts itself.
        changed = {
            self._roots[uuid]
            for name, amount in self._known.listed
            for uuid in self._known.contradicted(name, amount)
        }
        self._read_trees(root for root in self._trees if root in changed)
        # What has something free and cannot supply 1 has an unusual min_unit or step_size.
        unclear = {uuid for name in sorted(amounts) for uuid in self._known.refuted(name, 1)}
        for name in repeated:
            unclear.update(self._known.unproved(name, max(amounts[name])))
        self._read_exactly(uuid for uuid in self._roots if uuid in unclear)

    def _read_exactly(self, uuids: Iterable[str]) -> None:
        """Read the inventories of providers, and who else has as small a max_unit."""
        bounds: dict[Amount, None] = {}
        for uuid, answer in self._read_inventories(uuids).items():
            for name, most in self._requested.items():
                unit = answer[name].max_unit if name in answer else most
                if unit < min(self._known.free(uuid, name), most):
                    bounds[name, unit + 1] = None
        self._list(bounds)

    def _read_inventories(self, uuids: Iterable[str]) -> Mapping[str, Inventories]:
        """Read the inventories of providers that are not known exactly."""
        new = [uuid for uuid in uuids if self._known.estimated(uuid)]
        answers = self._reader.inventories(new)
        for uuid, answer in answers.items():
            self._known.add_exact(uuid, answer)
        return answers

    def _refine_query(self, query: candidate.CandidateQuery) -> None:
        requested = _requested(query)
        new = [
            (name, sum(amounts))
            for name, amounts in requested.items()
            if not self._known.is_listed(name, sum(amounts))
        ]
        self._list(new)
        for name, amount in new:
            self._read_exactly(itertools.islice(self._known.refuted(name, amount), 1))
        if any(group.suffix and group.resources for group in query.groups):
            # Several providers of a tree may share the groups among them in many ways.
            for uuids in self._trees.values():
                offering = [uuid for uuid in uuids if self._known.classes(uuid) & set(requested)]
                if len(offering) > 1:
                    self._read_exactly(offering)

    def _state(self) -> state.CloudState:
        inventories = {uuid: self._known.inventories(uuid) for uuid in self._roots}
        used = {uuid: self._known.used(uuid) for uuid in self._roots}
        traits_of = {name: set(uuids) for name, uuids in (self._with_traits or {}).items()}
        traits_of[standard.SHARING_TRAIT] = set(self._reader.sharing)
        for uuid, names in self._traits.items():
            if uuid in self._roots:
                for name in names:
                    traits_of.setdefault(name, set()).add(uuid)
        return self._reader.state(inventories, used, traits_of, self._members)


def _requested(query: candidate.CandidateQuery) -> dict[str, list[int]]:
    """``{class: the amounts of the groups}``."""
    numbers: dict[str, list[int]] = {}
    for group in query.groups:
        for name, amount in group.resources.items():
            numbers.setdefault(name, []).append(amount)
    return numbers
