"""Resource providers and the trees that they form."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping


@dataclasses.dataclass(frozen=True, slots=True)
class Provider:
    """A resource provider: who it is, and where it stands in its tree.

    ``root_uuid`` and ``parent_uuid`` are None where the microversion that was asked
    does not tell them (below 1.14); a root has itself as root and no parent.
    ``updated`` is the server's last-modified text where it was read.
    """

    uuid: str
    name: str
    generation: int
    root_uuid: str | None = None
    parent_uuid: str | None = None
    updated: str | None = None


class ProviderTree:
    """Providers of one or many trees, indexed by parent; the order given is kept."""

    def __init__(self, providers: Iterable[Provider]) -> None:
        self._providers = {provider.uuid: provider for provider in providers}
        self._children: dict[str | None, list[Provider]] = {}
        for provider in self._providers.values():
            parent = provider.parent_uuid if provider.parent_uuid in self._providers else None
            self._children.setdefault(parent, []).append(provider)

    def roots(self) -> tuple[Provider, ...]:
        """The providers without a parent among those given."""
        return tuple(self._children.get(None, ()))

    def children(self, uuid: str) -> tuple[Provider, ...]:
        """The direct children of a provider."""
        return tuple(self._children.get(uuid, ()))

    def walk(self) -> Iterator[tuple[int, Provider]]:
        """``(depth, provider)`` of every provider, each parent before its children."""
        pending = [(0, provider) for provider in reversed(self.roots())]
        while pending:
            depth, provider = pending.pop()
            yield depth, provider
            pending.extend((depth + 1, child) for child in reversed(self.children(provider.uuid)))

    def bottom_up(self) -> tuple[Provider, ...]:
        """Every provider, each child before its parent: the order in which they can be deleted."""
        return tuple(provider for _, provider in reversed(list(self.walk())))

    def __len__(self) -> int:
        return len(self._providers)

    def __getitem__(self, uuid: str) -> Provider:
        return self._providers[uuid]


def by_uuid(providers: Iterable[Provider]) -> Mapping[str, Provider]:
    """``{uuid: Provider}``, in the order given."""
    return {provider.uuid: provider for provider in providers}
