# SPDX-License-Identifier: Apache-2.0
"""Resource providers and provider trees."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping


@dataclasses.dataclass(frozen=True, slots=True)
class Provider:
    """A resource provider and its position in a tree.

    ``root_uuid`` and ``parent_uuid`` are None below 1.14. A root is its own root and has no
    parent. ``updated`` is the last-modified header, None if it was not read.
    """

    uuid: str
    name: str
    generation: int
    root_uuid: str | None = None
    parent_uuid: str | None = None
    updated: str | None = None


class ProviderTree:
    """Providers of one or more trees, indexed by parent, in the order given."""

    def __init__(self, providers: Iterable[Provider]) -> None:
        self._providers = {provider.uuid: provider for provider in providers}
        self._children: dict[str | None, list[Provider]] = {}
        for provider in self._providers.values():
            parent = provider.parent_uuid if provider.parent_uuid in self._providers else None
            self._children.setdefault(parent, []).append(provider)

    def roots(self) -> tuple[Provider, ...]:
        """The providers whose parent is not in the tree."""
        return tuple(self._children.get(None, ()))

    def children(self, uuid: str) -> tuple[Provider, ...]:
        """The children of a provider, without their descendants."""
        return tuple(self._children.get(uuid, ()))

    def walk(self) -> Iterator[tuple[int, Provider]]:
        """``(depth, provider)`` of every provider, each parent before its children."""
        pending = [(0, provider) for provider in reversed(self.roots())]
        while pending:
            depth, provider = pending.pop()
            yield depth, provider
            pending.extend((depth + 1, child) for child in reversed(self.children(provider.uuid)))


def by_uuid(providers: Iterable[Provider]) -> Mapping[str, Provider]:
    """``{uuid: Provider}``, in the order given."""
    return {provider.uuid: provider for provider in providers}
