"""The servers that a run of heal or audit covers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from osc_placement import errors
from osc_placement.model import name
from osc_placement.nova import api, lookup, values
from osc_placement.workflows import compute_nodes


@dataclasses.dataclass(frozen=True, slots=True)
class Scope:
    """Hosts by nova's names and servers by UUID. None selects all; both together narrow."""

    hosts: frozenset[str] | None = None
    servers: frozenset[str] | None = None

    @property
    def is_narrow(self) -> bool:
        """Whether the scope leaves out some servers."""
        return self.hosts is not None or self.servers is not None

    def contains(self, server: values.Server) -> bool:
        """Whether a server is in the scope."""
        if self.servers is not None and server.uuid not in self.servers:
            return False
        return self.hosts is None or server.host in self.hosts

    def unknown_hosts(self, hosts: values.Hosts) -> list[str]:
        """An error for each host that nova does not have; none if nova reports no host."""
        known = hosts.services | hosts.of_host().keys()
        return compute_nodes.unknown_hosts(self.hosts or (), known) if known else []

    def select(self, servers: Iterable[values.Server]) -> list[values.Server]:
        """The servers in the scope, the oldest first."""
        selected = [server for server in servers if self.contains(server)]
        return sorted(selected, key=lambda server: (server.created, server.uuid))


WHOLE_CLOUD = Scope()


def from_options(
    nova: api.Nova,
    *,
    hosts: Sequence[str] = (),
    host_aggregates: Sequence[str] = (),
    servers: Sequence[str] = (),
) -> Scope:
    """The scope of ``--host``, ``--host-aggregate`` (names or ids) and ``--instance`` (UUIDs).

    Requests: one to nova if host aggregates are given. Errors: InvalidInput with all errors.
    """
    found_errors = errors.InputErrors(
        f"{text!r} is not the UUID of a server" for text in servers if not name.is_uuid(text)
    )
    aggregates = api.host_aggregates(nova) if host_aggregates else []
    matching = lookup.find_host_aggregates(aggregates, host_aggregates, found_errors)
    members = {host for item in matching.values() for host in item.hosts}
    found_errors.check()
    selected = [frozenset(hosts)] if hosts else []
    selected += [frozenset(members)] if host_aggregates else []
    return Scope(
        hosts=frozenset.intersection(*selected) if selected else None,
        servers=frozenset(map(name.canonical_uuid, servers)) if servers else None,
    )
