# SPDX-License-Identifier: Apache-2.0
"""What changed since a snapshot, for one request: the hosts that serve it then and now."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

from osc_placement import errors
from osc_placement.client import api
from osc_placement.nova import api as nova_api, values
from osc_placement.scheduling.answer import NotKnown
from osc_placement.scheduling.case import Case, Facts
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.workflows.cloud import compute_nodes
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.explain import explain
from osc_placement.workflows.explain.explain import ExplainedQuery, Explanation

#: Hosts of which the answer says why they serve the request at one of the times only.
_MOST_EXPLAINED = 10

_WITHOUT_NOVA = "compute services of that time: the snapshot was saved without --with-nova"


@dataclasses.dataclass(frozen=True, slots=True)
class CloudOfTime:
    """A cloud as it is, or as a snapshot has it, and the queries of one request there."""

    client: api.Client
    compute: ServerHosts
    aggregates: Sequence[values.HostAggregate]
    every: Sequence[ExplainedQuery]

    def explain(self, context: ReadContext, hosts: Sequence[str] = ()) -> Explanation:
        """The answer to the first query, with the hosts of nova's second one."""
        named = [dataclasses.replace(query, hosts=hosts) for query in self.every]
        answers = explain.explain(self.client, named, context, self.compute, self.aggregates)
        return explain.united(named, answers)[1][0]


class ChangedHost(NamedTuple):
    """A host that serves the request at one of the times; ``why`` it does not at the other one."""

    host: str
    is_lost: bool
    why: str


def of_snapshot(client: api.Client, requests: Sequence[ExplainedQuery]) -> CloudOfTime:
    """The cloud of a snapshot; the queries, and a server, are those of now."""
    compute, aggregates = ServerHosts(None, _WITHOUT_NOVA), list[values.HostAggregate]()
    if client.has_recording:
        nova = nova_api.RecordedNova(client.recording(), client.target)
        compute = compute_nodes.read_server_hosts(nova)
        aggregates = nova_api.host_aggregates(nova)

    def then(case: Case) -> Case:
        group = case.group and NotKnown("the hosts of the group's members at that time")
        return dataclasses.replace(
            case, compute=compute, aggregates=aggregates, group=group, facts=Facts()
        )

    queries = [
        dataclasses.replace(query, case=query.case and then(query.case)) for query in requests
    ]
    return CloudOfTime(client, compute, aggregates, queries)


def changed_hosts(
    clouds: tuple[CloudOfTime, CloudOfTime],
    answers: tuple[Explanation, Explanation],
    context: ReadContext,
) -> list[ChangedHost]:
    """The hosts that serve the request then or now only; ``clouds`` and ``answers``: then and now.

    Requests: if there are any, to the service one listing, and those of ``explain.explain``.
    Errors: PlacementError for a snapshot of another cloud.
    """
    serving = [{*answer.candidates} for answer in answers]
    if serving[0] == serving[1]:
        return []
    names = [{item.uuid: item.name for item in cloud.client.list_providers()} for cloud in clouds]
    if names[0].keys().isdisjoint(names[1]):
        then, now = (cloud.client.target for cloud in clouds)
        raise errors.PlacementError(
            f"{then} is a snapshot of another cloud than {now}: they have no provider in common"
        )
    changed = []
    for is_lost, hosts in ((True, serving[0] - serving[1]), (False, serving[1] - serving[0])):
        existing = hosts.intersection(names[is_lost].values())
        reasons = dict.fromkeys(hosts, "it is not there")
        reasons |= dict.fromkeys(existing, "not explained: too many hosts")
        if explained := sorted(existing)[:_MOST_EXPLAINED]:
            answer = clouds[is_lost].explain(context, explained)
            texts = [(failure.host, failure.text) for failure in answer.failures]
            texts += answer.not_counted.items()
            for host in explained:
                reasons[host] = "; ".join(dict.fromkeys(why for name, why in texts if name == host))
        changed += [ChangedHost(host, is_lost, reasons[host]) for host in sorted(hosts)]
    return changed
