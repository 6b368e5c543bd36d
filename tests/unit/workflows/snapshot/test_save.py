# SPDX-License-Identifier: Apache-2.0
"""Saving: the exact requests, and what the file then has."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import sqlite3
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from osc_placement import errors, server
from osc_placement.client import api, wsgi
from osc_placement.model import allocation, inventory
from osc_placement.testing import service, traffic
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.snapshot import file, save
from tests.support import embedded, plain_reading

PROVIDERS, CONSUMERS = 22, 39
#: Providers without inventories, of which the provider itself is read too.
EMPTY = 2
#: The requests that read all providers, and those that look at each of them again at the end.
READ, CHECK = 4 * PROVIDERS + EMPTY, PROVIDERS
SERIAL = ReadContext(workers=1)
TWICE = embedded.uuid_of("twice")
OWNER, TRAITS = "GET /allocations/{}", "GET /resource_providers/{}/traits"


class Cloud:
    """The sample cloud, a client of it that counts requests, and a second client."""

    def __init__(self) -> None:
        self.placement = service.InProcessPlacement(load="12-hosts").start()
        self.proxy = traffic.Traffic(self.placement.app)
        self.client = api.Client(wsgi.in_process(lambda: self.proxy, embedded.TARGET))
        self.other = self.placement.client()
        assert self.client.microversion

    def save(self, path: pathlib.Path, **options: Any) -> save.SaveReport:
        self.proxy.sent.clear()
        return save.save(self.client, save.SaveRequest(path, **options), SERIAL)

    def count(self) -> dict[str, int]:
        """The requests of the last save, except the version document."""
        paths = [request.template for request in self.proxy.sent if request.path != "/"]
        return {path: paths.count(path) for path in paths}

    def document(self) -> dict[str, Any]:
        return plain_reading.comparable(self.placement.app.export())

    def provider(self, name: str) -> str:
        return self.other.list_providers(name=name)[0].uuid

    def amend(self, uuid: str) -> None:
        """Change the inventories of a provider, which increases its generation."""
        inventories = self.other.list_inventories(uuid)
        self.other.replace_inventories(uuid, inventories.generation, inventories.inventories)

    def set_aggregates(self, uuid: str) -> None:
        """Write the aggregates of a provider, which increases its generation alone."""
        aggregates = self.other.list_aggregates(uuid)
        self.other.replace_aggregates(uuid, aggregates.generation, aggregates.aggregates)

    def consumer(self, providers: int = 1) -> allocation.Consumer:
        """A consumer with allocations on this number of providers."""
        for uuid, fields in self.document()["consumers"].items():
            if len(fields["allocations"]) == providers and fields["type"] != "unknown":
                return self.other.show_allocations(uuid)
        raise LookupError(providers)


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    made = Cloud()
    yield made
    made.placement.stop()


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "cloud.sqlite"


def saved(path: pathlib.Path) -> dict[str, Any]:
    """The state in a file, as the server reads it."""
    app = server.create_app(str(path))
    try:
        return plain_reading.comparable(app.export())
    finally:
        app.close()


def notes(path: pathlib.Path) -> dict[str, str]:
    with file.SnapshotFile(path) as opened:
        return {note.uuid: note.text for note in opened.notes()}


def gone(_: traffic.Request) -> None:
    raise errors.PlacementError("the cloud is gone")


def test_a_save_reads_everything_with_the_promised_requests(
    cloud: Cloud, path: pathlib.Path
) -> None:
    report = cloud.save(path)
    assert cloud.count() == {
        "GET /resource_providers": 2,
        "GET /resource_providers/{}/inventories": PROVIDERS + PROVIDERS - EMPTY,
        "GET /resource_providers/{}": EMPTY + EMPTY,
        "GET /resource_providers/{}/aggregates": PROVIDERS,
        "GET /resource_providers/{}/traits": PROVIDERS,
        "GET /resource_providers/{}/allocations": PROVIDERS,
        "GET /allocations/{}": CONSUMERS,
        "GET /traits": 1,
        "GET /resource_classes": 1,
    }
    assert report.metadata.requests == sum(cloud.count().values())
    assert (report.counts["resource_providers"], report.counts["consumers"]) == (
        PROVIDERS,
        CONSUMERS,
    )
    assert saved(path) == cloud.document()
    assert list(path.parent.iterdir()) == [path]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_save_without_owners_sends_no_request_per_consumer(
    cloud: Cloud, path: pathlib.Path
) -> None:
    cloud.save(path, owners=False)
    assert "GET /allocations/{}" not in cloud.count()
    document = saved(path)
    assert {
        (consumer["project"], consumer["user"]) for consumer in document["consumers"].values()
    } == {("unknown", "unknown")}
    expected = cloud.document()
    assert document["providers"] == expected["providers"]
    assert {uuid: consumer["allocations"] for uuid, consumer in document["consumers"].items()} == {
        uuid: consumer["allocations"] for uuid, consumer in expected["consumers"].items()
    }


@pytest.mark.parametrize("change", [Cloud.amend, Cloud.set_aggregates])
def test_a_provider_that_changes_while_it_is_read_is_read_again(
    change: Callable[[Cloud, str], None], cloud: Cloud, path: pathlib.Path
) -> None:
    uuid = cloud.provider("cmp-0001.lab.example.org")
    once = traffic.nth(1, lambda _: change(cloud, uuid))
    cloud.proxy.before = traffic.at(TRAITS, traffic.about([uuid], once))
    report = cloud.save(path)
    assert saved(path) == cloud.document()
    # The second attempt also checks the generation after it; the last listing finds no change.
    assert report.metadata.requests == 2 + READ + 5 + CHECK + CONSUMERS + 2
    assert notes(path) == {}


def test_a_provider_that_changes_at_each_attempt_of_a_round_is_read_in_the_next(
    cloud: Cloud, path: pathlib.Path
) -> None:
    uuid = cloud.provider("cmp-0001.lab.example.org")
    left = [1] * 8  # More than a round attempts.

    def change(_: traffic.Request) -> None:
        if left:
            left.pop()
            cloud.set_aggregates(uuid)

    cloud.proxy.before = traffic.at(TRAITS, traffic.about([uuid], change))
    assert cloud.save(path)
    assert saved(path) == cloud.document()


def test_a_provider_that_is_created_again_while_it_is_read_is_read_again(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    def create(total: int) -> str:
        uuid = cloud.other.create_provider("twice", TWICE).uuid
        cloud.other.replace_inventories(uuid, 0, {"VCPU": inventory.Inventory(total)})
        return uuid

    def recreate(_: traffic.Request) -> None:
        cloud.other.delete_provider(TWICE)
        now = time.time()
        monkeypatch.setattr(cloud.placement.app.repository, "_clock", lambda: now + 1)
        create(4)

    uuid = create(8)
    cloud.proxy.before = traffic.at(TRAITS, traffic.nth(1, recreate))
    read = save.read_provider(cloud.client, uuid, verify=True)
    # Both have the generation 1; only the time of the last change shows the second one.
    assert read.reading is not None
    assert {name: offer.total for name, offer in read.reading.inventories.items()} == {"VCPU": 4}
    assert read.is_verified


def test_a_provider_that_changes_after_it_was_read_is_read_again_and_listed(
    cloud: Cloud, path: pathlib.Path
) -> None:
    uuid = cloud.provider("cmp-0001.lab.example.org")
    cloud.proxy.before = traffic.at(OWNER, traffic.nth(1, lambda _: cloud.amend(uuid)))
    report = cloud.save(path)
    assert saved(path) == cloud.document()
    on_it = len(cloud.other.list_provider_allocations(uuid).allocations)
    assert on_it > 1
    assert report.metadata.requests == 3 + READ + CHECK + 5 + CONSUMERS + on_it + 2
    assert notes(path) == {uuid: "changed during the save"}


def test_a_provider_that_never_is_stable_is_saved_and_listed(
    cloud: Cloud, path: pathlib.Path
) -> None:
    uuid = cloud.provider("cmp-0001.lab.example.org")
    change = traffic.about([uuid], lambda _: cloud.amend(uuid))
    cloud.proxy.before = traffic.at(TRAITS, change)
    cloud.save(path)
    with file.SnapshotFile(path) as opened:
        texts = [note.text for note in opened.notes() if note.uuid == uuid]
    assert texts == [
        "changed during the save",
        "never stable: it changed during each of the attempts to read it",
    ]
    assert uuid in saved(path)["providers"]


def test_a_consumer_that_moves_during_the_save_is_saved_once(
    cloud: Cloud, path: pathlib.Path
) -> None:
    consumer = cloud.consumer()
    (source,) = consumer.allocations
    target = next(
        item.uuid
        for item in cloud.other.list_providers(resources=consumer.allocations[source])
        if item.uuid != source
    )
    moved = dataclasses.replace(consumer, allocations={target: consumer.allocations[source]})
    move = traffic.nth(1, lambda _: cloud.other.replace_allocations(moved))
    cloud.proxy.before = traffic.at(OWNER, move)
    cloud.save(path)
    assert saved(path)["consumers"][consumer.uuid]["allocations"].keys() == {target}
    assert saved(path) == cloud.document()


def test_an_existing_file_is_not_replaced(cloud: Cloud, path: pathlib.Path) -> None:
    path.write_text("mine")
    with pytest.raises(errors.PlacementError, match="exists: give another file"):
        cloud.save(path)
    assert path.read_text() == "mine"
    assert cloud.proxy.sent == []


def test_a_file_that_another_save_wrote_meanwhile_is_not_replaced(
    cloud: Cloud, path: pathlib.Path
) -> None:
    def write(_: traffic.Request) -> None:
        path.write_text("mine")

    cloud.proxy.before = traffic.at(OWNER, write)
    with pytest.raises(errors.PlacementError, match="exists: give another file"):
        cloud.save(path)
    assert (path.read_text(), list(path.parent.iterdir())) == ("mine", [path])


def test_a_failed_save_leaves_nothing(cloud: Cloud, path: pathlib.Path) -> None:
    cloud.proxy.before = traffic.at(OWNER, gone)
    with pytest.raises(errors.PlacementError, match="the cloud is gone"):
        cloud.save(path)
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("statement", "is_other_state"),
    [
        ("UPDATE trait SET name = name || '_X'", True),
        ("UPDATE resource_class SET name = name || '_X'", True),
        ("UPDATE provider SET name = name || '.x'", True),
        ("UPDATE provider SET generation = generation + 1", False),
        ("UPDATE consumer SET user_id = 'x'", True),
        ("UPDATE consumer SET generation = generation + 1", False),
    ],
)
def test_a_file_is_changed_by_any_record_and_its_state_not_by_generations(
    cloud: Cloud, path: pathlib.Path, statement: str, is_other_state: bool
) -> None:
    cloud.save(path)
    before = file.summarize(path)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute(statement).rowcount
    after = file.summarize(path)
    assert (before.is_unchanged, after.is_unchanged) == (True, False)
    assert (before.state_hash != after.state_hash) == is_other_state
