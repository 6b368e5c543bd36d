# SPDX-License-Identifier: Apache-2.0
"""Names of nova's host aggregates: a name means nova's hosts, a UUID means Placement's members.

Placement knows the UUID only. So a name is compared: where the hosts in nova and the members in
Placement differ, a command that changes refuses the name, and a query says both numbers.
``compare`` is pure; ``NamedAggregates`` reads.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from osc_placement import errors
from osc_placement.client import api
from osc_placement.model import command_line
from osc_placement.model.name import and_more, canonical_uuid, counted, is_uuid
from osc_placement.nova.api import Nova, collected, host_aggregates
from osc_placement.nova.values import DEFAULT_ZONE, HostAggregate, find_host_aggregates
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.workflows.cloud import compute_nodes

_MOST_NAMES = 3


@dataclasses.dataclass(frozen=True, slots=True)
class NamedMembers:
    """A host aggregate of nova beside the members of its aggregate in Placement.

    ``mirrored`` and ``lacking`` are hosts whose providers are members, and are not; the hosts in
    ``absent`` have no provider, and of those in ``hidden`` nova cannot list it. ``stale`` are
    members that are compute nodes of other hosts, ``others`` those that are no compute nodes (by
    the names of the providers).
    """

    aggregate: HostAggregate
    mirrored: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    @property
    def has_other_hosts(self) -> bool:
        """Whether other hosts are members than those that nova has in it."""
        return bool(self.lacking or self.hidden or self.stale)

    @property
    def numbers(self) -> str:
        """``az1 has 6 hosts in nova, 1 of them in Placement``."""
        hosts, mirrored = len(self.aggregate.hosts), len(self.mirrored)
        of_them = "all of them" if hosts == mirrored > 0 else f"{mirrored} of them"
        others = len(self.stale) + len(self.others)
        more = f", with {counted(others, 'other member')}" if others else ""
        return (
            f"{self.aggregate.name} has {counted(hosts, 'host')} in nova, {of_them} in Placement"
            f"{more}"
        )

    def __str__(self) -> str:
        options = [("--host-aggregate", self.aggregate.subject)]
        mirror = command_line.line("placement aggregate mirror", options=options)
        parts = []
        if self.lacking:
            parts.append(f"'{mirror}' adds {_named(self.lacking)}")
        if self.stale:
            parts.append(f"'{mirror} --prune' removes {_named(self.stale)}")
        if self.others:
            parts.append(f"no compute nodes are {_named(self.others)}")
        if self.hidden:
            parts.append(f"nova cannot list the compute nodes of {_named(self.hidden)} now")
        if self.absent:
            parts.append(f"no provider has {_named(self.absent)}")
        return f"{self.numbers}: {'; '.join(parts)}" if parts else self.numbers


def _named(names: Sequence[str]) -> str:
    return and_more(sorted(names), _MOST_NAMES)


def compare(
    aggregate: HostAggregate,
    by_host: Mapping[str, frozenset[str]],
    members: Mapping[str, str],
    nodes: Collection[str],
    hides_nodes: Callable[[str], bool] = lambda _: False,
) -> NamedMembers:
    """Nova's hosts of an aggregate beside its members in Placement, ``{UUID: name}``.

    ``by_host`` has the provider UUIDs of each host's compute nodes, ``nodes`` the UUIDs of all;
    ``hides_nodes`` says whether nova cannot list the nodes of a host.
    """
    expected: set[str] = set()
    by_field: dict[str, list[str]] = {}
    for host in dict.fromkeys(aggregate.hosts):
        own = by_host.get(host, frozenset())
        expected |= own
        field = "mirrored" if own <= members.keys() else "lacking"
        if not own:
            field = "hidden" if hides_nodes(host) else "absent"
        by_field.setdefault(field, []).append(host)
    for uuid, name in members.items():
        if uuid not in expected:
            by_field.setdefault("stale" if uuid in nodes else "others", []).append(name)
    return NamedMembers(aggregate, **{field: tuple(names) for field, names in by_field.items()})


def hosts_in_nova(roots: Iterable[str], compute: ServerHosts) -> dict[str, frozenset[str]]:
    """``{nova's name of a host: its root UUIDs}`` of some roots; empty if nova was not read."""
    by_host: dict[str, set[str]] = {}
    for root in roots:
        node = compute.node(root)
        if node is not None:
            by_host.setdefault(node.host, set()).add(root)
    return {host: frozenset(own) for host, own in by_host.items()}


@dataclasses.dataclass(frozen=True)
class NamedAggregates:
    """Nova, for the names of host aggregates in the arguments of one command.

    ``opened`` gives nova, when a name is first used. ``say`` gets the sentences of a query;
    ``changes``: the command changes what the name selects.
    """

    opened: Callable[[], Nova]
    say: Callable[[str], None] = lambda _: None
    changes: bool = False

    @functools.cached_property
    def listed(self) -> list[HostAggregate]:
        """Every host aggregate. Requests: one GET to nova, once.

        Errors: InvalidInput with the missing permission; as ``ask``.
        """
        input_errors = errors.InputErrors()
        with collected(input_errors):
            return host_aggregates(self.opened())
        # Only a UUID needs no permission.
        input_errors.add("without it, give the UUID of an aggregate in place of a name")
        raise errors.InvalidInput(input_errors.reasons)

    def named(self, texts: Iterable[str]) -> dict[str, HostAggregate]:
        """``{text: host aggregate}`` of names and ids. Requests: those of ``listed``, if any.

        Errors: InvalidInput with each text that no or several host aggregates have.
        """
        requested = list(texts)
        input_errors = errors.InputErrors()
        matching = find_host_aggregates(self.listed if requested else (), requested, input_errors)
        input_errors.check()
        return matching

    def members(self, client: api.Client, texts: Iterable[str]) -> list[NamedMembers]:
        """The host aggregates with these names beside their members in Placement.

        Requests: with a name, to nova those of ``listed`` and of ``servers.read_hosts``; to
        Placement one listing of all providers, and one for each host aggregate.
        Errors: those of ``named``; InvalidInput with every missing permission.
        """
        aggregates = {item.uuid: item for item in self.named(texts).values()}
        if not aggregates:
            return []
        input_errors = errors.InputErrors()
        cloud = compute_nodes.read_hosts(client, self.opened(), input_errors)
        input_errors.check()
        hosts = {host for item in aggregates.values() for host in item.hosts}
        by_host = {
            host: frozenset(item.uuid for item in cloud.providers_of(host)[0]) for host in hosts
        }
        return [
            compare(
                item,
                by_host,
                {member.uuid: member.name for member in client.list_providers(member_of=[uuid])},
                cloud.compute_nodes,
                lambda host: host not in cloud.nodes_of_host and bool(cloud.hosts.unreachable),
            )
            for uuid, item in aggregates.items()
        ]


def aggregate_uuids(texts: Iterable[str], names: NamedAggregates | None) -> dict[str, str]:
    """``{text: aggregate UUID}`` for UUIDs, and for names and ids of nova's host aggregates.

    Requests: one GET to nova, if a text is not a UUID. Errors: InvalidInput.
    """
    requested = list(dict.fromkeys(texts))
    uuids = {text: canonical_uuid(text) for text in requested if is_uuid(text)}
    others = [text for text in requested if text not in uuids]
    if others and names is None:
        raise errors.InvalidInput(
            f"aggregate {text!r} is not a UUID, and without a compute service the name of a host"
            " aggregate cannot be looked up"
            for text in others
        )
    named = names.named(others) if names else {}
    return uuids | {text: item.uuid for text, item in named.items()}


def selected_uuids(
    client: api.Client, texts: Iterable[str], names: NamedAggregates | None
) -> dict[str, str]:
    """``aggregate_uuids`` of aggregates whose members are selected, or left out.

    A sentence is said for each name that has other hosts in nova than in Placement.
    Requests: those of ``aggregate_uuids`` and, with a name, of ``NamedAggregates.members``.
    Errors: InvalidInput; for a command that changes, also for each such name.
    """
    requested = list(texts)
    uuids = aggregate_uuids(requested, names)
    if names is None:
        return uuids
    input_errors = errors.InputErrors()
    others = [text for text in requested if not is_uuid(text)]
    try:
        listed = names.members(client, others)
    except errors.PlacementError as error:
        if names.changes:
            raise
        names.say(
            f"Not checked: whether Placement has nova's hosts of {', '.join(others)}: {error}"
        )
        return uuids
    for item in listed:
        if names.changes and (item.has_other_hosts or item.others):
            input_errors.add(f"{item}; the UUID {item.aggregate.uuid} means Placement's members")
        elif item.has_other_hosts or item.absent:
            names.say(f"Note: {item}")
    input_errors.check()
    return uuids


def zones_of_hosts(aggregates: Iterable[HostAggregate], compute: ServerHosts) -> dict[str, str]:
    """``{nova's name of a host: its availability zone}``, the default zone for hosts in no other.

    ``aggregates`` are all host aggregates of nova.
    """
    services = compute.hosts.services if compute.hosts else frozenset[str]()
    zones = dict.fromkeys(sorted(services), DEFAULT_ZONE)
    for aggregate in aggregates:
        if name := aggregate.metadata.get("availability_zone"):
            zones |= {host: name for host in aggregate.hosts if host in zones}
    return zones


def hosts_by_zone(
    aggregates: Iterable[HostAggregate], compute: ServerHosts
) -> dict[str, list[str]]:
    """``{availability zone: its hosts by nova}``."""
    hosts: dict[str, list[str]] = {}
    for host, zone in zones_of_hosts(aggregates, compute).items():
        hosts.setdefault(zone, []).append(host)
    return hosts


def hosts_of_zone(nova: Nova, compute: ServerHosts, zone: str) -> list[str]:
    """Nova's names of the hosts in an availability zone; the default zone has those of no other.

    Requests: one to nova. Errors: InvalidInput with the zones for an unknown one, or one without
    hosts.
    """
    hosts = hosts_by_zone(host_aggregates(nova), compute)
    if zone not in hosts:
        names = ", ".join(sorted({*hosts, DEFAULT_ZONE}))
        raise errors.InvalidInput(
            [f"nova has no host in an availability zone {zone!r}; its zones are {names}"]
        )
    return hosts[zone]
