# SPDX-License-Identifier: Apache-2.0
"""Whether nova's scheduler would admit servers to the hosts on which they are.

Zone, traits and aggregates of a host are compared with what a server was created for. A server
that breaks such a rule came to its host without the scheduler, or the cloud changed after that.
``observe`` sends requests; the rest is pure.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from osc_placement import errors
from osc_placement.nova import api, values
from osc_placement.scheduling import filters, request, traits
from osc_placement.scheduling.case import Case, Way
from osc_placement.scheduling.rule import Host
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.workflows.cloud import problem, server_moves
from osc_placement.workflows.cloud.reading import PlacementReader
from osc_placement.workflows.repair.allocations.snapshot import CloudSnapshot

TRAIT = problem.warning(
    "server-trait",
    "A server is on a host without a trait that it requires: its next move can fail.",
)
ZONE = problem.warning(
    "server-zone", "A server is in another zone than it requires: its next move can fail."
)
AGGREGATE = problem.warning(
    "server-aggregate",
    "A server is outside the aggregates that it requires: its next move can fail.",
)

NOT_READ = "whether nova would choose the hosts of servers without allocations: {error}"

#: How ``verdict`` begins for a host that breaks a rule.
NOT_CHOSEN = "nova would not choose its host"

#: ``((trait, trait), (trait,))``: of each inner tuple a provider of the tree has one trait.
_AnyOf = tuple[tuple[str, ...], ...]


class BrokenRule(NamedTuple):
    """A rule of nova that the host of a server does not meet: its code, and why.

    ``is_known`` is False if the rule could not be checked, and ``text`` says why.
    """

    code: problem.ProblemCode
    text: str
    is_known: bool = True


def verdict(rules: Iterable[BrokenRule]) -> str:
    """Whether nova would choose the host that breaks these rules, in words."""
    broken = [rule.text for rule in rules if rule.is_known]
    if broken:
        return f"{NOT_CHOSEN}: {'; '.join(broken)}"
    unchecked = [rule.text for rule in rules]
    if unchecked:
        return f"not checked whether nova would choose its host: {'; '.join(unchecked)}"
    return "nova would choose its host"


@dataclasses.dataclass(frozen=True)
class Admission:
    """What the rules need besides the snapshot.

    ``required``: ``{server uuid: its required traits}``, or why its request is not known.
    ``having``: ``{trait: the providers with
    it}``. ``on_host``: ``{host: its host aggregates}``.
    """

    snapshot: CloudSnapshot
    required: Mapping[str, _AnyOf | str]
    having: Mapping[str, frozenset[str]]
    on_host: Mapping[str, Sequence[values.HostAggregate]]

    def broken(self, server: values.Server, node: values.ComputeNode) -> list[BrokenRule]:
        """The rules that this compute node does not meet for a server, known or not."""
        aggregates = self.on_host.get(node.host, ())
        found = (
            BrokenRule(TRAIT, self._lacks_trait(server, node)),
            BrokenRule(ZONE, _outside_zone(server, aggregates)),
            BrokenRule(AGGREGATE, _outside_aggregate(server, aggregates)),
        )
        required = self.required[server.uuid]
        unknown = [BrokenRule(TRAIT, required, is_known=False)] if isinstance(required, str) else []
        return [*(rule for rule in found if rule.text), *unknown]

    def _lacks_trait(self, server: values.Server, node: values.ComputeNode) -> str:
        """The required traits that neither the tree nor a provider that shares with it has."""
        required = self.required[server.uuid]
        if isinstance(required, str):
            return ""
        tree = {item.uuid for item in self.snapshot.trees.get(node.uuid, ())}
        tree |= {*self.snapshot.sharing.get(node.uuid, ())}
        lacking = [
            " or ".join(traits)
            for traits in required
            if not any(tree & self.having.get(trait, frozenset()) for trait in traits)
        ]
        return f"no {', '.join(lacking)}" if lacking else ""


def observe(
    reader: PlacementReader,
    nova: api.Nova,
    snapshot: CloudSnapshot,
    servers: Iterable[values.Server],
) -> Admission:
    """Read what decides about these servers.

    Requests: to nova one for host aggregates, to Placement one listing per required trait.
    """
    on_host: dict[str, list[values.HostAggregate]] = collections.defaultdict(list)
    for aggregate in api.host_aggregates(nova):
        for host in aggregate.hosts:
            on_host[host].append(aggregate)
    required: dict[str, _AnyOf | str] = {}
    by_need: dict[str, _AnyOf | str] = {}
    for server in servers:
        # Many servers have equal flavors and images.
        need = repr((server.flavor, server.image_properties))
        if need not in by_need:
            by_need[need] = _required_traits(server)
        required[server.uuid] = by_need[need]
    wanted = {
        trait
        for any_of in by_need.values()
        if not isinstance(any_of, str)
        for traits in any_of
        for trait in traits
    }
    return Admission(snapshot, required, reader.with_traits(sorted(wanted)), on_host)


def node_at_rest(snapshot: CloudSnapshot, server: values.Server) -> values.ComputeNode | None:
    """The compute node of a server that does not move and has a provider; None otherwise."""
    if not server.known or server.flavor is None:
        return None
    move = server_moves.move_of(snapshot, server)
    is_there = move.node is not None and move.node.uuid in snapshot.providers
    return move.node if is_there and not move.moving else None


def _required_traits(server: values.Server) -> _AnyOf | str:
    """The traits that nova requires for the flavor and the image, without those of the cloud.

    A text is why nova refuses them, or why they cannot be known.
    """
    if server.flavor is None:
        return ()
    try:
        spec = request.ServerSpec(server.flavor, image=server.image_properties)
        query = request.request_to_placement(spec).query
    except errors.InvalidInput as error:
        return "; ".join(error.reasons)
    any_of = [traits for group in query.groups for traits in group.required]
    any_of += [frozenset({trait}) for trait in query.root_required]
    return tuple(sorted({tuple(sorted(traits)) for traits in any_of}))


def _outside_zone(server: values.Server, aggregates: Iterable[values.HostAggregate]) -> str:
    zones = {item.metadata.get("availability_zone") for item in aggregates} - {None}
    zone = server.pinned_zone
    if zone is None or zone in (zones or {values.DEFAULT_ZONE}):
        return ""
    return f"not in zone {zone}"


def _outside_aggregate(server: values.Server, aggregates: Sequence[values.HostAggregate]) -> str:
    """Why the host's aggregates do not match the flavor; empty if they do.

    Only of extra specs with the scope of the filter: other keys may be for other filters.
    """
    if server.flavor is None:
        return ""
    scoped = {
        key: value
        for key, value in server.flavor.extra_specs.items()
        if key.startswith(f"{filters.AGGREGATE_SCOPE}:")
    }
    if not scoped:
        return ""
    spec = request.ServerSpec(dataclasses.replace(server.flavor, extra_specs=scoped))
    case = Case(Way.BOOT, spec, ServerHosts())
    return filters.extra_specs(case, Host(listed=tuple(aggregates)), traits.RELEASES[-1])
