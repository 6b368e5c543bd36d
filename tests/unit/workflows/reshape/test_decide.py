# SPDX-License-Identifier: Apache-2.0
"""The targets of consumers: by evidence, by a strategy, or none."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from osc_placement import errors
from osc_placement.workflows.reshape import assignment, consumers as consumers_module
from tests.support.embedded import uuid_of
from tests.support.reshape.documents import (
    CONSUMERS,
    MOVES,
    PACK,
    PROVIDERS,
    A,
    B,
    cloud,
    decided,
    new,
    refused,
)


def test_evidence_splits_an_allocation() -> None:
    large = {**CONSUMERS, "one": {"cn1": {"VCPU": 1, "VGPU": 5}, "share": {"DISK_GB": 10}}}
    before = cloud(consumers=large)
    text = f"{MOVES}assign: {{{uuid_of('one')}: {{VGPU: {{{A}: 3, {B}: 2}}}}}}\n"
    found = decided(text, before, PACK)
    assert found.after.consumers[uuid_of("one")].allocations == {
        uuid_of("cn1"): {"VCPU": 1},
        uuid_of("share"): {"DISK_GB": 10},
        new(A): {"VGPU": 3},
        uuid_of(B): {"VGPU": 2},
    }
    assert {item.guess for item in found.placed if item.demand.consumer == uuid_of("one")} == {""}


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        (f"{{{A}: 3, {B}: 1}}", "4 VGPU are assigned, and it has 5"),
        (f"{{{B}: 3, {uuid_of(B)}: 2}}", "VGPU is assigned twice to the same target"),
        (f"{{{A}: 3, cn2: 2}}", "VGPU to 'cn2' is not possible"),
        (f"{{{A}: 5, {B}: 0}}", "0 is less than the minimum"),
    ],
)
def test_invalid_parts_are_refused(parts: str, reason: str) -> None:
    large = {**CONSUMERS, "one": {"cn1": {"VGPU": 5}}}
    text = f"{MOVES}assign: {{{uuid_of('one')}: {{VGPU: {parts}}}}}\n"
    with pytest.raises(errors.InvalidInput) as caught:
        decided(text, cloud(consumers=large), PACK)
    assert reason in "; ".join(caught.value.reasons)


def test_consumers_that_do_not_fit_are_refused_and_listed() -> None:
    large = {**CONSUMERS, "one": {"cn1": {"VGPU": 5}}}
    (reason,) = refused(MOVES, cloud(consumers=large), PACK)
    assert "cannot be placed" in reason
    assert uuid_of("one") in reason


def test_a_search_at_the_time_limit_has_no_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(assignment, "assign", lambda *_: assignment.GaveUp(0.1))
    reason = refused(MOVES, options=consumers_module.AssignOptions("pack", 7))[0]
    assert reason.startswith("gave up the search for targets")
    assert "after 7 seconds, without a solution or a proof" in reason


def test_evidence_that_does_not_fit_is_reported_with_the_reason() -> None:
    evidence = f"{MOVES}assign: {{{uuid_of('one')}: {A}, {uuid_of('moving')}: {{VGPU: {A}}}}}\n"
    (reason,) = refused(evidence)
    assert reason.startswith("the VGPU of cn1 cannot be placed: ")
    small = {**PROVIDERS, B: ("cn1", {"VGPU": {"total": 4, "max_unit": 1}})}
    evidence = f"{MOVES}assign: {{{uuid_of('one')}: {{VGPU: {B}}}}}\n"
    (reason,) = refused(evidence, cloud(small), PACK)
    assert f"4 VGPU from cn1, assigned to {B}, fits nowhere" in reason


def test_impossible_evidence_is_an_error() -> None:
    found = refused(
        f"{MOVES}assign: {{{uuid_of('unknown')}: {A}, {uuid_of('one')}: cn2,"
        f" {uuid_of('plain')}: {A}, {uuid_of('moving')}: {{VCPU: {A}}}}}\n"
    )
    assert [
        any(part in reason for reason in found)
        for part in (
            f"{uuid_of('unknown')} has no allocation in these trees",
            f"{uuid_of('one')}: no part of its allocations can move to 'cn2'",
            f"{uuid_of('plain')} has no allocation that moves",
            f"{uuid_of('moving')} has no VCPU that moves",
        )
    ] == [True] * 4, found


def test_classes_with_the_same_targets_stay_together() -> None:
    providers = {
        "cn1": (None, {"VCPU": 8, "MEMORY_MB": 800}),
        "numa0": ("cn1", {}),
        "numa1": ("cn1", {}),
    }
    consumers = {f"c{number}": {"cn1": {"VCPU": 2, "MEMORY_MB": 200}} for number in range(4)}
    text = """\
moves:
- {from: cn1, resources: {VCPU: 4, MEMORY_MB: 400}, to: numa0}
- {from: cn1, resources: {VCPU: 4, MEMORY_MB: 400}, to: numa1}
"""
    placed = decided(
        text, cloud(providers, consumers), consumers_module.AssignOptions("spread")
    ).placed
    assert len(placed) == 4
    assert all(set(item.demand.resources) == {"VCPU", "MEMORY_MB"} for item in placed)


def test_classes_with_different_targets_do_not_stay_together() -> None:
    both = {"VCPU": 4, "MEMORY_MB": 4}
    providers = {"cn1": (None, both), "b": ("cn1", both), "n0": ("cn1", {}), "n1": ("cn1", {})}
    consumers = {"c": {name: {"VCPU": 1, "MEMORY_MB": 1} for name in ("cn1", "b")}}
    text = f"""\
moves:
- {{from: cn1, resources: {{VCPU: 2, MEMORY_MB: 2}}, to: n0}}
- {{from: cn1, resources: {{VCPU: 2, MEMORY_MB: 2}}, to: n1}}
- {{from: b, resources: {{VCPU: all}}, to: n0}}
- {{from: b, resources: {{MEMORY_MB: all}}, to: n1}}
assign: {{{uuid_of("c")}: n1}}
"""
    placed = decided(text, cloud(providers, consumers)).placed
    assert {
        (item.demand.source, tuple(item.demand.resources), item.option.target) for item in placed
    } == {
        (uuid_of("cn1"), ("MEMORY_MB", "VCPU"), uuid_of("n1")),
        (uuid_of("b"), ("VCPU",), uuid_of("n0")),
        (uuid_of("b"), ("MEMORY_MB",), uuid_of("n1")),
    }


def test_a_consumer_that_is_not_on_its_assigned_target_is_detected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def swapped(*arguments: Any) -> tuple[list[Any], list[str]]:
        """A faulty assignment that swaps the GPUs."""
        other = {new(A): uuid_of(B), uuid_of(B): new(A)}
        placed, reasons = original(*arguments)
        return [
            dataclasses.replace(item, option=item.option._replace(target=other[item.option.target]))
            for item in placed
        ], reasons

    original = consumers_module.assign
    text = f"{MOVES}assign: {{{uuid_of('one')}: {A}, {uuid_of('moving')}: {B}}}"
    assert decided(text, options=PACK).placed
    monkeypatch.setattr(consumers_module, "assign", swapped)
    reasons = refused(text, options=PACK)
    assert f"consumer {uuid_of('one')} would not be on its target" in reasons
