# SPDX-License-Identifier: Apache-2.0
"""Limits of a search, and searches with very many candidates or hardly any."""

from __future__ import annotations

import dataclasses
import itertools
import time

import pytest

from osc_placement.engine.candidates import budget as budgets, forest, search as candidates
from osc_placement.model import candidate as model
from tests.support.candidates.clouds import cloud, found, group, provider, query


def test_too_many_candidates_are_an_error_unless_there_is_a_limit():
    base = cloud(*(provider(f"host{n}", VCPU=4) for n in range(9)))
    arguments = query(group(VCPU=1))
    assert len(list(candidates.search(base, arguments, max_candidates=9))) == 9
    with pytest.raises(budgets.TooManyCandidates, match="more than 8"):
        list(candidates.search(base, arguments, max_candidates=8))
    limited = dataclasses.replace(arguments, limit=8)
    assert len(list(candidates.search(base, limited, max_candidates=8))) == 8


def test_breadth_first_takes_one_candidate_of_each_tree_in_turn():
    base = cloud(
        *(provider(f"host{n}") for n in range(3)),
        *(provider(f"gpu{n}-{m}", f"host{n}", VGPU=1) for n in range(3) for m in range(n + 1)),
    )
    arguments = query(group("1", VGPU=1))
    searched = {
        strategy: [each.root_uuid for each in candidates.search(base, arguments, strategy=strategy)]
        for strategy in forest.Strategy
    }
    first, two, three = dict.fromkeys(searched[forest.Strategy.DEPTH_FIRST])
    assert searched[forest.Strategy.DEPTH_FIRST] == [first, two, two, three, three, three]
    assert searched[forest.Strategy.BREADTH_FIRST] == [first, two, three, two, three, three]


def wide(children: int, total: int = 1) -> object:
    devices = (provider(f"d{n}", "host", PCI_DEVICE=total) for n in range(children))
    return cloud(provider("host"), *devices)


@pytest.mark.parametrize("isolate", [True, False])
def test_the_first_of_very_many_candidates_are_found_quickly(isolate: bool):
    groups = [group(f"_{n}", PCI_DEVICE=1) for n in range(16)]
    arguments = query(*groups, isolate=isolate)
    first = itertools.islice(candidates.search(wide(32, 8), arguments), 1000)
    assert len({tuple(candidate.mappings.values()) for candidate in first}) == 1000


@pytest.mark.parametrize("isolate", [True, False])
def test_one_missing_device_is_detected_quickly(isolate: bool):
    groups = [group(f"_{n}", PCI_DEVICE=1) for n in range(16)]
    assert found(wide(15), *groups, isolate=isolate) == []


def test_the_last_free_device_is_found():
    picky = [group(f"_{n}", PCI_DEVICE=1, required=f"T{n}|T{n + 1}") for n in range(12)]
    devices = [provider(f"d{n}", "host", PCI_DEVICE=1, traits=f"T{n}") for n in range(13)]
    base = cloud(provider("host"), *devices)
    assert len(found(base, *picky, isolate=True)) == 13


def test_a_sum_that_does_not_fit_in_parts_is_detected_quickly():
    # 21 units are requested, and each of 7 devices has 3, but no parts add up to 3.
    groups = [group(f"_{n}", PCI_DEVICE=2) for n in range(7)] + [group("_Z", PCI_DEVICE=2)]
    groups += [group("_Y", PCI_DEVICE=1), group("_X", PCI_DEVICE=1)]
    assert found(wide(7, 3), *groups) == []


@pytest.mark.parametrize("isolate", [True, False])
@pytest.mark.parametrize(
    ("devices", "total", "amounts", "fits"),
    [
        (20, 1, [1] * 60, False),
        (20, 3, [1] * 60, True),
        (100, 2, [1] * 300, False),
        (100, 3, [1] * 300, True),
        (20, 5, [2] * 60, False),
        (20, 5, [1] * 20 + [2] * 40, True),
        (20, 5, [1] * 18 + [2] * 41, False),
        (20, 7, [2] * 8 + [3] * 41, False),
        (100, 8, [2] * 150 + [3] * 150, True),
    ],
)
def test_hundreds_of_groups_are_decided_quickly(
    devices: int, total: int, amounts: list[int], fits: bool, isolate: bool
):
    groups = [group(f"_{n}", PCI_DEVICE=amount) for n, amount in enumerate(amounts)]
    # Not the time of the clock: other programs may have the processor.
    budget = budgets.SearchBudget(seconds=4, clock=time.process_time)
    arguments = query(*groups, isolate=isolate, limit=1)
    number = len(list(candidates.search(wide(devices, total), arguments, budget=budget)))
    assert number == (fits and not isolate)


def packing() -> tuple[object, model.CandidateQuery]:
    """Amounts that fill 100 equal devices completely: no search finds out in a short time."""
    amounts = [30 + 69 * n * n % 70 for n in range(300)]
    groups = [group(f"_{n}", PCI_DEVICE=amount) for n, amount in enumerate(amounts)]
    return wide(100, sum(amounts) // 100 + 1), query(*groups)


def test_the_time_of_a_search_is_limited():
    base, arguments = packing()
    with pytest.raises(budgets.SearchTooLong, match="more than"):
        list(candidates.search(base, arguments, budget=budgets.SearchBudget(0.2)))
