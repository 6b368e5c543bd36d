# SPDX-License-Identifier: Apache-2.0
"""Every host that a command names for a server is one that nova's scheduler accepts.

Random clouds with compute services in every state; nova's own host manager and ComputeFilter judge
the hosts, see lab/compute_filter.py. The property tests of the commands compare with
``compute_services.accepted``, which the first test compares with nova, release by release.
"""

from __future__ import annotations

import collections
import json
import random
import subprocess
import uuid
from collections.abc import Callable, Iterable, Mapping

import pytest

from lab import install, place
from osc_placement import microversion
from osc_placement.engine import state
from osc_placement.engine.candidates.budget import SearchBudget
from osc_placement.model import candidate, constraint
from osc_placement.nova import flavors
from osc_placement.scheduling import nova_options, request, traits
from osc_placement.testing import service
from osc_placement.workflows.capacity import show
from osc_placement.workflows.cloud import compute_nodes, nova_servers, servers
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.cloud.hosts import hosts_of
from osc_placement.workflows.explain import explain, flavor_audit as audit
from osc_placement.workflows.moving import places as capacity_moves, stop
from tests.support.candidates import cloud_builder, explained, oracle
from tests.support.capacity import brute_force
from tests.support.clouds import compute_services
from tests.unit.workflows.explain import test_flavor_audit as flavor_clouds

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]

VERSION = microversion.MAXIMUM
CONTEXT = ReadContext(workers=1)
CLOUDS, MANY_CLOUDS = 40, 500
ROOT = "00000000-0000-4000-8000-{:012}"

RELEASES = [
    release if release == traits.RELEASES[-1] else pytest.param(release, marks=pytest.mark.long)
    for release in traits.RELEASES
]


def accepted_by_nova(states: Mapping[str, str], release: int = traits.RELEASES[-1]) -> set[str]:
    """The root providers of ``{UUID: state}`` that nova's scheduler accepts."""
    hosts = [
        # The node of a provider that nova does not have has another UUID.
        {"uuid": root, "node": root if state != "no node" else _other(root), "state": state}
        for root, state in states.items()
    ]
    python = install.release_python(place.find(), release)
    completed = subprocess.run(
        [python, "-P", "-W", "ignore", str(place.HERE / "compute_filter.py")],
        input=json.dumps(hosts),
        env=dict(place.find().environment()),
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert completed.returncode == 0, completed.stderr
    return set(json.loads(completed.stdout))


def _other(root: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, root))


@pytest.mark.parametrize("release", RELEASES)
def test_the_rule_of_the_property_tests_is_novas(release: int) -> None:
    states = {
        ROOT.format(10 * number + copy): state
        for number, state in enumerate(compute_services.STATES)
        for copy in range(3)
    }
    accepted = accepted_by_nova(states, release)
    assert accepted == compute_services.accepted(states)
    hosts = compute_nodes.read_server_hosts(compute_services.nova(states))
    assert accepted == states.keys() - hosts.refused(states).keys()


class Cloud:
    """A cloud with servers, the states of its hosts, and the hosts that commands name."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(f"compute filter {seed}")
        base = brute_force.small_state(self.draw)
        queries = [self.query(base) for _ in range(6)]
        self.base = brute_force.with_servers(self.draw, base, queries)
        self.hosts = hosts_of(self.base)
        roots = [item.uuid for item in self.base.providers.values() if item.uuid == item.root_uuid]
        self.states = compute_services.draw_states(self.draw, roots)
        self.compute = compute_nodes.read_server_hosts(compute_services.nova(self.states))
        #: ``{command: UUIDs of the hosts that it names for a server}``
        self.named: dict[str, set[str]] = {}
        #: ``(hosts that could take a server, number of hosts in the audit)`` of each flavor.
        self.counted: list[tuple[set[str], int]] = []

    def query(self, base: state.CloudState) -> candidate.CandidateQuery:
        return cloud_builder.draw_query(self.draw, base, VERSION)

    def uuids(self, names: Iterable[str]) -> set[str]:
        return {self.base.named[name] for name in names}

    def ask(self) -> None:
        """Ask every command."""
        with service.InProcessPlacement() as placement:
            client = explained.seeded(placement, self.base)
            nova = nova_servers.NovaReader(self.compute)
            for root in self.hosts:
                known = servers.servers_on(self.base, self.hosts)
                refused = self.compute.refused(self.base.tree)
                moves = capacity_moves.Moves(self.base, known, SearchBudget(), refused=refused)
                placed = stop.may_stop(moves, [root]).placement.values()
                targets = {option.root_uuid for option in placed}
                self.named.setdefault("host check", set()).update(targets)
            for _ in range(3):
                query = self.query(self.base)
                explained_query = explain.ExplainedQuery(query, constraint.constraints_of(query))
                (answer,) = explain.explain(client, [explained_query], CONTEXT, self.compute)
                self.named.setdefault("explain", set()).update(self.uuids(answer.candidates))
                counted = show.ShowRequest({"": query}, show.By.HOST)
                rows = show.show(client, counted, CONTEXT, list, nova).rows
                fitting = [row.part for row in rows if row.capacity.count.most]
                self.named.setdefault("capacity show", set()).update(self.uuids(fitting))
            self._audit(client)

    def _audit(self, client: explained.CountingClient) -> None:
        nova = flavor_clouds.recorded(**flavor_clouds.drawn_flavors(self.draw))
        specs = {flavor.name: flavor.flavor for flavor in flavors.flavors(nova)}
        options = nova_options.SchedulerOptions()
        for item in audit.audit(client, nova, [], options, CONTEXT, self.compute):
            if item.code not in (audit.FlavorCode.INVALID, audit.FlavorCode.UNKNOWN_NAME):
                nova_request = request.request_to_placement(request.ServerSpec(specs[item.name]))
                serving = self.uuids(oracle.hosts(self.base, nova_request.query))
                self.counted.append((serving, item.hosts))


def test_every_named_host_is_accepted_by_novas_compute_filter(
    pytestconfig: pytest.Config, record_property: Callable[[str, object], None]
) -> None:
    number = MANY_CLOUDS if pytestconfig.getoption("--long") else CLOUDS
    clouds = [Cloud(seed) for seed in range(number)]
    states = {root: state for cloud in clouds for root, state in cloud.states.items()}
    accepted = accepted_by_nova(states)
    counts: collections.Counter[str] = collections.Counter()
    for seed, cloud in enumerate(clouds):
        cloud.ask()
        for command, named in cloud.named.items():
            assert named <= accepted, (seed, command)
            counts[command] += len(named)
        for serving, hosts in cloud.counted:
            assert hosts == len(serving & accepted), seed
            counts["flavor audit"] += hosts
    print(len(states), len(accepted), dict(counts))
    for command, total in counts.items():
        record_property(command, total)
    assert len(counts) == 4
    assert min(counts.values()) > number / 20
