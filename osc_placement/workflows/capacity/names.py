"""Hosts by nova's name, by the name or UUID of a provider, or by aggregate, in a state."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from osc_placement import errors
from osc_placement.engine import state
from osc_placement.model import name
from osc_placement.workflows import compute_nodes, selector


def roots_named(
    base: state.State, texts: Iterable[str], compute: compute_nodes.ServerHosts
) -> list[str]:
    """The root UUIDs of hosts by nova's name, or by the name or UUID of a provider.

    Errors: UnknownProvider.
    """

    def find(names: Sequence[str]) -> dict[str, str]:
        return {text: uuid for text in names if (uuid := _uuid(base, text))}

    uuids = selector.host_uuids(find, texts, compute.hosts)
    roots = (base.providers[uuid].root_uuid for several in uuids.values() for uuid in several)
    return list(dict.fromkeys(roots))


def chosen_roots(
    base: state.State,
    texts: Iterable[str],
    aggregates: Mapping[str, Iterable[str]],
    hosts: Collection[str],
    compute: compute_nodes.ServerHosts,
) -> list[str]:
    """The root UUIDs of hosts as in ``roots_named``, and of the hosts in aggregates.

    ``aggregates`` is ``{aggregate: UUIDs of its members}``; ``hosts`` are the roots of all hosts.
    Errors: UnknownProvider; PlacementError for an aggregate without hosts.
    """
    found = roots_named(base, texts, compute)
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
