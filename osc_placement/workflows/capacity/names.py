"""Hosts by name or UUID, or by aggregate, in a state."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from osc_placement import errors
from osc_placement.client import lookup
from osc_placement.client.api_errors import UnknownProvider
from osc_placement.engine import state
from osc_placement.model import name


def roots_named(base: state.State, texts: Iterable[str]) -> list[str]:
    """The root UUIDs of providers by name or UUID. Errors: UnknownProvider."""
    found = {text: _uuid(base, text) for text in texts}
    unknown = [lookup.unknown_provider(text) for text, uuid in found.items() if not uuid]
    if unknown:
        raise UnknownProvider(unknown)
    return [base.providers[uuid].root_uuid for uuid in found.values()]


def chosen_roots(
    base: state.State,
    texts: Iterable[str],
    aggregates: Mapping[str, Iterable[str]],
    hosts: Collection[str],
) -> list[str]:
    """The root UUIDs of providers by name or UUID, and of the hosts in aggregates.

    ``aggregates`` is ``{aggregate: UUIDs of its members}``; ``hosts`` are the roots of all hosts.
    Errors: UnknownProvider; PlacementError for an aggregate without hosts.
    """
    found = roots_named(base, texts)
    for aggregate, members in aggregates.items():
        roots = {base.providers[uuid].root_uuid for uuid in members if uuid in base.providers}
        if roots.isdisjoint(hosts):
            raise errors.PlacementError(f"aggregate {aggregate} has no hosts")
        found += sorted(roots.intersection(hosts), key=lambda root: base.providers[root].name)
    return list(dict.fromkeys(found))


def _uuid(base: state.State, text: str) -> str:
    if name.is_uuid(text) and name.canonical_uuid(text) in base.providers:
        return name.canonical_uuid(text)
    return base.named.get(text, "")
