"""What nova's API says about servers: where they may go, and what ties them to their hosts."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from osc_placement import errors
from osc_placement.model import candidate
from osc_placement.nova import api, filters, request, values
from osc_placement.workflows.cloud import nova_request

#: The servers that a line names.
_MOST_NAMED = 3


@dataclasses.dataclass(frozen=True, slots=True)
class KnownServers:
    """What nova says about servers.

    ``queries`` is ``{uuid: nova's request}``. ``groups`` are the server groups of nova with
    (anti-)affinity. ``not_judged`` are lines about what else may tie servers to a host.
    """

    queries: Mapping[str, candidate.CandidateQuery] = dataclasses.field(default_factory=dict)
    groups: Sequence[values.ServerGroup] = ()
    not_judged: tuple[str, ...] = ()


#: Gives what nova says about servers, by UUID.
ReadServers = Callable[[Sequence[str]], KnownServers]

WITHOUT_NOVA = KnownServers(
    not_judged=(
        "traits, availability zones, host aggregates and server groups: they are in nova (select a"
        " snapshot that was saved --with-nova, or give --nova-recording)",
    )
)


def observe(
    services: nova_request.RequestServices,
    options: request.SchedulerOptions,
    uuids: Sequence[str],
) -> KnownServers:
    """Read the servers with these UUIDs.

    Requests: those of ``nova_request.observe_servers``, and one per 1000 server groups.
    """
    known = nova_request.observe_servers(services, uuids, options)
    found = {uuid: each for uuid, each in known.items() if not isinstance(each, str)}
    refused = [
        f"traits, zones and aggregates of server {uuid}: {each}"
        for uuid, each in known.items()
        if isinstance(each, str)
    ]
    unknown = [uuid for uuid in uuids if uuid not in known]
    if unknown:
        refused.append(
            f"traits, zones and aggregates of {_named(unknown)}, which nova does not list"
        )
    groups, problem = _groups(services.nova)
    return KnownServers(
        {uuid: each.query for uuid, each in found.items()},
        groups,
        (*refused, *problem, *_ties(each.server for each in found.values())),
    )


def _groups(nova: api.Nova) -> tuple[list[values.ServerGroup], list[str]]:
    try:
        found = api.server_groups(nova)
    except errors.PlacementError as error:
        return [], [f"server groups: {error}"]
    return [each for each in found if not each.policy.startswith("soft-")], []


#: ``(what ties a server to its host, the filter that knows which servers)``
_TIES = (("PCI devices", "PciPassthroughFilter"), ("NUMA nodes", "NUMATopologyFilter"))


def _ties(found: Iterable[request.ServerSpec]) -> Iterator[str]:
    tied: dict[str, list[str]] = collections.defaultdict(list)
    for server in found:
        for what, name in _TIES:
            if filters.HIDDEN[name][0](server, ()):
                tied[f"{what} on the other hosts"].append(str(server.uuid))
        if not server.from_volume:
            tied["local disks, which only a migration moves"].append(str(server.uuid))
    for what, uuids in tied.items():
        yield f"{what}: {_named(uuids)}"


def _named(uuids: Sequence[str]) -> str:
    more = len(uuids) - _MOST_NAMED
    text = ", ".join(uuids[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    return f"server{'s' if len(uuids) > 1 else ''} {text}"
