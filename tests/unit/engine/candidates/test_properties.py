# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import random

import pytest
from hypothesis import given, settings, strategies as st

from osc_placement.engine import state
from osc_placement.engine.candidates import (
    forest as forests,
    plans,
    report as reports,
    search as candidates,
    tree,
)
from osc_placement.model.candidate import CandidateQuery
from tests.support.candidates import clouds, oracle, random_queries

#: A cloud and three queries, drawn in a way that hypothesis can shrink.
DRAWS = st.randoms(use_true_random=False)


def draw(steered: random.Random) -> tuple[state.CloudState, list[CandidateQuery]]:
    base = clouds.draw_state(steered)
    versions = [random_queries.draw_version(steered) for _ in range(3)]
    return base, [random_queries.draw_query(steered, base, version) for version in versions]


#: The steps without a candidate after which a search looks ahead: usually, and from the start.
@pytest.mark.parametrize(
    ("steps", "seeds"), [(tree.LOOKAHEAD_AFTER, range(400)), (-1000, range(240, 640))]
)
def test_the_search_finds_what_brute_force_finds_once(
    steps: int, seeds: range, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tree, "LOOKAHEAD_AFTER", steps)
    for seed in seeds:
        base, queries = draw(random.Random(seed))
        for query in queries:
            answers = [oracle.freeze(candidate) for candidate in candidates.search(base, query)]
            assert len(answers) == len(set(answers))
            assert set(answers) == oracle.brute_force(base, query), (seed, query)


@settings(max_examples=50)
@given(DRAWS, st.integers(1, 5))
def test_a_limited_result_is_the_start_of_the_full_one(steered: random.Random, limit: int):
    base, queries = draw(steered)
    for query in queries:
        whole = list(candidates.search(base, query))
        limited = dataclasses.replace(query, limit=limit)
        assert list(candidates.search(base, limited)) == whole[:limit]


@settings(max_examples=50)
@given(DRAWS)
def test_the_report_agrees_with_the_candidates(steered: random.Random):
    base, queries = draw(steered)
    for query in queries:
        plan = plans.prepare(base, query)
        forest = forests.Forest(base, plan)
        for candidate in candidates.search(base, query):
            assert reports.tree_refusals(forest, candidate.root_uuid) == []
        for slot in plan.slots:
            for provider in base.providers.values():
                dropped = bool(reports.provider_refusals(base, slot, provider))
                assert dropped is not slot.fits(base, provider)


@settings(max_examples=50)
@given(DRAWS)
def test_every_tree_without_a_candidate_is_reported_with_a_reason(steered: random.Random):
    base, queries = draw(steered)
    for query in queries:
        forest = forests.Forest(base, plans.prepare(base, query))
        if not any(candidates.search(base, query)):
            roots = {provider.root_uuid for provider in base.providers.values()}
            assert all(reports.tree_refusals(forest, root) for root in roots)
