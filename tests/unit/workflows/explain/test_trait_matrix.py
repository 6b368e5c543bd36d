# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import pytest

from osc_placement.workflows.cloud import selector
from osc_placement.workflows.explain import trait_matrix
from tests.support import embedded

EVERYTHING = selector.Selector(everything=True)
LISTING, PROVIDER_TRAITS = "GET /resource_providers", "GET /resource_providers/{}/traits"


def cloud(count: int = 6) -> embedded.Client:
    """Hosts with CUSTOM_A; every second one has CUSTOM_B, too."""
    return embedded.Client(
        embedded.Host(f"host-{number}", traits=("CUSTOM_A", "CUSTOM_B")[: 1 + number % 2])
        for number in range(count)
    )


@pytest.mark.parametrize(
    ("count", "requests"),
    [(6, {"GET /traits": 1, LISTING: 3}), (2, {"GET /traits": 1, LISTING: 1, PROVIDER_TRAITS: 2})],
)
def test_one_request_per_trait_or_per_provider_whichever_is_less(
    count: int, requests: dict[str, int]
) -> None:
    client = cloud(count)
    matrix = trait_matrix.observe_matrix(client, EVERYTHING)
    assert client.count() == requests
    assert {item.name: sorted(traits) for item, traits in matrix.traits_of.items()} == {
        f"host-{number}": ["CUSTOM_A", "CUSTOM_B"][: 1 + number % 2] for number in range(count)
    }


def test_a_pattern_and_the_selection_limit_the_matrix() -> None:
    selected = selector.Selector(forbidden=("CUSTOM_B",))
    matrix = trait_matrix.observe_matrix(cloud(), selected, ["*_A", "*_B"])
    assert matrix.traits == ("CUSTOM_A",)
    assert matrix.without_match(["*_A", "*_B"]) == ["*_B"]
    assert len(matrix.traits_of) == 3
    assert trait_matrix.observe_matrix(cloud(), EVERYTHING, ["HW_*"]).traits == ()


def test_differing_traits_and_equal_providers() -> None:
    matrix = trait_matrix.observe_matrix(cloud(5), EVERYTHING)
    differing = matrix.differing()
    assert differing.traits == ("CUSTOM_B",)
    even, odd = differing.groups()
    assert [item.name for item in even.providers] == ["host-0", "host-2", "host-4"]
    assert [item.name for item in odd.providers] == ["host-1", "host-3"]
    assert (even.traits, odd.traits) == (frozenset(), {"CUSTOM_B"})
