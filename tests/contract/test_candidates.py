# SPDX-License-Identifier: Apache-2.0
"""Random clouds and queries: the same candidates and errors as openstack-placement.

``tools/differential-candidates`` runs more of the queries that have candidates.
"""

from __future__ import annotations

import contextlib
import random
import urllib.parse

import pytest

from osc_placement import errors, microversion
from osc_placement.client import query
from tests.support.candidates import comparison, random_queries
from tests.support.peer import target as targets
from tests.support.sequences import compare
from tests.support.sequences.values import Request

Pairs = list[tuple[str, str]]

UNKNOWN_TRAITS = ("NOPE", "CUSTOM_NOPE", "CUSTOM_lower")
REQUIRED = (*UNKNOWN_TRAITS, "!NOPE", "in:NOPE", "in:CUSTOM_T1,NOPE", "CUSTOM_T3", "!CUSTOM_T1", "")
RESOURCES = ("FOO:1", "VCPU:1,FOO:1", "CUSTOM_FOO:1", "VCPU:1", "VCPU:0", "VCPU", "VGPU:1,FOO:2")
ONE, UNKNOWN = random_queries.AGGREGATES[0], random_queries.UNKNOWN
MEMBER_OF = (UNKNOWN, f"in:{UNKNOWN},{ONE}", f"!{UNKNOWN}", f"!in:{ONE}", ONE, "x", "in:", "!in:")
OF_PROVIDERS = ("resources", "required", "member_of", "in_tree")
VALUES = {
    "required": REQUIRED,
    "root_required": REQUIRED,
    "resources": RESOURCES,
    "member_of": MEMBER_OF,
    "in_tree": (UNKNOWN, "x", ""),
    "same_subtree": ("_A", "_A,_Z", "", "1,2"),
    "group_policy": ("none", "isolate", "x"),
}


def draw_request(draw: random.Random, case: comparison.Case) -> Request:
    """A query of candidates, or of providers, with one to three of its parameters spoilt."""
    pairs = urllib.parse.parse_qsl(case.path.partition("?")[2])
    for _ in range(draw.choice((1, 1, 2, 3))):
        _spoil(draw, pairs)
    if draw.random() < 0.3:
        draw.shuffle(pairs)
    path = "/allocation_candidates"
    if draw.random() < 0.25:
        path = "/resource_providers"
        pairs = [pair for pair in pairs if pair[0] in OF_PROVIDERS]
    return Request("GET", f"{path}?{urllib.parse.urlencode(pairs)}", case.version.minor)


def draw_text(draw: random.Random, case: comparison.Case) -> Pairs:
    """The parameters of a query, some of them repeated with the same or with other values."""
    pairs = urllib.parse.parse_qsl(case.path.partition("?")[2])
    for _ in range(draw.choice((1, 1, 2, 3))):
        key, value = draw.choice(pairs)
        kind = next(name for name in VALUES if key.startswith(name))
        other = draw.choice((value, value, *VALUES[kind]))
        pairs.insert(draw.randrange(len(pairs) + 1), (key, other))
    if draw.random() < 0.3:
        limit = draw.choice(("0", "x", "1000", " 5", "+9", "-1", "01000", ""))
        pairs.insert(draw.randrange(len(pairs) + 1), ("limit", limit))
    return pairs


def _spoil(draw: random.Random, pairs: Pairs) -> None:
    """Change, add or remove one parameter."""
    at = draw.randrange(len(pairs))
    key, value = pairs[at]
    name = next(name for name in VALUES if key.startswith(name))
    other = draw.choice(VALUES[name])
    suffix = key.removeprefix(name) if name in ("required", "resources") else ""
    kind = draw.randrange(6)
    if kind == 0:
        pairs[at] = (key, f"{value},{other}")
    elif kind == 1:
        pairs[at] = (key, other)
    elif kind == 2:
        pairs.insert(draw.randrange(len(pairs) + 1), (key, other))
    elif kind == 3:
        pairs.append((f"required{suffix}", draw.choice(REQUIRED)))
    elif kind == 4:
        pairs.append(("root_required", draw.choice(REQUIRED)))
    elif len(pairs) > 1:
        del pairs[at]


@pytest.mark.parametrize("seed", range(8))
def test_search_finds_what_the_real_service_finds(
    seed: int, real_placement: targets.RealPlacement
) -> None:
    real_placement.reset()
    base, cases = comparison.draw_cases(seed, 30)
    comparison.seed(base, real_placement)
    for case in cases:
        real, ours = comparison.response_of(case, real_placement), comparison.result_of_search(case)
        if real != ours and not comparison.excuse(case, real, ours):
            pytest.fail("\n".join(comparison.describe(case, real, ours)))


@pytest.mark.seeds(2, long=60)
def test_a_spoilt_query_has_the_error_of_the_real_service_or_none(
    seed: int, real_placement: targets.RealPlacement
) -> None:
    """Also whether a name is looked up at all: an earlier condition may leave no provider."""
    draw = random.Random(seed)
    base, cases = comparison.draw_cases(seed, 40)
    real_placement.reset()
    with contextlib.ExitStack() as stack:
        ours = targets.Loopback(first_generation=0)
        stack.callback(ours.stop)
        for placement in (real_placement, ours):
            comparison.seed(base, placement)
        ask_real, ask_ours = (compare.Server(server.url) for server in (real_placement, ours))
        stack.callback(ask_real.close)
        stack.callback(ask_ours.close)
        for case in cases:
            request = draw_request(draw, case)
            real, own = ask_real(request), ask_ours(request)
            # The candidates themselves have a comparison of their own, with known differences.
            if real.status == 500 or (real.status == own.status == 200 and "alloc" in request.path):
                continue
            assert not compare.difference(real, own), str(request)


@pytest.mark.seeds(3, long=60)
def test_a_query_with_repeated_parameters_means_what_the_real_service_reads(
    seed: int, real_placement: targets.RealPlacement
) -> None:
    """Except that a repeated "required" is refused below 1.39, where the last one counts."""
    draw = random.Random(f"repeated {seed}")
    base, cases = comparison.draw_cases(seed, 40)
    real_placement.reset()
    comparison.seed(base, real_placement)
    compared = 0
    for case in cases:
        pairs = draw_text(draw, case)
        text = query.encode(pairs)
        real = comparison.response_of(case, real_placement, text)
        features = query.candidate_features(pairs)
        lacking = {one for one in features if not microversion.supports(case.version, one)}
        try:
            candidate_query = query.read_candidates(query.parse(text))
        except errors.InvalidInput:
            assert real.fault.startswith("400"), (str(case.version), text)
            continue
        assert not lacking or "any traits" in lacking or real.fault.startswith("400"), text
        if lacking or real.fault or ("group_policy", "x") in pairs:
            continue
        canonical = query.candidate_pairs(candidate_query)
        if ("group_policy", "none") in pairs and ("group_policy", "none") not in canonical:
            canonical.append(("group_policy", "none"))
        same = comparison.response_of(case, real_placement, query.encode(canonical))
        assert same == real, (str(case.version), text)
        compared += 1
    assert compared
