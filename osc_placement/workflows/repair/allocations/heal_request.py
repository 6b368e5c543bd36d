# SPDX-License-Identifier: Apache-2.0
"""Which servers a run of heal or of the audit covers, and how it heals them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from osc_placement import errors
from osc_placement.model import allocation, name
from osc_placement.nova import api, values
from osc_placement.nova.servers import named
from osc_placement.workflows.cloud import compute_nodes


@dataclasses.dataclass(frozen=True, slots=True)
class Scope:
    """Hosts and servers (UUIDs); None selects all, and several fields together narrow.

    ``hosts`` are names of hosts, or names or UUIDs of their providers; ``members`` are the hosts of
    host aggregates. ``resolved`` gives a scope with nova's names and without ``members``.
    """

    hosts: frozenset[str] | None = None
    servers: frozenset[str] | None = None
    members: frozenset[str] | None = None

    @property
    def is_narrow(self) -> bool:
        """Whether the scope leaves out some servers."""
        return any(item is not None for item in (self.hosts, self.servers, self.members))

    def contains(self, server: values.Server) -> bool:
        """Whether a server is in the scope."""
        if self.servers is not None and server.uuid not in self.servers:
            return False
        return self.hosts is None or server.host in self.hosts

    def resolved(self, hosts: values.Hosts) -> Scope:
        """The scope with nova's names of hosts.

        Errors: InvalidInput with each host that nova does not have, unless it reports no host.
        """
        if self.hosts is None:
            return Scope(self.members, self.servers)
        names = compute_nodes.host_names(self.hosts, hosts)
        existing = hosts.services | hosts.of_host().keys()
        if existing:
            errors.InputErrors(compute_nodes.unknown_hosts(names, existing)).check()
        return Scope(names if self.members is None else names & self.members, self.servers)

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
    """The scope of ``--host``, ``--host-aggregate`` (names or ids) and ``--server``.

    Requests: one to nova if host aggregates are given; those of ``servers.named`` for names.
    Errors: InvalidInput with all errors.
    """
    found_errors = errors.InputErrors()
    uuids = {name.canonical_uuid(text) for text in servers if name.is_uuid(text)}
    with found_errors.collected():
        uuids |= {*named(nova, [text for text in servers if not name.is_uuid(text)])}
    aggregates = api.host_aggregates(nova) if host_aggregates else []
    matching = values.find_host_aggregates(aggregates, host_aggregates, found_errors)
    members = {host for item in matching.values() for host in item.hosts}
    found_errors.check()
    return Scope(
        hosts=frozenset(hosts) if hosts else None,
        servers=frozenset(uuids) if servers else None,
        members=frozenset(members) if host_aggregates else None,
    )


PACK, SPREAD = "pack", "spread"


@dataclasses.dataclass(frozen=True, slots=True)
class HealOptions:
    """The operator's choice among several possible providers.

    ``assigned``: ``{server uuid: names or UUIDs of providers}``. ``strategy`` is for servers
    that are not assigned: ``pack`` takes the fullest providers, ``spread`` the emptiest.
    Both assume that an image has no properties that nova does not report.
    """

    strategy: str | None = None
    assigned: Mapping[str, frozenset[str]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class HealRequest:
    """Which servers to heal and how.

    ``consumer_type`` is for new consumers, None below 1.38. ``bind``: write the providers of
    ports to their binding profiles. ``check_owners``: read every consumer for its owner.
    ``only_allowed``: leave out servers whose host nova's scheduler would not choose.
    """

    scope: Scope = WHOLE_CLOUD
    consumer_type: str | None = allocation.INSTANCE
    options: HealOptions = dataclasses.field(default_factory=HealOptions)
    bind: bool = True
    check_owners: bool = False
    only_allowed: bool = False
