# SPDX-License-Identifier: Apache-2.0
"""How a reshape is shown: each provider as a tree, and on it who gains or loses something."""

from __future__ import annotations

import threading

import hypothesis
import pytest

from osc_placement import errors, microversion
from osc_placement.client import api
from osc_placement.plan import apply as apply_module, attempt, executor, journal, plan, result
from osc_placement.plan.kinds import base
from osc_placement.testing import service
from osc_placement.workflows.cloud import rehearsal
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.reshape import (
    assignment,
    documents,
    observe,
    reshape_plan,
    reshape_rows,
)
from tests.support.embedded import uuid_of
from tests.support.reshape import cases, cloud_builder
from tests.support.reshape.documents import CONSUMERS, MOVES, PROVIDERS, A, B, new


def prepared(document_text: str, state: object = None) -> reshape_plan.Prepared:
    with service.InProcessPlacement(
        load=state or cloud_builder.state(PROVIDERS, CONSUMERS)
    ) as placement:  # type: ignore[arg-type]
        request = reshape_plan.ReshapeRequest(
            documents.parse(document_text, "m"), options=assignment.AssignOptions("pack")
        )
        return reshape_plan.plan_reshape(
            placement.client(microversion.MAXIMUM), request, ReadContext()
        )


def shown(planned: reshape_plan.Prepared) -> dict[str, list[reshape_rows.ReshapeRow]]:
    outcomes = result.of_plan(planned.planned.plan)
    return reshape_rows.collect_rows(planned.before, planned.after, planned.placed, outcomes)


def tree(planned: reshape_plan.Prepared) -> list[tuple[int, str]]:
    drawn = reshape_rows.tree(planned.before, planned.after)
    return [(depth, item.name) for depth, item in drawn.walk()]


def test_providers_and_consumers_are_shown_before_and_after() -> None:
    planned = prepared(MOVES)
    rows = shown(planned)
    assert tree(planned) == [(0, "cn1"), (1, A), (1, B)]
    root, *consumers = rows[uuid_of("cn1")]
    assert root.before == {
        "SRIOV_NET_VF": {"used": 1, "capacity": 2},
        "VCPU": {"used": 4, "capacity": 16},
        "VGPU": {"used": 6, "capacity": 8},
    }
    assert root.after == {"VCPU": {"used": 4, "capacity": 16}}
    assert (root.status, root.reason) == ("planned", "2 consumers, 2 guessed")
    assert {row.uuid for row in consumers} == {uuid_of("one"), uuid_of("moving")}
    child, one = rows[new(A)]
    assert (child.before, child.reason) == (None, "new; +CUSTOM_VGPU_A")
    assert (one.uuid, one.before, one.after) == (uuid_of("one"), None, {"VGPU": 4})


def test_a_provider_with_equal_moves_in_and_out_changes_too() -> None:
    providers = {"a": (None, {"VGPU": 2}), "b": ("a", {"VGPU": 2}), "c": ("a", {})}
    consumers = {"one": {"a": {"VGPU": 1}}, "two": {"b": {"VGPU": 1}}}
    text = """\
moves:
- {from: a, resources: {VGPU: all}, to: b}
- {from: b, resources: {VGPU: all}, to: c}
"""
    rows = shown(prepared(text, cloud_builder.state(providers, consumers)))
    assert [row.status for row in rows[uuid_of("b")]] == ["planned"] * 2


def test_deletions_and_renames_are_shown() -> None:
    providers = {"cn1": (None, {"VCPU": 4}), "gpu": ("cn1", {"VGPU": 2}), "x": ("cn1", {})}
    text = """\
moves: [{from: gpu, resources: {VGPU: all}, to: cn1}]
rename: {x: y}
delete: [gpu]
"""
    planned = prepared(text, cloud_builder.state(providers, {}))
    (gpu,), (renamed,) = (shown(planned)[uuid_of(name)] for name in ("gpu", "x"))
    assert (gpu.reason, gpu.after, renamed.reason) == ("deleted", None, "name=y")
    assert [name for _, name in tree(planned)] == ["cn1", "gpu", "y"]


def test_guesses_are_marked_in_rows_and_in_the_plan() -> None:
    loose = {**CONSUMERS, "one": {"cn1": {"VGPU": 2}}}
    planned = prepared(MOVES, cloud_builder.state(PROVIDERS, loose))
    lines = [row for uuid in (new(A), uuid_of(B)) for row in shown(planned)[uuid][1:]]
    assert {line.reason for line in lines if "VGPU" in (line.after or {})} == {"guessed (pack)"}
    assert any("guessed (pack)" in note for note in planned.planned.plan.notes)
    (reshape,) = [item for item in planned.planned.plan.changes if item.kind == "reshape"]
    assert reshape.reason == "2 consumers, 2 guessed"


def test_providers_that_stay_over_capacity_are_noted() -> None:
    crowded = {**PROVIDERS, "cn1": (None, {**PROVIDERS["cn1"][1], "VCPU": 3})}
    planned = prepared(MOVES, cloud_builder.state(crowded, CONSUMERS))
    assert any("cn1 is over capacity with VCPU" in note for note in planned.planned.plan.notes)


def test_a_template_is_rehearsed_beside_a_skipped_tree_with_a_shared_consumer() -> None:
    providers = {"a": (None, {"VGPU": 2}), "b": (None, {"VCPU": 2})}
    consumers = {"both": {"a": {"VGPU": 1}, "b": {"VCPU": 1}}}
    state = cloud_builder.state(providers, consumers, {"b": ["CUSTOM_X", "COMPUTE_NODE"]})
    text = "moves: [{from: $root, resources: {VGPU: all}, to: {name: '${root}-0'}}]"
    with service.InProcessPlacement(load=state) as placement:
        client = placement.client(microversion.MAXIMUM)
        roots = tuple(client.list_providers())
        request = reshape_plan.ReshapeRequest(documents.parse(text, "m"), roots=roots)
        planned = reshape_plan.plan_reshape(client, request, ReadContext())
    assert [item.code for item in planned.planned.plan.skipped] == ["nothing-to-move"]
    assert planned.after.nodes.keys() == {uuid_of("a"), uuid_of("b"), new("a-0")}


READING = ReadContext(workers=2)


def prepare(client: api.Client, case: cases.Case) -> reshape_plan.Prepared:
    moves = documents.parse(case.moves, "moves")
    request = reshape_plan.ReshapeRequest(moves, options=assignment.AssignOptions(case.strategy, 5))
    return reshape_plan.plan_reshape(client, request, READING)


def apply(
    client: api.Client, item: plan.Plan, direction: attempt.Direction = attempt.Direction.APPLY
) -> list[result.ChangeResult]:
    context = attempt.RunContext(
        base.Services(client), journal.MemoryJournal(), threading.Event(), direction=direction
    )
    return executor.execute(item.changes, context, executor.RunLimits(workers=2)).results


def test_a_reshape_is_refused_without_changes_or_keeps_the_invariants_and_can_be_undone(
    pytestconfig: pytest.Config,
) -> None:
    is_long = pytestconfig.getoption("--long")
    settings = hypothesis.settings(
        max_examples=1000 if is_long else 30,
        derandomize=not is_long,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    outcomes: set[str] = set()
    settings(hypothesis.given(cases.cases())(lambda case: outcomes.add(check(case))))()
    assert outcomes == {"refused", "moved consumers", "moved inventories"}


def check(case: cases.Case) -> str:
    """Plan, apply and undo the reshape of a case; what came of it."""
    with service.InProcessPlacement(load=case.state) as placement:
        client = placement.client(microversion.MAXIMUM)
        before = placement.app.export()
        try:
            found = prepare(client, case)
        except errors.InvalidInput:
            assert placement.app.export() == before
            return "refused"
        assert placement.app.export() == before
        statuses = {item.status for item in apply(client, found.planned.plan)}
        assert statuses <= {result.Status.APPLIED}
        cases.check_laws(case, before, placement.app.export())
        left = observe.read_trees(client, found.after.roots, READING)
        expected = found.after.records()
        assert rehearsal.differences(left.records(), expected) == []
        inverse = apply_module.inverse_of(found.planned.plan)
        undone = apply(client, inverse, attempt.Direction.UNDO)
        assert {item.status for item in undone} <= {result.Status.APPLIED}
        after = placement.app.export()
        assert cloud_builder.without_generations(after) == cloud_builder.without_generations(before)
        return "moved consumers" if found.placed else "moved inventories"
