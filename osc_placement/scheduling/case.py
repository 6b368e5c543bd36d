# SPDX-License-Identifier: Apache-2.0
"""A case that nova decides: a server or a flavor, what nova is to do with it, and the cloud. Pure.

A fact that the case does not have raises NotKnown where a rule asks for it.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
from collections.abc import Collection, Iterable, Mapping, Sequence

from osc_placement.model.name import counted
from osc_placement.nova import values
from osc_placement.scheduling import nova_options, request, traits
from osc_placement.scheduling.answer import NotKnown
from osc_placement.scheduling.server_hosts import ServerHosts


class Way(enum.StrEnum):
    """What nova is to do."""

    BOOT = "boot"
    LIVE_MIGRATE = "live-migrate"
    MIGRATE = "migrate"
    RESIZE = "resize"
    EVACUATE = "evacuate"
    UNSHELVE = "unshelve"
    SHELVE = "shelve"


_HIDDEN_IMAGE = "the properties of its volume's image: nova does not show them"

#: The ways that take a server from the host on which it is.
FROM_HOST = frozenset({Way.LIVE_MIGRATE, Way.MIGRATE, Way.RESIZE, Way.EVACUATE})
#: The ways that ask the scheduler for a host.
SCHEDULED = FROM_HOST | {Way.BOOT, Way.UNSHELVE}


@dataclasses.dataclass(frozen=True, slots=True)
class GroupMembers:
    """A server group with (anti-)affinity, and the hosts of its members: ``{server UUID: host}``.

    Nova counts a member that moves on its source until the move is over.
    """

    group: values.ServerGroup
    hosts: Mapping[str, str]

    def on_host(self, without: str = "") -> collections.Counter[str]:
        """``{host: members}``, without one server."""
        return collections.Counter(
            host for uuid, host in self.hosts.items() if host and uuid != without
        )

    def refusal(self, number: int) -> str:
        """Why nova places no member on a host with this number of other ones; empty if it does."""
        name, is_apart = self.group.name, self.group.policy == "anti-affinity"
        if is_apart and number >= self.group.most_per_host:
            return f"{counted(number, 'member')} of server group {name}"
        hosts = sorted(self.on_host())
        is_elsewhere = self.group.policy == "affinity" and hosts and not number
        return f"server group {name} is on {', '.join(hosts)}" if is_elsewhere else ""


class Facts:
    """What only some rules ask for, and what is read then; this class knows none of it."""

    def with_trait(self, trait: str) -> Collection[str]:
        """The root providers (UUIDs) of the trees with a trait. Errors: NotKnown."""
        raise NotKnown(f"the hosts with the trait {trait}: they were not read")

    def with_profile(self, spec: request.ServerSpec) -> request.ServerSpec:
        """The spec with the groups of its device profile. Errors: InvalidInput without it."""
        return spec

    def has_share(self, server: values.Server) -> bool:
        """Whether a share of manila is attached to a server. Errors: NotKnown."""
        raise NotKnown("whether a share is attached: nova was not asked")


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """What nova is asked to do, and what is known about it.

    ``spec`` is what the scheduler gets: of a resize the new flavor. ``releases`` are those that
    this nova may be, ``requests`` what they send, the newest first. ``server`` is None for a new
    server. ``target`` is the host that the operator names. ``group`` is None for a server in no
    group; a NotKnown says why it is not known.
    ``is_disabled``: the flavor of a resize is disabled. ``source_fails``: the question is about the
    failure of the server's host. ``may_stay``: a resize may stay on its host. ``why_no_request`` is
    why nova or Placement refuses the request, if there is none. ``kind`` is equal for servers
    with equal requests; empty where they were not compared.
    """

    way: Way
    spec: request.ServerSpec
    compute: ServerHosts
    releases: tuple[int, ...] = traits.RELEASES[-1:]
    options: nova_options.SchedulerOptions = dataclasses.field(
        default_factory=nova_options.SchedulerOptions
    )
    requests: Sequence[request.NovaRequest] = ()
    aggregates: Sequence[values.HostAggregate] = ()
    server: values.Server | None = None
    target: str | None = None
    group: GroupMembers | NotKnown | None = None
    is_disabled: bool = False
    source_fails: bool = False
    may_stay: bool = False
    facts: Facts = dataclasses.field(default_factory=Facts)
    why_no_request: str = ""
    kind: str = ""

    @property
    def image(self) -> Mapping[str, str]:
        """The properties of the image. Errors: NotKnown."""
        if self.spec.image is not None:
            return self.spec.image
        if self.server is None:
            # The answer says that no image is given.
            return {}
        raise NotKnown(self.spec.why_no_image or _HIDDEN_IMAGE)

    def may_have(self, names: Iterable[str]) -> bool:
        """Whether the server's host has one of these traits: without it, it has no such server.

        Errors: NotKnown.
        """
        roots = {node.uuid for node in self.source_nodes}
        return not roots or any(not roots.isdisjoint(self.facts.with_trait(name)) for name in names)

    @property
    def is_newest(self) -> bool:
        """Whether every nova-compute is of the newest release, by its trait. Errors: NotKnown."""
        if self.compute.hosts is None:
            raise NotKnown("; ".join(self.compute.not_checked))
        return self.compute.all_have(self.facts.with_trait(traits.OWNER))

    @property
    def source(self) -> str:
        """The host on which the server is; empty for a server on no host."""
        return (self.server.host or "") if self.server else ""

    @property
    def leaves(self) -> bool:
        """Whether nova does not leave the server where it is."""
        return self.way in FROM_HOST and not self.may_stay

    @property
    def source_nodes(self) -> Sequence[values.ComputeNode]:
        """The compute nodes of the source."""
        return self.compute.nodes_of(self.source)
