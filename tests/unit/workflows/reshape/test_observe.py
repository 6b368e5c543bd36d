"""Reading trees while other clients write, and the requests sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from osc_placement.client import api, wsgi
from osc_placement.testing import service
from osc_placement.workflows.reshape import observe
from tests.support.reshape import cloud_builder
from tests.support.reshape.cloud_builder import uuid_of
from tests.support.reshape.interrupted import (
    CONSUMERS,
    NEW,
    PROVIDERS,
    READING,
    Cloud,
)


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    with service.InProcessPlacement(load=cloud_builder.state(PROVIDERS, CONSUMERS)) as placement:
        yield Cloud(placement)


def test_reading_a_restless_cloud_ends_with_an_error(cloud: Cloud) -> None:
    class Restless:
        def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
            if environ["PATH_INFO"].endswith("/inventories"):
                before = cloud.rival.list_inventories(uuid_of("cn1"))
                cloud.rival.replace_inventories(uuid_of("cn1"), *before)
            return cloud.placement.app(environ, start_response)

        def close(self) -> None:
            """Nothing to close."""

    client = api.Client(wsgi.in_process(Restless, "the cloud"), NEW)
    with pytest.raises(observe.Restless, match="cn1 changed each time"):
        observe.read_trees(client, [uuid_of("cn1")], READING)


def test_a_consumer_deleted_during_the_read_is_not_in_the_snapshot(cloud: Cloud) -> None:
    class Going:
        def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
            if (
                environ["PATH_INFO"] == f"/allocations/{uuid_of('one')}"
                and uuid_of("one") in (cloud.state()["consumers"])
            ):
                cloud.rival.delete_allocations(uuid_of("one"))
            return cloud.placement.app(environ, start_response)

        def close(self) -> None:
            """Nothing to close."""

    client = api.Client(wsgi.in_process(Going, "the cloud"), NEW)
    before = observe.read_trees(client, [uuid_of("cn1")], READING)
    assert before.consumers.keys() == {uuid_of("moving"), uuid_of("fpga")}
    assert before.nodes[uuid_of("cn1")].used["VGPU"] == 2


def test_a_snapshot_sends_the_documented_number_of_requests(cloud: Cloud) -> None:
    paths: list[str] = []

    class Counting:
        def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
            paths.append(environ["PATH_INFO"])
            return cloud.placement.app(environ, start_response)

        def close(self) -> None:
            """Nothing to close."""

    client = api.Client(wsgi.in_process(Counting, "the cloud"), NEW)
    before = observe.read_trees(client, [uuid_of("cn1")], READING)
    inside, consumers, others = 2, 3, 2
    assert len(paths) == 2 + 4 * inside + consumers + 2 * others + 2 * others
    expected = cloud_builder.snapshot_of(cloud.placement.app.export(), "cn1")
    assert before.nodes == expected.nodes
    assert before.consumers == expected.consumers
