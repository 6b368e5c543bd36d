# SPDX-License-Identifier: Apache-2.0
"""``allocation candidate explain``, on every Placement."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from osc_placement import microversion
from osc_placement.client import query as queries
from osc_placement.model import candidate, constraint
from osc_placement.workflows.answers.explain import changes, commands as explain_commands, explain
from osc_placement.workflows.cloud.context import ReadContext
from tests.support.candidates import cloud_builder, comparison, explained
from tests.support.functional_cloud import AGGREGATE, create
from tests.support.peer import fixtures, target as targets
from tests.support.peer.shell import OpenStack

TYPED = "openstack resource provider "
EXPLAIN = "allocation candidate explain"


@pytest.fixture
def hosts(openstack: OpenStack) -> dict[str, str]:
    """``{name: uuid}``: big has the trait, small has room for little, tree has a child."""
    found = {
        "big": create(openstack, "big", VCPU=8, MEMORY_MB=64),
        "small": create(openstack, "small", VCPU=2, MEMORY_MB=64),
        "nic": create(openstack, "nic", parent="small", SRIOV_NET_VF=4),
    }
    openstack("resource provider trait set", "big", "--trait=HW_CPU_X86_AVX")
    openstack("resource provider aggregate set", "small", "--aggregate", AGGREGATE, version="1.18")
    return found


def section(rows: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["section"] == name]


def test_a_request_without_candidates_is_explained(
    openstack: OpenStack, hosts: dict[str, str]
) -> None:
    arguments = ("--resource=VCPU=4", "--required=HW_CPU_X86_AVX", f"--member-of={AGGREGATE}")
    rows = openstack.rows(EXPLAIN, *arguments, code=3)
    assert [(row["text"], row["hosts"]) for row in section(rows, "constraint")] == [
        ("resources=VCPU:4", 1),
        ("required=HW_CPU_X86_AVX", 1),
        (f"member_of={AGGREGATE}", 0),
    ]
    assert {(row["host"], row["text"]) for row in section(rows, "failure")} == {
        ("big", f"not in aggregate {AGGREGATE}"),
        ("small", "VCPU: 2 free, 4 requested (total 2, ratio 1, used 0)"),
        ("small", "lacks HW_CPU_X86_AVX"),
    }
    join = f"aggregate add --aggregate={AGGREGATE} big"
    trait = "trait add --trait=HW_CPU_X86_AVX small"
    ratio = "inventory amend --resource=VCPU:allocation_ratio=2 small"
    assert [
        (row["text"], row["hosts"], [c.removeprefix(TYPED) for c in row["commands"] or ()])
        for row in section(rows, "change")
    ] == [
        (f"add big to the aggregate {AGGREGATE}", 1, [join]),
        (
            "add the trait HW_CPU_X86_AVX to small; raise the ratio of VCPU on small to 2",
            1,
            [trait, ratio],
        ),
        (f"remove member_of={AGGREGATE}", 1, []),
        ("remove required=HW_CPU_X86_AVX; request 2 VCPU instead of 4", 1, []),
    ]


@fixtures.ON_ONE_TARGET
def test_a_request_of_groups_only_is_explained(openstack: OpenStack, hosts: dict[str, str]) -> None:
    options = ("--group", "1", "--resource", "VCPU=4")
    rows = openstack(EXPLAIN, *options)
    assert [row["host"] for row in section(rows, "candidate")] == ["big"]
    (row,) = openstack("placement capacity show", *options)
    assert row["fits"] == 2


@fixtures.ON_ONE_TARGET
def test_a_child_provider_stands_for_its_host(openstack: OpenStack, hosts: dict[str, str]) -> None:
    ended = openstack.run(EXPLAIN, "--resource=VCPU=4", "--host=nic", "-f", "json")
    assert {row["host"] for row in section(json.loads(ended.stdout), "failure")} == {"small"}
    ended = openstack.run(EXPLAIN, "--resource=VCPU=2", "--host=nic", "-f", "json")
    assert section(json.loads(ended.stdout), "failure") == []
    assert "nic is part of small, which can serve the request" in ended.stderr


def test_a_request_with_candidates_names_them(openstack: OpenStack, hosts: dict[str, str]) -> None:
    rows = openstack(EXPLAIN, "--query=resources=VCPU:4", "--host=small")
    assert [row["host"] for row in section(rows, "candidate")] == ["big"]
    assert [row["free"] for row in section(rows, "failure")] == [2]


def test_an_old_microversion_is_an_error_that_names_it(openstack: OpenStack) -> None:
    assert "1.29" in openstack.fails(EXPLAIN, "--resource=VCPU=1", version="1.20")[1]


class RandomCloud:
    """A random cloud in openstack-placement, and questions about it."""

    def __init__(self, seed: int, openstack: OpenStack) -> None:
        assert isinstance(openstack.target, targets.RealPlacement)
        self.openstack, self.target = openstack, openstack.target
        self.draw = random.Random(f"explain a service {seed}")
        self.base = cloud_builder.draw_state(self.draw)
        self._name = f"explain-{seed}"
        self.reset()
        self.client = self.target.client()
        roots = (each for each in self.base.providers.values() if each.uuid == each.root_uuid)
        self.hosts = [each.name for each in roots]

    def reset(self) -> None:
        """Undo all changes of the cloud."""
        self.target.database.restore_or(self._name, lambda: comparison.seed(self.base, self.target))

    def queries(self) -> Iterator[candidate.CandidateQuery]:
        for _ in range(6):
            yield cloud_builder.draw_query(self.draw, self.base, microversion.MAXIMUM)

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
        held = self.base.providers[uuid].inventories[step.name]
        resources[step.name] -= step.amount
        if not resources[step.name] or not held.suits_units(resources[step.name]):
            del resources[step.name]
        body["allocations"] = {uuid: {"resources": resources}} if resources else {}
        self.target.ask("PUT", f"/allocations/{consumer}", body, version="1.28")


@pytest.fixture
def random_cloud(seed: int, openstack: OpenStack) -> RandomCloud:
    return RandomCloud(seed, openstack)


ON_OPENSTACK_PLACEMENT = pytest.mark.parametrize("target", ["placement"], indirect=True)


@ON_OPENSTACK_PLACEMENT
@pytest.mark.seeds(3, long=60)
def test_a_host_is_a_candidate_exactly_if_the_service_returns_it(random_cloud: RandomCloud) -> None:
    compared = 0
    for query in random_cloud.queries():
        returned = random_cloud.serving(query)
        found = random_cloud.explanation_of(query, *random_cloud.hosts)
        if not random_cloud.returned(query):
            assert not found.candidates
        if returned is not None:
            assert set(found.candidates) == returned
            assert {failure.host for failure in found.failures} == (
                set(random_cloud.hosts) - returned
            )
            compared += 1
    assert compared


@ON_OPENSTACK_PLACEMENT
@pytest.mark.seeds(3, long=60)
def test_each_change_of_the_request_gives_candidates_on_the_service(
    random_cloud: RandomCloud,
) -> None:
    for query in random_cloud.queries():
        for change in random_cloud.explanation_of(query).changes:
            if not change.steps:
                returned = random_cloud.serving(change.of(query))
                assert returned is None or len(returned) == change.hosts > 0, change


@ON_OPENSTACK_PLACEMENT
@pytest.mark.seeds(3, long=60)
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
