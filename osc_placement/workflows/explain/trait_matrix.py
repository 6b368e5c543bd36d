# SPDX-License-Identifier: Apache-2.0
"""Which of the selected providers have which traits, with the fewest requests."""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from osc_placement.client import api
from osc_placement.model import provider
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.cloud.reading import PlacementReader
from osc_placement.workflows.cloud.selector import Selection, Selector, select

LOG = logging.getLogger(__name__)

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class TraitGroup:
    """Providers with equal traits, sorted by name."""

    providers: tuple[provider.Provider, ...]
    traits: frozenset[str]


@dataclasses.dataclass(frozen=True, slots=True)
class TraitMatrix:
    """``traits`` are the columns, sorted; ``traits_of`` is ``{provider: its traits}``."""

    traits: tuple[str, ...]
    traits_of: Mapping[provider.Provider, frozenset[str]]

    def differing(self) -> TraitMatrix:
        """The traits that some providers have and others do not have."""
        everywhere = frozenset(self.traits).intersection(*self.traits_of.values())
        return TraitMatrix(
            tuple(name for name in self.traits if name not in everywhere),
            {item: traits - everywhere for item, traits in self.traits_of.items()},
        )

    def without_match(self, globs: Iterable[str]) -> list[str]:
        """Those of ``globs`` that match no trait of a provider."""
        return [glob for glob in globs if not any(_matches(name, [glob]) for name in self.traits)]

    def groups(self) -> list[TraitGroup]:
        """The providers by their traits; the largest group first."""
        by_traits: dict[frozenset[str], list[provider.Provider]] = {}
        for item, traits in self.traits_of.items():
            by_traits.setdefault(traits, []).append(item)
        groups = [TraitGroup(tuple(items), traits) for traits, items in by_traits.items()]
        return sorted(groups, key=lambda group: (-len(group.providers), group.providers[0].name))


def observe_matrix(
    client: api.Client,
    selector: Selector,
    globs: Sequence[str] = (),
    context: ReadContext | None = None,
) -> TraitMatrix:
    """The traits of the selected providers that match one of ``globs``; all traits without any.

    Requests: the selection, one listing of the traits in use, and then one per trait or one per
    provider, whichever is less.
    Errors: InvalidInput for an invalid or empty selection.
    """
    context = context or ReadContext()
    chosen = select(client, selector, context.names)
    in_use = client.list_traits(associated=True)
    names = [name for name in sorted(in_use) if not globs or _matches(name, globs)]
    if len(names) < len(chosen.providers):
        traits_of = _by_trait(client, chosen, names, context)
    else:
        traits_of = _by_provider(client, chosen, frozenset(names), context)
    LOG.info("%d traits of %d providers", len(names), len(chosen.providers))
    present = frozenset[str]().union(*traits_of.values())
    return TraitMatrix(tuple(name for name in names if name in present), traits_of)


def _matches(name: str, globs: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, glob) for glob in globs)


def _by_trait(
    client: api.Client, chosen: Selection, names: Sequence[str], context: ReadContext
) -> dict[provider.Provider, frozenset[str]]:
    filters = dict(chosen.filters or {})

    def members(name: str) -> frozenset[str]:
        required = [*filters.get("required", ()), name]
        listing = functools.partial(client.list_providers, **{**filters, "required": required})
        return frozenset(item.uuid for item in listing())

    having = dict(zip(names, context.each(members, names, "reading traits"), strict=True))
    return {
        item: frozenset(name for name, uuids in having.items() if item.uuid in uuids)
        for item in chosen.providers
    }


def _by_provider(
    client: api.Client, chosen: Selection, names: frozenset[str], context: ReadContext
) -> dict[provider.Provider, frozenset[str]]:
    answers = PlacementReader(client, context).answers(
        lambda item: client.list_provider_traits(item.uuid), chosen.providers, "reading traits"
    )
    return {item: names.intersection(answer.traits) for item, answer in answers.items()}
