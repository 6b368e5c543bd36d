"""Hosts by nova's name, by the name or UUID of a provider, or by aggregate, in a state."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from osc_placement import errors
from osc_placement.client import lookup
from osc_placement.client.api_errors import UnknownProvider
from osc_placement.engine import state
from osc_placement.model import name
from osc_placement.workflows import compute_nodes


def roots_named(
    base: state.State, texts: Iterable[str], compute: compute_nodes.ServerHosts
) -> list[str]:
    """The root UUIDs of hosts by nova's name, or by the name or UUID of a provider.

    Errors: UnknownProvider.
    """
    uuids = {text: _uuids(base, text, compute) for text in texts}
    unknown = [lookup.unknown_provider(text) for text in uuids if not uuids[text]]
    if unknown:
        raise UnknownProvider(unknown)
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


def _uuids(base: state.State, text: str, compute: compute_nodes.ServerHosts) -> list[str]:
    """Providers: those of the compute nodes of a host, or the one with a UUID or a name."""
    uuids = [node.uuid for node in compute.nodes_of(text)]
    if name.is_uuid(text):
        uuids.append(name.canonical_uuid(text))
    uuids = [uuid for uuid in uuids if uuid in base.providers]
    return uuids or [base.named[text]] if uuids or text in base.named else []
