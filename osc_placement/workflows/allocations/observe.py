"""Observing nova and Placement for healing and auditing: what fills in a CloudSnapshot.

Nothing tells both at one time. Of a whole cloud, allocations are read first and servers
after them: a consumer that is written in between has another generation by then, so that
no write is built on what was; and a server that nova tells later than its allocations were
read shows by its task, its move or its time that it was on its way. Where few servers are
asked about, they are read first, since they tell which consumers to read. What changes
after that is for a change's premise to find, just before it is written.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from osc_placement import errors
from osc_placement.client import api, api_errors, lookup, responses, retry
from osc_placement.model import allocation, inventory, provider
from osc_placement.model.candidate import CandidateQuery
from osc_placement.nova import api as nova_api, permission, servers as nova_servers, values
from osc_placement.plan import workers
from osc_placement.workflows.allocations import (
    holding,
    scope as scopes,
    sharing_providers,
    snapshot as pictures,
)
from osc_placement.workflows.batch import plan

#: How many hosts make a part.
_PART = 64


def observe(
    client: api.Client,
    asked: nova_api.Nova,
    scope: scopes.Scope = scopes.EVERYTHING,
    reading: plan.ReadContext | None = None,
    *,
    deleted: bool = False,
) -> pictures.CloudSnapshot:
    """Servers, their moves, hosts, providers and allocations; ``deleted``: those servers too.

    Of a narrow ``scope`` the trees of its servers' hosts, what shares with these, and every
    consumer of its servers whole: either the consumers one by one or, where these are more,
    all providers. Inventories are read by ``with_inventories``, owners by ``owner``.

    Cost: at nova its services, and in pages of 1000 hypervisors, migrations, servers and, if
    asked for, deleted ones; for at most five hosts or servers in ``scope`` one request each
    instead. At Placement one listing of all providers, one of those that share, for each of
    these two more; one query that tells how much is used of most, and one per provider that is
    not known to be empty for its allocations. Of a narrow scope: one per provider
    of its trees, and one per server or per other provider, whichever are fewer.
    Errors: InvalidInput for hosts and servers that nova does not know, and with every right that
    is missing.
    """
    client.require_feature("consumer generation", "changing allocations safely")
    reading = reading or plan.ReadContext()
    faults = errors.InputErrors()
    found = _ask_hosts(client, asked, faults)
    faults.reasons += _unknown_hosts(found.hosts, scope)
    if scope.is_narrow:
        _ask_servers(asked, scope, found, faults, deleted=deleted)
    faults.check()
    sharing = sharing_providers.observe_sharing(client, found.providers, reading)
    if scope.is_narrow:
        return _picture(found, sharing, _read_narrow(client, found, sharing, reading))
    held = holding.read_all(client, found.providers, reading)
    _ask_servers(asked, scope, found, faults, deleted=deleted)
    faults.check()
    return _picture(found, sharing, held)


def observe_parts(
    client: api.Client,
    asked: nova_api.Nova,
    after: str = "",
    reading: plan.ReadContext | None = None,
) -> Iterator[tuple[scopes.Scope, pictures.CloudSnapshot]]:
    """The hosts that have servers, some at a time in the order of their names.

    ``after`` is the name of a host to go on from. Of each part: its scope, and the
    allocations on the trees of its hosts; a server that has nothing there is read by itself,
    since it may have something elsewhere. Owners are not read.
    Cost: as ``observe``, but for allocations: one request per provider of a part's trees,
    and one for each server without allocations there.
    """
    client.require_feature("consumer generation", "changing allocations safely")
    reading = reading or plan.ReadContext()
    faults = errors.InputErrors()
    found = _ask_hosts(client, asked, faults)
    _ask_servers(asked, scopes.EVERYTHING, found, faults, deleted=False)
    faults.check()
    sharing = sharing_providers.observe_sharing(client, found.providers, reading)
    names = sorted({one.host for one in found.servers if one.host and one.host > after})
    for start in range(0, len(names), _PART):
        scope = scopes.Scope(hosts=frozenset(names[start : start + _PART]))
        servers = [one for one in found.servers if scope.concerns(one)]
        part = dataclasses.replace(found, servers=servers)
        near, uuids = _near(part, sharing), [one.uuid for one in servers]
        held = holding.read_near(client, near, uuids, reading, absent_only=True)
        yield scope, _picture(part, sharing, held)


def _ask_hosts(client: api.Client, asked: nova_api.Nova, faults: errors.InputErrors) -> _Found:
    found = _Found()
    with permission.collected(faults):
        found.hosts = nova_api.hosts(asked)
    with permission.collected(faults):
        found.providers = retry.read(client.list_providers)
    return found


def _ask_servers(
    asked: nova_api.Nova,
    scope: scopes.Scope,
    found: _Found,
    faults: errors.InputErrors,
    *,
    deleted: bool,
) -> None:
    """Servers, and their moves after them: whoever begins to move in between is moving."""
    with permission.collected(faults):
        found.servers = _servers(asked, scope) if scope.is_narrow else nova_servers.servers(asked)
    with permission.collected(faults):
        found.migrations = nova_servers.migrations(asked)
    if deleted:
        with permission.collected(faults):
            found.deleted = nova_servers.deleted_servers(asked)


def with_inventories(
    client: api.Client,
    picture: pictures.CloudSnapshot,
    uuids: Iterable[str],
    reading: plan.ReadContext | None = None,
) -> pictures.CloudSnapshot:
    """The picture with the inventories of these providers too. One request for each new one."""
    reading = reading or plan.ReadContext()
    wanted = [uuid for uuid in dict.fromkeys(uuids) if uuid not in picture.inventories]
    read, unread = holding.read_each("inventories", client.list_inventories, wanted, reading)
    told = {uuid: found.inventories for uuid, found in read.items()}
    return dataclasses.replace(
        picture,
        inventories={**picture.inventories, **told},
        unread={**picture.unread, **unread},
    )


def with_capacities(
    picture: pictures.CloudSnapshot, uuids: Iterable[str]
) -> pictures.CloudSnapshot:
    """The picture with what these providers offer, as far as ``capacities`` tell. No request.

    That is the capacity alone: ``total`` is it, and units are any.
    """
    told = {uuid: picture.capacities[uuid] for uuid in uuids if uuid in picture.capacities}
    return dataclasses.replace(picture, inventories={**told, **picture.inventories})


def with_consumers(
    client: api.Client,
    picture: pictures.CloudSnapshot,
    uuids: Iterable[str],
    reading: plan.ReadContext | None = None,
) -> pictures.CloudSnapshot:
    """The picture with these consumers whole and with their owners. One request for each."""
    reading = reading or plan.ReadContext()
    wanted = [uuid for uuid in dict.fromkeys(uuids) if uuid not in picture.owners]
    read = holding.read_consumers(client, wanted, reading)
    there = {uuid: one for uuid, one in read.items() if one.allocations}
    kept = {uuid: held for uuid, held in picture.allocations.items() if uuid not in read}
    return dataclasses.replace(
        picture,
        allocations={**kept, **{uuid: one.allocations for uuid, one in there.items()}},
        generations={
            **picture.generations,
            **{uuid: one.generation for uuid, one in read.items()},
        },
        owners={**picture.owners, **{uuid: owner_of(one) for uuid, one in there.items()}},
    )


def owner_of(consumer: allocation.Consumer) -> pictures.Owner:
    """Whose a consumer is."""
    return pictures.Owner(consumer.project_id, consumer.user_id, consumer.consumer_type)


def observe_candidates(
    client: api.Client,
    queries: Mapping[str, CandidateQuery],
    reading: plan.ReadContext | None = None,
) -> dict[str, responses.Candidates | errors.PlacementError]:
    """The answer to each query, by its key, or why there is none. One request for each."""
    reading = reading or plan.ReadContext()

    def tried(asked: CandidateQuery) -> responses.Candidates | errors.PlacementError:
        try:
            return retry.read(lambda: client.list_allocation_candidates(asked))
        except (api_errors.ApiError, api_errors.UnsupportedVersion) as error:
            return error

    return dict(zip(queries, workers.each(tried, queries.values(), reading.workers), strict=True))


@dataclasses.dataclass(slots=True)
class _Found:
    """What is read of a cloud beside its allocations."""

    hosts: values.Hosts = dataclasses.field(default_factory=values.Hosts)
    providers: Sequence[provider.Provider] = ()
    servers: Sequence[values.Server] = ()
    migrations: Sequence[values.Migration] = ()
    deleted: Sequence[values.Server] = ()


Sharing = Mapping[str, tuple[str, ...]]


def _unknown_hosts(hosts: values.Hosts, scope: scopes.Scope) -> list[str]:
    known = hosts.services | hosts.of_host().keys()
    return [
        f"nova has no compute host {host!r}: 'openstack compute service list' shows them"
        for host in sorted((scope.hosts or frozenset()) - known)
        if known
    ]


def _servers(asked: nova_api.Nova, scope: scopes.Scope) -> list[values.Server]:
    """Those in a narrow scope. Errors: InvalidInput for those that nova does not know."""
    ask = functools.partial(nova_servers.servers, asked)
    if scope.servers is not None:
        listed = [*nova_servers.find_servers(asked, scope.servers).values()]
    elif len(scope.hosts or ()) <= lookup.MAX_SINGLE_REQUESTS:
        listed = [one for host in sorted(scope.hosts or ()) for one in ask(host=host)]
    else:
        listed = ask()
    known = {one.uuid: one for one in listed}
    unknown = sorted((scope.servers or frozenset()) - known.keys())
    errors.InputErrors(f"nova has no server {uuid}, or has deleted it" for uuid in unknown).check()
    return [one for one in known.values() if scope.concerns(one)]


def _read_narrow(
    client: api.Client, found: _Found, sharing: Sharing, reading: plan.ReadContext
) -> holding.Held:
    """The trees of the servers' hosts, and their consumers wherever they hold something."""
    near = _near(found, sharing)
    if len(found.servers) > len(found.providers) - len(near):
        return holding.read_all(client, found.providers, reading)
    return holding.read_near(client, near, [one.uuid for one in found.servers], reading)


def _near(found: _Found, sharing: Sharing) -> list[str]:
    """The providers of the trees that the servers are on, and those that share with them."""
    nodes = {(node.host, node.hostname): node.uuid for node in found.hosts.nodes}
    on = {nodes.get((server.host or "", server.node or "")) for server in found.servers}
    shares = {share for root in on if root for share in sharing.get(root, ())}
    return [
        item.uuid
        for item in found.providers
        if (item.root_uuid or item.uuid) in on or item.uuid in shares
    ]


def _picture(found: _Found, sharing: Sharing, held: holding.Held) -> pictures.CloudSnapshot:
    allocations: dict[str, dict[str, allocation.Resources]] = {}
    generations: dict[str, int | None] = {}
    for provider_uuid, told in held.by_provider.items():
        for consumer_uuid, share in told.allocations.items():
            allocations.setdefault(consumer_uuid, {})[provider_uuid] = share.resources
            _keep_oldest(generations, consumer_uuid, share.consumer_generation)
    whole = {uuid: one for uuid, one in held.whole.items() if one.allocations}
    kept = {uuid: what for uuid, what in allocations.items() if uuid not in held.whole}
    servers = [*found.servers, *(one for one in found.deleted if not one.is_deleted)]
    return pictures.CloudSnapshot(
        servers={one.uuid: one for one in servers},
        deleted={one.uuid: one for one in found.deleted if one.is_deleted},
        migrations={move.uuid: move for move in found.migrations},
        hosts=found.hosts,
        providers=provider.by_uuid(found.providers),
        allocations={**kept, **{uuid: one.allocations for uuid, one in whole.items()}},
        generations={**generations, **{uuid: one.generation for uuid, one in whole.items()}},
        owners={uuid: owner_of(one) for uuid, one in whole.items()},
        sharing=dict(sharing),
        unread=held.unread,
        capacities={
            uuid: {
                name: inventory.Inventory(total=amount.capacity)
                for name, amount in summary.resources.items()
            }
            for uuid, summary in held.summaries.items()
        },
    )


def _keep_oldest(
    generations: dict[str, int | None], consumer_uuid: str, generation: int | None
) -> None:
    """A consumer that was written between two readings is not to be written on the later one."""
    before = generations.get(consumer_uuid, generation)
    known = [each for each in (before, generation) if each is not None]
    generations[consumer_uuid] = min(known, default=None)
