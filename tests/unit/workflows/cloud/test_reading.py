# SPDX-License-Identifier: Apache-2.0
"""The reader of Placement: requests sent, and what was deleted or cannot be read."""

from __future__ import annotations

import pytest

from osc_placement.client import api_errors
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.cloud.reading import PlacementReader
from tests.support import embedded
from tests.support.embedded import uuid_of

SHARES = "MISC_SHARES_VIA_AGGREGATE"
ONE, OTHER = uuid_of("one aggregate"), uuid_of("another aggregate")
LIST = "GET /resource_providers"
AGGREGATES = "GET /resource_providers/{}/aggregates"


def reader(client: embedded.Client) -> PlacementReader:
    return PlacementReader(client, ReadContext())


@pytest.fixture
def shared() -> embedded.Client:
    """cmp-0 and cmp-1 in one aggregate, cmp-2 in another; cmp-3 to cmp-5 share with them."""
    placed: dict[str, tuple[str, ...]] = {
        "cmp-0": (ONE,),
        "cmp-1": (ONE,),
        "cmp-2": (OTHER,),
        "cmp-3": (ONE,),
        "cmp-4": (ONE,),
        "cmp-5": (OTHER, ONE),
        "cmp-6": (),
    }
    return embedded.Client(
        embedded.Host(name, (SHARES,) if name >= "cmp-3" else (), aggregates)
        for name, aggregates in placed.items()
    )


def test_each_tree_has_the_providers_that_share_with_it(shared: embedded.Client) -> None:
    sharing = reader(shared).sharing(shared.list_providers())
    names = {item.uuid: item.name for item in shared.list_providers()}
    assert {
        names[root]: sorted(names[uuid] for uuid in uuids) for root, uuids in sharing.items()
    } == {
        "cmp-0": ["cmp-3", "cmp-4", "cmp-5"],
        "cmp-1": ["cmp-3", "cmp-4", "cmp-5"],
        "cmp-2": ["cmp-5"],
        "cmp-3": ["cmp-4", "cmp-5"],
        "cmp-4": ["cmp-3", "cmp-5"],
        "cmp-5": ["cmp-3", "cmp-4"],
    }


def test_sharing_providers_in_the_same_aggregates_cost_one_listing(shared: embedded.Client) -> None:
    providers = shared.list_providers()
    before = shared.count()
    reader(shared).sharing(providers)
    # The sharing providers, and the members of {ONE} and of {ONE, OTHER}.
    assert shared.count() - before == {LIST: 3, AGGREGATES: 4}


def test_a_provider_that_was_deleted_meanwhile_has_no_answer(shared: embedded.Client) -> None:
    gone, left = uuid_of("gone"), shared.stored("cmp-0").uuid
    answers = reader(shared).existing(shared.list_inventories, [left, gone, left])
    assert list(answers) == [left]
    assert shared.count()["GET /resource_providers/{}/inventories"] == 2


def test_a_provider_that_cannot_be_read_has_its_error(shared: embedded.Client) -> None:
    gone, left = uuid_of("gone"), shared.stored("cmp-0").uuid
    answers, failed = reader(shared).readable(shared.list_inventories, [gone, left])
    assert (list(answers), list(failed)) == ([left], [gone])
    assert "No resource provider" in failed[gone]


def test_an_answer_that_is_needed_stops_the_reading(shared: embedded.Client) -> None:
    with pytest.raises(api_errors.NotFound):
        reader(shared).answers(shared.list_inventories, [uuid_of("gone")])


REFUSED = [api_errors.from_status(status, "no", method="GET") for status in (401, 403)]
REDIRECTED = api_errors.Redirected(302, "http://other.example/", method="GET", url="/traits")


@pytest.mark.parametrize("error", [*REFUSED, REDIRECTED], ids=["401", "403", "redirect"])
def test_an_error_of_all_requests_is_raised_once(error: api_errors.ApiError) -> None:
    def read(item: int) -> int:
        raise error

    with pytest.raises(type(error)) as caught:
        reader(embedded.Client()).readable(read, range(10))
    assert caught.value is error
