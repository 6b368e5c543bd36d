# SPDX-License-Identifier: Apache-2.0
"""Reading Placement: many providers, aggregates or consumers, several requests at a time.

Every read is retried, and no key is read twice. Placement has no transaction over several reads;
the workflow decides whether a provider that was deleted meanwhile, or that cannot be read, stops
it.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from osc_placement.client import api, api_errors, lookup
from osc_placement.engine import standard
from osc_placement.model import allocation, provider, recording
from osc_placement.workflows.cloud.context import ReadContext

LOG = logging.getLogger(__name__)

K = TypeVar("K")
R = TypeVar("R")


class PlacementReader:
    """A client, and how many requests it sends at a time. Each method shows its progress."""

    def __init__(self, client: api.Client, context: ReadContext) -> None:
        self._client, self._context = client, context

    def answers(self, read: Callable[[K], R], keys: Iterable[K], title: str = "") -> dict[K, R]:
        """``{key: answer}`` in the order of the keys. Errors: those of ``read``."""
        unique = list(dict.fromkeys(keys))
        LOG.debug("%s: %d", title, len(unique))
        results = self._context.each(read, unique, title)
        return dict(zip(unique, results, strict=True))

    def existing(
        self, read: Callable[[str], R], keys: Iterable[str], title: str = ""
    ) -> dict[str, R]:
        """As ``answers`` of providers, without those that were deleted meanwhile.

        Requests: one more for a provider that is not found. Errors: also NotFound if it is listed.
        """

        def attempt(key: str) -> list[R]:
            try:
                return [read(key)]
            except api_errors.NotFound:
                if self._client.list_providers(uuid=key):
                    raise
                return []

        results = self.answers(attempt, keys, title)
        return {key: answer for key, result in results.items() for answer in result}

    def readable(
        self, read: Callable[[K], R], keys: Iterable[K], title: str = ""
    ) -> tuple[dict[K, R], dict[K, str]]:
        """``({key: answer}, {key: why it cannot be read})``. Errors: those that concern all."""

        def attempt(key: K) -> R | api_errors.ApiError | recording.NotRead:
            try:
                return read(key)
            except (api_errors.ApiError, recording.NotRead) as error:
                if error.status is None or api_errors.concerns_all(error):
                    raise
                LOG.info("%s, %s: %s", title, key, error)
                return error

        answers: dict[K, R] = {}
        failed: dict[K, str] = {}
        unique = list(dict.fromkeys(keys))
        for key, result in zip(unique, self._context.each(attempt, unique, title), strict=True):
            if isinstance(result, api_errors.ApiError | recording.NotRead):
                failed[key] = str(result)
            else:
                answers[key] = result
        return answers, failed

    def trees(self, providers: Iterable[str]) -> dict[str, list[provider.Provider]]:
        """``{provider: all providers of its tree}``, empty for none. Requests: one for each."""
        return self.answers(lambda uuid: self._client.list_providers(in_tree=uuid), providers)

    def with_traits(self, traits: Sequence[str]) -> dict[str, frozenset[str]]:
        """``{trait: the providers that have it}``. Requests: one for each trait."""
        read = functools.partial(lookup.providers_with_trait, self._client)
        return dict(zip(traits, self._context.each(read, traits), strict=True))

    def members(self, aggregates: Iterable[str], title: str = "") -> dict[str, frozenset[str]]:
        """``{aggregate: the providers in it}``; ``in:A,B`` is any of several aggregates.

        Requests: one for each key.
        """

        def read(aggregate: str) -> frozenset[str]:
            listed = self._client.list_providers(member_of=[aggregate])
            return frozenset(item.uuid for item in listed)

        return self.answers(read, aggregates, title)

    def aggregates(self, providers: Iterable[str], title: str = "") -> dict[str, Sequence[str]]:
        """``{provider: its aggregates}``, without deleted ones. Requests: one for each provider."""
        answers = self.existing(self._client.list_aggregates, providers, title)
        return {uuid: answer.aggregates for uuid, answer in answers.items()}

    def sharing(self, providers: Iterable[provider.Provider]) -> dict[str, tuple[str, ...]]:
        """``{root of a tree: the providers of other trees that share with it}``.

        ``providers`` are all. The sharing providers of a tree are in their order.
        Requests: one; one for each sharing provider, and one for each set of their aggregates.
        """
        roots = {item.uuid: item.root_uuid or item.uuid for item in providers}
        sharing = lookup.providers_with_trait(self._client, standard.SHARING_TRAIT)
        shared = [uuid for uuid in roots if uuid in sharing]
        sets = {
            uuid: f"in:{','.join(sorted(aggregates))}"
            for uuid, aggregates in self.aggregates(shared, "reading sharing providers").items()
            if aggregates
        }
        members = self.members(sets.values())
        sharing_with: dict[str, list[str]] = {}
        for uuid, aggregates in sets.items():
            for root in {roots.get(member, member) for member in members[aggregates]}:
                if root != roots[uuid]:
                    sharing_with.setdefault(root, []).append(uuid)
        return {root: tuple(uuids) for root, uuids in sharing_with.items()}

    def consumers(self, uuids: Iterable[str]) -> dict[str, allocation.Consumer]:
        """``{uuid: consumer}``. Requests: one for each."""
        return self.answers(self._client.show_allocations, uuids, "reading consumers")
