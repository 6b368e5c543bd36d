# SPDX-License-Identifier: Apache-2.0
"""A write is read, decided and sent again after a generation conflict."""

from __future__ import annotations

import types

import pytest

from osc_placement import errors
from osc_placement.client import api, api_errors
from osc_placement.testing import traffic
from osc_placement.v1.common import base
from osc_placement.v1.resources import allocation, inventory, provider, provider_trait
from tests.support import embedded
from tests.support.scripted import App, Reply, client, fault

U = "11111111-1111-4111-8111-111111111111"
CONFLICT = fault(409, "Refused.\n\nconflict", "placement.concurrent_update")


def inventories(generation: int, **totals: int) -> Reply:
    allocations = {name: {"total": total} for name, total in totals.items()}
    return Reply(body={"resource_provider_generation": generation, "inventories": allocations})


def run(
    command: type[base.PlacementCommand], api_client: api.Client, *arguments: str
) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    options = types.SimpleNamespace(config={})
    manager = types.SimpleNamespace(osc_placement=api_client, _cli_options=options)
    made = command(types.SimpleNamespace(client_manager=manager, stdout=None), None)  # type: ignore[arg-type]
    parsed = made.get_parser("openstack").parse_args(arguments)
    return made.take_action(parsed)  # type: ignore[no-any-return]


def writes(app: App) -> list[object]:
    return [request.body for request in app.requests if request.method in {"PUT", "POST"}]


def test_an_amended_inventory_keeps_concurrent_changes() -> None:
    api_client, app = client(
        inventories(1, VCPU=8), CONFLICT, inventories(2, VCPU=16, DISK_GB=5),
        inventories(3, VCPU=16, DISK_GB=5),
    )  # fmt: skip
    run(inventory.SetInventory, api_client, U, "--amend", "--resource", "VCPU:reserved=1")
    first, second = (body for body in writes(app) if isinstance(body, dict))
    assert (first["resource_provider_generation"], second["resource_provider_generation"]) == (1, 2)
    assert first["inventories"]["VCPU"]["total"] == 8
    assert second["inventories"]["VCPU"]["total"] == 16
    assert second["inventories"]["VCPU"]["reserved"] == 1
    assert "DISK_GB" in second["inventories"]


def test_traits_are_set_under_the_latest_generation() -> None:
    def traits(generation: int) -> Reply:
        return Reply(body={"resource_provider_generation": generation, "traits": ["CUSTOM_A"]})

    api_client, app = client(traits(1), CONFLICT, traits(2), traits(3))
    run(provider_trait.SetResourceProviderTrait, api_client, U, "--trait", "CUSTOM_A")
    assert [body["resource_provider_generation"] for body in writes(app)] == [1, 2]  # type: ignore[index]


def consumer(generation: int, **resources: int) -> Reply:
    allocations = {U: {"resources": resources, "generation": 7}} if resources else {}
    owner = {"project_id": "p", "user_id": "u", "consumer_generation": generation}
    return Reply(body={"allocations": allocations, **owner, "consumer_type": "unknown"})


def test_a_conflict_repeats_the_amendment_at_1_37() -> None:
    api_client, app = client(
        consumer(1, VCPU=1, VGPU=1), CONFLICT, consumer(2, VCPU=1, DISK_GB=9), Reply(204),
        consumer(3, VCPU=4, DISK_GB=9),
    )  # fmt: skip
    run(allocation.AmendAllocation, api_client, U, "--allocation", f"rp={U},VCPU=4")
    _, second = (request for request in app.requests if request.method == "PUT")
    assert second.version == "1.37"
    assert second.body["consumer_generation"] == 2
    assert second.body["allocations"] == {U: {"resources": {"VCPU": 4, "DISK_GB": 9}}}
    assert "consumer_type" not in second.body


def test_no_write_follows_if_a_conflict_made_the_change() -> None:
    api_client, app = client(
        consumer(1, VCPU=1), CONFLICT, consumer(2, VCPU=4), consumer(2, VCPU=4)
    )
    run(allocation.AmendAllocation, api_client, U, "--allocation", f"rp={U},VCPU=4")
    assert len(writes(app)) == 1


def test_a_failed_connection_ends_a_deletion_and_what_is_left_is_counted() -> None:
    cloud = embedded.Client(embedded.hosts(3))
    uuids = [host.uuid for host in cloud.all_stored()]
    cloud.before(traffic.about(uuids[1:], embedded.disconnect))
    with pytest.raises(errors.InvalidInput, match="Failed to delete 2 of 3 resource providers"):
        run(provider.DeleteResourceProvider, cloud, *uuids)
    assert [host.uuid for host in cloud.all_stored()] == uuids[1:]


OVER = fault(
    409, "Refused.\n\nThe requested amount would exceed the capacity.", "placement.undefined"
)


@pytest.mark.parametrize(
    ("command", "words", "is_explained"),
    [
        (allocation.UnsetAllocation, ["--resource-class", "DISK_GB"], True),
        (allocation.AmendAllocation, ["--allocation", f"rp={U},VCPU=1"], True),
        (allocation.AmendAllocation, ["--allocation", f"rp={U},VCPU=9"], False),
    ],
)
def test_an_older_placement_that_refuses_fewer_allocations_is_explained(
    command: type[base.PlacementCommand], words: list[str], is_explained: bool
) -> None:
    api_client, _ = client(consumer(1, VCPU=2, DISK_GB=3), OVER)
    with pytest.raises(api_errors.Conflict, match="would exceed the capacity") as raised:
        run(command, api_client, U, *words)
    assert ("older than 2025.2 refuses" in str(raised.value)) is is_explained
