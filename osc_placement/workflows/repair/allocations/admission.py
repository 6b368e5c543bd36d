# SPDX-License-Identifier: Apache-2.0
"""Whether nova's scheduler would admit servers to the hosts on which they are.

The rules are those of ``scheduling``. A server that breaks one came to its host without the
scheduler, or the cloud changed after that. ``observe`` sends requests; the rest is pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from osc_placement.nova import api, values
from osc_placement.scheduling import nova_options, own_host, verdict
from osc_placement.scheduling.case import Case
from osc_placement.scheduling.own_host import Need, UnmetNeed
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.workflows.cloud import cases, facts, nova_request, problem, server_moves
from osc_placement.workflows.cloud.cloud import Cloud

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

#: How ``in_words`` begins for a host that breaks a rule.
NOT_CHOSEN = "nova would not choose its host"


def in_words(rules: Iterable[UnmetNeed]) -> str:
    """Whether nova would choose the host that breaks these rules, in words."""
    broken = [rule.text for rule in rules if rule.is_known]
    if broken:
        return f"{NOT_CHOSEN}: {'; '.join(broken)}"
    unchecked = [rule.text for rule in rules]
    if unchecked:
        return f"not checked whether nova would choose its host: {'; '.join(unchecked)}"
    return "nova would choose its host"


#: How each need is reported.
CODES = {Need.TRAIT: TRAIT, Need.ZONE: ZONE, Need.AGGREGATE: AGGREGATE}


def observe(
    nova: api.Nova,
    snapshot: Cloud,
    servers: Iterable[values.Server],
) -> dict[str, list[UnmetNeed]]:
    """``{uuid: the rules that its host does not meet}`` of servers at rest, known or not.

    Requests: none without such a server; those of ``cases.of_servers`` but to neutron, and to
    Placement one listing per trait that the servers require.
    """
    nodes = {
        server.uuid: (server, node)
        for server in servers
        if (node := node_at_rest(snapshot, server)) is not None
    }
    if not nodes:
        return {}
    services = nova_request.services_of(nova)
    compute = ServerHosts(snapshot.hosts)
    listed = {uuid: server for uuid, (server, _) in nodes.items()}
    options = nova_options.SchedulerOptions()
    of_servers = cases.of_servers(services, listed, options, compute, snapshot.ports)
    checked = {uuid: case for uuid, case in of_servers.items() if isinstance(case, Case)}
    wanted = sorted(set().union(*map(own_host.traits_of, checked.values())))
    facts.prefetch(snapshot.with_trait, wanted)
    aggregates = next((case.aggregates for case in checked.values()), ())
    hosts = verdict.HostList(
        compute, aggregates, {node.uuid: node.uuid for _, node in nodes.values()}
    )
    rules: dict[str, list[UnmetNeed]] = {}
    own_hosts = own_host.OwnHosts(snapshot.with_trait)
    for uuid, case in checked.items():
        root = nodes[uuid][1].uuid
        tree = {item.uuid for item in snapshot.trees.get(root, ())}
        tree |= {*snapshot.sharing.get(root, ())}
        rules[uuid] = own_hosts.unmet_needs(case, hosts.hosts[root], tree)
    return rules


def node_at_rest(snapshot: Cloud, server: values.Server) -> values.ComputeNode | None:
    """The compute node of a server that does not move and has a provider; None otherwise."""
    if not server.known or server.flavor is None:
        return None
    move = server_moves.move_of(snapshot, server)
    is_there = move.node is not None and move.node.uuid in snapshot.providers
    return move.node if is_there and not move.moving else None
