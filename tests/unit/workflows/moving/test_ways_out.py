# SPDX-License-Identifier: Apache-2.0
"""If not all servers can move: the most hosts, and the smallest changes, beside brute force."""

from __future__ import annotations

import itertools
import random

import pytest

from osc_placement.engine import state
from osc_placement.model import candidate
from osc_placement.nova.values import ServerGroup
from osc_placement.testing import random_clouds
from osc_placement.workflows.cloud.hosts import hosts_of
from osc_placement.workflows.explain import changes
from osc_placement.workflows.moving import largest_set, plan, steps
from tests.support.candidates import clouds
from tests.support.candidates.clouds import provider
from tests.support.capacity import brute_force, drains


def most_by_force(base: state.CloudState, roots: list[str]) -> int:
    """The size of the largest set of which some order of moves moves all servers."""
    moves = drains.moves_of(base)
    for size in range(len(roots), 0, -1):
        for chosen in itertools.combinations(roots, size):
            if drains.has_order(base, moves.servers_on(chosen), chosen):
                return size
    return 0


@pytest.mark.parametrize("kind", ["trees", "pools"])
@pytest.mark.seeds(40, long=500)
def test_the_most_hosts_are_those_of_brute_force(kind: random_clouds.Shape, seed: int) -> None:
    draw = random.Random(f"most {kind} {seed}")
    base = drains.draw_cloud(draw, kind)
    roots = hosts_of(base)
    moves = drains.moves_of(base)
    found = largest_set.find(moves, roots, ())
    assert found.is_proven
    assert len(found.hosts) == most_by_force(base, roots)
    assert drains.has_order(base, moves.servers_on(found.hosts), found.hosts)


def test_a_host_with_a_server_that_stays_is_not_among_the_most_hosts() -> None:
    base = clouds.cloud(*(provider(name, VCPU=8) for name in "abc"))
    moves = drains.moves_of(base)
    assert largest_set.find(moves, ["a", "b"], ["b"]) == largest_set.LargestSet(("a",))
    without_time = largest_set.find(moves, ["a", "b"], ["b"], seconds=-1)
    assert without_time == largest_set.LargestSet((), is_proven=False)


@pytest.mark.parametrize("kind", ["trees", "pools"])
@pytest.mark.seeds(40, long=500)
def test_after_each_change_the_server_has_a_target(kind: random_clouds.Shape, seed: int) -> None:
    draw = random.Random(f"changes {kind} {seed}")
    base = drains.draw_cloud(draw, kind)
    hosts = hosts_of(base)
    stopped = draw.sample(hosts, draw.randint(0, len(hosts)))
    moves = drains.moves_of(base)
    schedule = steps.schedule(moves, stopped, moves.servers_on(stopped), drains.Pack())
    after = steps.after(base, schedule.steps)
    without = brute_force.without_trees(base, stopped)

    def elsewhere(found: candidate.Candidate) -> bool:
        return drains.is_on_host(base, found) and without(found)

    for server in schedule.left:
        assert not list(brute_force.claims(after, server.query, elsewhere))
        for change in plan.smallest_changes(moves, after, server, stopped):
            changed, query = changes.after(after, change.steps), change.of(server.query)
            assert list(brute_force.claims(changed, query, elsewhere)), change


def test_what_a_host_lacks_is_named_for_hosts_that_may_be_targets() -> None:
    base = clouds.cloud(
        *(provider(name, VCPU=8) for name in "abcd"),
        servers={"on a": "a 4", "on b": "b 6", "on c": "c 5", "on d": "d 7"},
    )
    moves = drains.moves_of(base)
    (server,) = moves.servers_on(["a"])
    changes = plan.smallest_changes(moves, base, server, ["a", "c"])
    assert {(change.host, change.steps[0].amount) for change in changes if change.steps} == {
        ("b", 2),
        ("d", 3),
    }
    # Nobody changes the amounts of a server that exists.
    assert all(change.steps for change in changes)


@pytest.mark.parametrize(
    ("policy", "hosts"), [("anti-affinity", ["c"]), ("affinity", ["b"]), ("", ["b", "c"])]
)
def test_no_change_is_named_for_a_host_that_the_server_group_excludes(
    policy: str, hosts: list[str]
) -> None:
    full = [provider(name, VCPU=4) for name in "abc"]
    base = clouds.cloud(*full, servers={f"on {name}": f"{name} 4" for name in "abc"})
    groups = [ServerGroup("g", "group", policy, ("on a", "on b"), 1)] if policy else []
    moves = drains.moves_of(base, drains.placed(base, groups=groups), groups=groups)
    (server,) = moves.servers_on(["a"])
    changes = plan.smallest_changes(moves, base, server, ["a"])
    assert sorted({change.host for change in changes if change.host}) == hosts
