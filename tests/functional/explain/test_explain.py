# SPDX-License-Identifier: Apache-2.0
"""``allocation candidate explain``, on every Placement."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator, Sequence

import pytest

from osc_placement import microversion, testing
from osc_placement.client import query as queries
from osc_placement.model import candidate, constraint
from osc_placement.testing.cloud import uuid_of
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.explain import changes, commands as explain_commands, explain
from tests.support.candidates import clouds, comparison, explained, random_queries
from tests.support.peer import fixtures, target as targets
from tests.support.peer.shell import OpenStack
from tests.support.rows import Absent, Row, State, checked

EXPLAIN = "allocation candidate explain"
AVX, RACK = "HW_CPU_X86_AVX", uuid_of("rack")
TYPED = "openstack resource provider"

STATES = {
    # big has the trait, small has room for little, and a child.
    "hosts": State(
        testing.Cloud()
        .host("big", VCPU=8, MEMORY_MB=64, traits=[AVX])
        .host("small", VCPU=2, MEMORY_MB=64, aggregates=["rack"])
        .child("small", "nic", SRIOV_NET_VF=4)
    ),
    "no ratio": State(
        testing.Cloud()
        .host("open", VCPU={"total": 8, "allocation_ratio": 0})
        .host("reserved", VCPU={"total": 8, "reserved": 8, "allocation_ratio": 0})
    ),
}
SHORT = "VCPU: 2 free, 4 requested (total 2, ratio 1, used 0)"

# fmt: off
TABLE = [
    Row(f"{EXPLAIN} --resource VCPU=4 --required {AVX} --member-of {RACK}", "hosts", 3,
        {"constraint": [{"text": "resources=VCPU:4", "hosts": 1},
                        {"text": f"required={AVX}", "hosts": 1},
                        {"text": f"member_of={RACK}", "hosts": 0}],
         "failure": [{"host": "big", "text": f"not in aggregate {RACK}"},
                     {"host": "small", "text": SHORT},
                     {"host": "small", "text": f"lacks {AVX}"}],
         "change": [
             {"text": f"add big to the aggregate {RACK}", "hosts": 1,
              "commands": [f"{TYPED} aggregate add --aggregate={RACK} big"]},
             {"text": f"remove member_of={RACK}", "hosts": 1, "commands": []},
             {"text": f"remove required={AVX}; request 2 VCPU instead of 4", "hosts": 1,
              "commands": []},
             # Nova-compute sets the trait back.
             {"text": f"add the trait {AVX} to small; raise the ratio of VCPU on small to 2",
              "hosts": 1,
              "commands": [f"{TYPED} trait add --trait={AVX} small",
                           f"{TYPED} inventory amend --resource=VCPU:allocation_ratio=2 small"]}]}),
    Row(f"{EXPLAIN} --query resources=VCPU:4 --host small", "hosts", 0,
        {"candidate": [{"host": "big"}], "failure": [{"free": 2}]}),
    Row(f"{EXPLAIN} --resource VCPU=1 --in-tree {uuid_of('small')} --host big", "hosts", 0,
        {"failure": [{"host": "big", "text": "not in the tree of small"}]}),
    Row(f"{EXPLAIN} --resource VCPU=4", "no ratio", 3,
        {"failure": [{"host": "open"}, {"host": "reserved"}],
         "change": [{"text": "raise the ratio of VCPU on open to 0.5"}]}),
    Row(f"--os-placement-api-version 1.20 {EXPLAIN} --resource VCPU=1", "hosts", 1, "1.29"),
]
ON_ONE_TARGET = [
    Row(f"{EXPLAIN} --group 1 --resource VCPU=4", "hosts", 0, {"candidate": [{"host": "big"}]}),
    Row("placement capacity show --group 1 --resource VCPU=4", "hosts", 0, [{"fits": 2}]),
    # A child provider stands for its host.
    Row(f"{EXPLAIN} --resource VCPU=4 --host nic", "hosts", 0, {"failure": [{"host": "small"}]},
        "nic is part of small, which is explained"),
    Row(f"{EXPLAIN} --resource VCPU=2 --host nic", "hosts", 0, {"failure": None},
        "nic is part of small, which can serve the request"),
    Row(f"{EXPLAIN} --resource VCPU=2 --host small", "hosts", 0, "small can serve the request"),
    Row(f"{EXPLAIN} --resource VCPU=4 --host small", "hosts", 0,
        Absent("small can serve the request")),
]
# fmt: on

test_allocation_candidate_explain = checked(TABLE, STATES)

test_explain_of_groups_and_children = fixtures.ON_ONE_TARGET(checked(ON_ONE_TARGET, STATES))


class RandomCloud:
    """A random cloud in openstack-placement, and questions about it."""

    def __init__(self, seed: int, openstack: OpenStack) -> None:
        assert isinstance(openstack.target, targets.RealPlacement)
        self.openstack, self.target = openstack, openstack.target
        self.draw = random.Random(f"explain a service {seed}")
        self.base = clouds.draw_state(self.draw)
        self._name = f"explain-{seed}"
        self.reset()
        self.client = self.target.client()
        self.hosts = [self.base.providers[root].name for root in self.base.tree]

    def reset(self) -> None:
        """Undo all changes of the cloud."""
        self.target.database.restore_or(self._name, lambda: comparison.seed(self.base, self.target))

    def queries(self) -> Iterator[candidate.CandidateQuery]:
        for _ in range(6):
            yield random_queries.draw_query(self.draw, self.base, microversion.MAXIMUM)

    def explanation_of(self, query: candidate.CandidateQuery, *hosts: str) -> explain.Explanation:
        request = explain.ExplainedQuery(query, constraint.constraints_of(query), hosts)
        self.explained = explain.explain(self.client, [request], ReadContext(workers=1))[0]
        return self.explained

    def serving(
        self, query: candidate.CandidateQuery, steps: Sequence[changes.Step] = ()
    ) -> set[str] | None:
        """The hosts of the candidates that Placement returns, with the steps applied.

        None if openstack-placement loses candidates for one of the reasons that the Conformance
        page lists.
        """
        base = changes.after(self.base, steps)
        case = comparison.Case(self._name, base, microversion.MAXIMUM, query)
        real = comparison.response_of(case, self.target)
        ours = comparison.result_of_search(case)
        if real.requests != ours.requests and comparison.excuse(case, real, ours):
            return None
        # The plugin and nova send no group_policy with one suffixed group; openstack-placement then
        # adds up amounts in place as with isolate.
        has_one = sum(1 for group in query.groups if group.suffix) == 1
        if has_one and comparison.adds_up(dataclasses.replace(query, isolate=True)):
            return None
        return explained.hosts_in_response(self.client, base, query)

    def returned(self, query: candidate.CandidateQuery) -> bool:
        """Whether Placement returns a candidate."""
        pairs = queries.candidate_pairs(query)
        return bool(self.client.list_allocation_candidates(pairs).requests)

    def apply(self, change: changes.SmallestChange, explanation: explain.Explanation) -> None:
        """Type the commands of a change; for room to free, reduce an allocation."""
        lines = explain_commands.commands(change, explanation, {})
        for step, command in zip(change.steps, lines, strict=True):
            if step.action is changes.Action.FREE:
                self._free(step)
            else:
                self.openstack.do(command.removeprefix("openstack "))

    def _free(self, step: changes.Step) -> None:
        """Reduce the allocation of the only consumer of the provider."""
        uuid = self.base.named[step.provider]
        (consumer,) = self.target.ask("GET", f"/resource_providers/{uuid}/allocations")[
            "allocations"
        ]
        body = self.target.ask("GET", f"/allocations/{consumer}", version="1.28")
        resources = body["allocations"][uuid]["resources"]
        inventory = self.base.providers[uuid].inventories[step.name]
        resources[step.name] -= step.amount
        if not resources[step.name] or not inventory.suits_units(resources[step.name]):
            del resources[step.name]
        body["allocations"] = {uuid: {"resources": resources}} if resources else {}
        self.target.ask("PUT", f"/allocations/{consumer}", body, version="1.28")


@pytest.fixture
def random_cloud(seed: int, openstack: OpenStack) -> RandomCloud:
    return RandomCloud(seed, openstack)


ON_OPENSTACK_PLACEMENT = pytest.mark.parametrize("target", ["placement"], indirect=True)


@ON_OPENSTACK_PLACEMENT
@pytest.mark.seeds(2, long=60)
def test_a_host_is_a_candidate_exactly_if_the_service_returns_it(random_cloud: RandomCloud) -> None:
    compared = 0
    for query in random_cloud.queries():
        returned = random_cloud.serving(query)
        explanation = random_cloud.explanation_of(query, *random_cloud.hosts)
        if not random_cloud.returned(query):
            assert not explanation.candidates
        if returned is not None:
            assert set(explanation.candidates) == returned
            assert {failure.host for failure in explanation.failures} == (
                set(random_cloud.hosts) - returned
            )
            compared += 1
    assert compared


@ON_OPENSTACK_PLACEMENT
@pytest.mark.seeds(2, long=60)
def test_each_change_of_the_request_gives_candidates_on_the_service(
    random_cloud: RandomCloud,
) -> None:
    for query in random_cloud.queries():
        for change in random_cloud.explanation_of(query).changes:
            if not change.steps:
                returned = random_cloud.serving(change.of(query))
                assert returned is None or len(returned) == change.hosts > 0, change


@ON_OPENSTACK_PLACEMENT
@pytest.mark.seeds(2, long=60)
def test_the_commands_of_a_change_give_the_host_on_the_service(random_cloud: RandomCloud) -> None:
    explanations = [
        (query, random_cloud.explanation_of(query, *random_cloud.hosts))
        for query in random_cloud.queries()
    ]
    possible = [
        (query, change, explanation)
        for query, explanation in explanations
        for change in explanation.changes
        if change.steps
    ]
    for query, change, explanation in random_cloud.draw.sample(possible, min(len(possible), 6)):
        random_cloud.apply(change, explanation)
        returned = random_cloud.serving(query, change.steps)
        assert returned is None or change.host in returned, change
        assert returned is None or len(returned) == change.hosts, change
        random_cloud.reset()
