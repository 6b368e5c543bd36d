# SPDX-License-Identifier: Apache-2.0
"""Judges which hosts that Placement returned would be refused by the filters of nova's scheduler.

Filters that depend on services, host aggregates and server groups are judged from nova's API. The
others depend on data that only the scheduler has; such a filter is not checked if the server
requests something that it compares, and otherwise accepts. A filter of nova.conf that has no rule
here, such as the operator's own, is not checked.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from osc_placement import errors
from osc_placement.model.name import and_more, counted
from osc_placement.nova import api, servers, values
from osc_placement.scheduling import filters, request, traits
from osc_placement.workflows.cloud.compute_nodes import ServerHosts

COMPUTE = "ComputeFilter"
#: What nova calls the hosts that it leaves out of a move, whatever its filters say.
IGNORED = "ignore_hosts"
AFFINITY, ANTI_AFFINITY = "ServerGroupAffinityFilter", "ServerGroupAntiAffinityFilter"

#: Refused hosts that a text names for each reason.
_MOST_NAMED = 3


class FilterVerdict(enum.StrEnum):
    """What a filter says about the candidates."""

    ACCEPTS = "accepts"
    REFUSES = "refuses"
    NOT_CHECKED = "not checked"


@dataclasses.dataclass(frozen=True, slots=True)
class FilterJudgement:
    """The verdict of a filter.

    ``refused`` is ``{name of the root provider: why}`` for REFUSES. ``reason`` says why all hosts
    are accepted, or which data are missing. ``doubtful`` are the hosts of a NOT_CHECKED; empty: it
    is about all. ``is_enabled`` is None if it is not known whether nova uses the filter: it is no
    default filter, and no nova.conf is given.
    """

    filter: str
    verdict: FilterVerdict
    refused: Mapping[str, str] = dataclasses.field(default_factory=dict)
    reason: str = ""
    is_enabled: bool | None = True
    doubtful: frozenset[str] = frozenset()

    @property
    def text(self) -> str:
        """The evidence: ``disabled: cmp-7; down: cmp-9, cmp-10, cmp-11 and 4 more``."""
        hosts: dict[str, list[str]] = {}
        for name, why in self.refused.items():
            hosts.setdefault(why, []).append(name)
        parts = [f"{why}: {and_more(names, _MOST_NAMED)}" for why, names in hosts.items()]
        text = "; ".join(parts) or self.reason
        return text if self.is_enabled else f"if enabled: {text}"


class _Group(NamedTuple):
    """The server group of a server, None without one, and its members by UUID; or why not."""

    group: values.ServerGroup | None = None
    members: Mapping[str, values.Server] = {}
    problem: str = ""


class FilterJudge:
    """Judges hosts for requests of nova; the server group of a server is read once."""

    def __init__(self, nova: api.Nova, scheduler: request.SchedulerOptions) -> None:
        self._nova, self._scheduler = nova, scheduler
        self._groups: dict[str, _Group] = {}

    def judge(
        self, asked: request.NovaRequest, candidates: Mapping[str, str], compute: ServerHosts
    ) -> list[FilterJudgement]:
        """The judgement of each filter about ``{name: UUID}`` of the root providers of candidates.

        The ComputeFilter is judged first, the others about the hosts that it accepts. With a
        nova.conf they are the filters that it enables; without one, a filter that nova does not
        enable by default is left out if it accepts all hosts.

        Requests: for an existing server, the first time, one per 1000 server groups and one more,
        and one for each of up to five members of its group, or one per 1000 servers.
        """
        uuid = asked.server.uuid
        if uuid is not None and compute.hosts is not None and uuid not in self._groups:
            self._groups[uuid] = _read_group(self._nova, uuid)
        group = None if uuid is None else self._groups.get(uuid)
        return _judge(group, asked, candidates, compute, self._scheduler)


def _read_group(nova: api.Nova, uuid: str) -> _Group:
    try:
        groups = api.server_groups(nova)
        group = next((item for item in groups if uuid in item.members), None)
        members = {} if group is None else servers.find_servers(nova, set(group.members))
    except errors.PlacementError as error:
        return _Group(problem=str(error))
    return _Group(group, members)


def _judge(
    group: _Group | None,
    asked: request.NovaRequest,
    candidates: Mapping[str, str],
    compute: ServerHosts,
    scheduler: request.SchedulerOptions,
) -> list[FilterJudgement]:
    first = judge_hosts(candidates, compute)
    left_out = refused(first)
    accepted = {name: uuid for name, uuid in candidates.items() if name not in left_out}
    releases = asked.releases or traits.RELEASES[-1:]
    by_release = {
        each: _hosts(compute, asked.aggregates, accepted, scheduler, each) for each in releases
    }
    hosts = by_release[releases[-1]]
    if compute.hosts is None:
        data = "the compute nodes of the hosts were not read"
        names = (*filters.RULES, ANTI_AFFINITY, AFFINITY)
        others = [_not_checked(name, data) for name in names]
    else:
        others = [*_from_rules(asked.server, by_release), *_from_groups(group, asked.server, hosts)]
    judged = [*first, *others, *_hidden(asked.server, {name: it[1] for name, it in hosts.items()})]
    if scheduler.enabled_filters is not None:
        by_name = {item.filter: item for item in judged}
        by_name |= {name: _not_checked(name, why) for name, why in filters.UNSEEN.items()}
        enabled = sorted(dict.fromkeys(scheduler.enabled_filters), key=COMPUTE.__ne__)
        enabled = [item.filter for item in first if item.filter == IGNORED] + enabled
        return [by_name.get(name) or _without_rule(name, asked.server) for name in enabled]
    defaults = (IGNORED, *request.DEFAULT_FILTERS)
    return [
        dataclasses.replace(item, is_enabled=True if item.filter in defaults else None)
        for item in judged
        if item.filter in defaults or item.verdict is not FilterVerdict.ACCEPTS
    ]


def members(
    aggregates: Iterable[values.HostAggregate], nova_hosts: Mapping[str, str]
) -> dict[str, frozenset[str]]:
    """``{UUID of a host aggregate: names of the root providers of its hosts}``.

    ``nova_hosts`` is ``{name of a root provider: nova's host}``.
    """
    return {
        aggregate.uuid: frozenset(
            name for name, host in nova_hosts.items() if host in aggregate.hosts
        )
        for aggregate in aggregates
    }


def judge_hosts(candidates: Mapping[str, str], compute: ServerHosts) -> list[FilterJudgement]:
    """The judgement of the ComputeFilter about ``{name: UUID}`` of root providers.

    Before it, of a server that moves, what nova leaves out.
    """
    if compute.hosts is None:
        return [_not_checked(COMPUTE, "; ".join(compute.not_checked))]
    reasons = {name: compute.why_not(uuid) for name, uuid in candidates.items()}
    left_out = {name for name, uuid in candidates.items() if compute.why_ignored(uuid)}
    ignored = _judged(IGNORED, {name: reasons[name] for name in reasons if name in left_out})
    others = {name: why for name, why in reasons.items() if why and name not in left_out}
    return [*([ignored] if compute.source else ()), _judged(COMPUTE, others)]


def refused(judged: Iterable[FilterJudgement]) -> dict[str, str]:
    """``{name of a root provider: reason}`` for the hosts that a filter certainly refuses."""
    reasons: dict[str, str] = {}
    for item in judged:
        if item.is_enabled:
            prefix = "" if item.filter in (COMPUTE, IGNORED) else f"{item.filter}: "
            for name, why in item.refused.items():
                reasons.setdefault(name, prefix + why)
    return reasons


class Open(NamedTuple):
    """What is open about the candidates: ``doubts`` can refuse all of them, ``notes`` only some."""

    doubts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def not_checked(judged: Iterable[FilterJudgement], candidates: Collection[str]) -> Open:
    """A line for each filter of which it is not certain whether it refuses hosts.

    ``candidates`` are the root providers that no filter certainly refuses.
    """
    unseen: list[str] = []
    optional: list[str] = []
    maybe: set[str] = set()
    for item in judged:
        if item.verdict is FilterVerdict.NOT_CHECKED:
            text = item.reason if item.filter == COMPUTE else f"{item.filter}: {item.reason}"
            (optional if item.doubtful else unseen).append(text)
            maybe |= item.doubtful
        elif item.refused and not item.is_enabled:
            optional.append(f"{item.filter}: nova.conf says whether it is enabled")
            maybe |= item.refused.keys()
    if maybe.issuperset(candidates):
        return Open((*unseen, *optional))
    return Open(tuple(unseen), tuple(optional))


def _hosts(
    compute: ServerHosts,
    aggregates: Iterable[values.HostAggregate],
    candidates: Mapping[str, str],
    scheduler: request.SchedulerOptions,
    release: int,
) -> dict[str, tuple[str, filters.Host]]:
    """``{name of the root provider: (host, what this release of nova knows of it)}``."""
    aggregates_of: dict[str, list[values.HostAggregate]] = collections.defaultdict(list)
    for aggregate in aggregates:
        for host in aggregate.hosts:
            aggregates_of[host].append(aggregate)
    hosts = {}
    limit = scheduler.max_instances_per_host
    for name, uuid in candidates.items():
        node = compute.node(uuid)
        host = node.host if node else ""
        servers = node.servers if node else None
        hosts[name] = host, filters.Host(aggregates_of[host], servers, limit, release)
    return hosts


def _from_rules(
    server: request.ServerSpec, by_release: Mapping[int, Mapping[str, tuple[str, filters.Host]]]
) -> Iterator[FilterJudgement]:
    """What the filters say that compare the server with its host's aggregates and server count.

    A rule returns why it refuses a host. It needs one field of the server, which may be unknown.
    """
    for name, rule in filters.RULES.items():
        refused, *others = (
            {hostname: why for hostname, (_, host) in hosts.items() if (why := rule(server, host))}
            for hosts in by_release.values()
        )
        field, what = filters.NEEDED.get(name, ("", ""))
        if any(other.keys() != refused.keys() for other in others):
            titles = " and ".join(f"nova {release}" for release in by_release)
            text = f"{titles} differ, and nova does not show which one it is"
            yield _not_checked(name, text, {*refused}.union(*others))
        elif refused and field and getattr(server, field) is None:
            accept = "accepts" if len(refused) == 1 else "accept"
            text = f"{what} is not known, and {counted(len(refused), 'host')} {accept} only some"
            yield _not_checked(name, text, refused)
        else:
            yield _judged(name, refused)


def _judged(name: str, refused: Mapping[str, str], reason: str = "") -> FilterJudgement:
    return FilterJudgement(
        name, FilterVerdict.REFUSES if refused else FilterVerdict.ACCEPTS, refused, reason
    )


def _not_checked(name: str, reason: str, hosts: Iterable[str] = ()) -> FilterJudgement:
    return FilterJudgement(
        name, FilterVerdict.NOT_CHECKED, reason=reason, doubtful=frozenset(hosts)
    )


def _without_rule(name: str, server: request.ServerSpec) -> FilterJudgement:
    """A filter of nova.conf that reads only hints, or about which nothing is known."""
    if name == filters.ALL_HOSTS:
        return _judged(name, {}, "it accepts every host")
    if name not in filters.OF_HINTS:
        return _not_checked(name, "this filter is not known")
    if server.uuid is None:
        return _judged(name, {}, "a new server without scheduler hints")
    return _not_checked(name, "nova does not show the scheduler hints of a server")


def _from_groups(
    read: _Group | None, server: request.ServerSpec, hosts: Mapping[str, tuple[str, filters.Host]]
) -> list[FilterJudgement]:
    """What the filters of server groups say; the groups of a new server are not known."""
    names = (ANTI_AFFINITY, AFFINITY)
    if read is None or server.uuid is None:
        reason = "a new server is in no server group, unless a hint names one"
        return [_judged(name, {}, reason) for name in names]
    group, members, problem = read
    if problem:
        return [_not_checked(name, problem) for name in names]
    if group is None:
        reason = "the server is in no server group"
        return [_judged(name, {}, reason) for name in names]
    on_host = collections.Counter(member.host for member in members.values() if member.host)
    # Anti-affinity compares a host with those of the other members, affinity with those of all: it
    # lets no server leave the last host of its group.
    own = members.get(server.uuid)
    counts = on_host - collections.Counter([own.host] if own and own.host else [])
    full: dict[str, str] = {}
    others: dict[str, str] = {}
    for name, (host, _) in hosts.items():
        if group.policy == "anti-affinity" and counts[host] >= group.most_per_host:
            full[name] = f"{counted(counts[host], 'member')} of server group {group.name}"
        if group.policy == "affinity" and on_host and not on_host[host]:
            others[name] = f"server group {group.name} is on {', '.join(sorted(on_host))}"
    return [_judged(ANTI_AFFINITY, full), _judged(AFFINITY, others)]


def _hidden(
    server: request.ServerSpec, hosts: Mapping[str, filters.Host]
) -> Iterator[FilterJudgement]:
    """The filters that compare data which nova's API does not show, if the server has such data."""
    for name, (compares, data) in filters.HIDDEN.items():
        compared = compares(server, hosts.values())
        if compared:
            doubtful = [hostname for hostname, host in hosts.items() if compares(server, [host])]
            yield _not_checked(name, f"{compared}: nova does not show {data}", doubtful)
        else:
            yield _judged(name, {}, "nothing that it compares is requested")
