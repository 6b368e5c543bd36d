# SPDX-License-Identifier: Apache-2.0
"""Reading trees while other clients write, and the requests sent."""

from __future__ import annotations

import pytest

from osc_placement.workflows.reshape import observe
from tests.support import embedded
from tests.support.embedded import uuid_of
from tests.support.reshape import cloud_builder
from tests.support.reshape.interrupted import READING, Cloud


@pytest.fixture
def cloud() -> Cloud:
    return Cloud()


def test_reading_a_cloud_that_changes_ends_with_an_error(cloud: Cloud) -> None:
    def write(request: embedded.Request) -> None:
        before = cloud.rival.list_inventories(uuid_of("cn1"))
        cloud.rival.replace_inventories(uuid_of("cn1"), before.generation, before.inventories)

    cloud.client.before(embedded.at("GET /resource_providers/{}/inventories", write))
    with pytest.raises(observe.ChangedDuringRead, match="cn1 changed each time"):
        observe.read_trees(cloud.client, [uuid_of("cn1")], READING)


def test_a_consumer_deleted_during_the_read_is_not_in_the_snapshot(cloud: Cloud) -> None:
    def delete(request: embedded.Request) -> None:
        cloud.rival.delete_allocations(request.subject)

    cloud.client.before(embedded.about("one", embedded.once_each(delete)))
    before = observe.read_trees(cloud.client, [uuid_of("cn1")], READING)
    assert before.consumers.keys() == {uuid_of("moving"), uuid_of("fpga")}
    assert before.nodes[uuid_of("cn1")].used["VGPU"] == 2


def test_a_snapshot_sends_the_documented_number_of_requests(cloud: Cloud) -> None:
    before = observe.read_trees(cloud.client, [uuid_of("cn1")], READING)
    inside, consumers, others = 2, 3, 2
    assert len(cloud.client.sent) == 2 + 4 * inside + consumers + 2 * others + 2 * others
    expected = cloud_builder.snapshot_of(cloud.client.export(), "cn1")
    assert before.nodes == expected.nodes
    assert before.consumers == expected.consumers
