# SPDX-License-Identifier: Apache-2.0
"""Random clouds that change during a save.

Whatever happens, a provider and a consumer in the file are as they were at one moment of the save,
or the notes name them. Without changes the file has the cloud.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import pathlib
import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from osc_placement import errors
from osc_placement.client import api, wsgi
from osc_placement.model import allocation, inventory
from osc_placement.testing import service, traffic
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.snapshot import file as snapshot_file, save
from tests.support import embedded, plain_reading
from tests.unit.workflows.snapshot.test_save import saved

PROVIDERS, CONSUMERS = 5, 8
PROJECTS, USERS, TYPES = ("p1", "p2"), ("u1", "u2"), ("INSTANCE", "MIGRATION", "OTHER")
TRAITS = ("CUSTOM_A", "CUSTOM_B")


@dataclasses.dataclass
class World:
    """A cloud, its client, and every state that each object had since ``forget``."""

    chance: random.Random

    def __post_init__(self) -> None:
        self.placement = service.InProcessPlacement().start()
        seconds = itertools.count(int(time.time()))
        self.placement.app.repository._clock = lambda: float(next(seconds))
        self.proxy = traffic.Traffic(self.placement.app)
        self.client = api.Client(wsgi.in_process(lambda: self.proxy, embedded.TARGET))
        assert self.client.microversion
        self.other = self.placement.client()
        for trait in TRAITS:
            self.other.create_trait(trait)
        self.forget()

    def document(self) -> dict[str, Any]:
        return plain_reading.comparable(self.placement.app.export())

    def forget(self) -> None:
        self.states: dict[str, set[str]] = {}
        self.record()

    def record(self) -> None:
        document = self.document()
        present = {**document["providers"], **document["consumers"]}
        for uuid in {*present, *self.states, *map(embedded.uuid_of, NAMES)}:
            self.states.setdefault(uuid, set()).add(text(present.get(uuid)))

    def change(self) -> None:
        """Carry out one random change, or none if Placement refuses it."""
        name = self.chance.choice(NAMES)
        kinds = PROVIDER_CHANGES if name.startswith("host") else CONSUMER_CHANGES
        with contextlib.suppress(errors.PlacementError, LookupError):
            self.chance.choice(kinds)(self, name)
        self.record()


NAMES = tuple(f"host{n}" for n in range(PROVIDERS)) + tuple(f"vm{n}" for n in range(CONSUMERS))


def text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def create_provider(world: World, name: str) -> None:
    """A provider with a fixed number of writes, as nova-compute creates it."""
    uuid = embedded.uuid_of(name)
    roots = [item.uuid for item in world.other.list_providers()]
    parent = world.chance.choice([None, *roots[:2]])
    world.other.create_provider(name, uuid, parent)
    if world.chance.random() < 0.8:
        total = world.chance.choice((64, 128))
        items = {"VCPU": inventory.Inventory(total=total), "DISK_GB": inventory.Inventory(total=99)}
        world.other.replace_inventories(uuid, 0, items)
        set_traits(world, name)


def recreate_provider(world: World, name: str) -> None:
    """Delete a provider and what is on it, and create it again."""
    uuid = embedded.uuid_of(name)
    for consumer in world.other.list_provider_allocations(uuid).allocations:
        world.other.delete_allocations(consumer)
        world.record()
    world.other.delete_provider(uuid)
    world.record()
    create_provider(world, name)


def delete_provider(world: World, name: str) -> None:
    world.other.delete_provider(embedded.uuid_of(name))


def rename_provider(world: World, name: str) -> None:
    world.other.update_provider(embedded.uuid_of(name), f"{name}-{world.chance.randint(0, 9)}")


def move_provider(world: World, name: str) -> None:
    uuid = embedded.uuid_of(name)
    parent = world.chance.choice([None, *world.other.list_providers()])
    world.other.update_provider(
        uuid, world.other.show_provider(uuid).name, parent.uuid if parent else None
    )


def amend(world: World, name: str) -> None:
    uuid = embedded.uuid_of(name)
    before = world.other.list_inventories(uuid)
    world.other.replace_inventories(uuid, before.generation, before.inventories)


def set_traits(world: World, name: str) -> None:
    uuid = embedded.uuid_of(name)
    names = [trait for trait in TRAITS if world.chance.random() < 0.5]
    generation = world.other.show_provider(uuid).generation
    world.other.replace_provider_traits(uuid, generation, names)


def set_aggregates(world: World, name: str) -> None:
    uuid = embedded.uuid_of(name)
    generation = world.other.show_provider(uuid).generation
    world.other.replace_aggregates(uuid, generation, [embedded.uuid_of(world.chance.choice("ab"))])


def write(world: World, name: str, **fields: Any) -> None:
    """Replace a consumer's allocations; new ones and a random owner by default."""
    uuid = embedded.uuid_of(name)
    hosts = [item.uuid for item in world.other.list_providers(resources={"VCPU": 1})]
    count = world.chance.choice((1, 1, 2, 3))
    amounts = {
        host: {"VCPU": world.chance.choice((1, 2)), "DISK_GB": 1}
        for host in world.chance.sample(hosts, min(count, len(hosts)))
    }
    values = {
        "allocations": amounts,
        "project_id": world.chance.choice(PROJECTS),
        "user_id": world.chance.choice(USERS),
        "consumer_type": world.chance.choice(TYPES),
        "generation": world.other.show_allocations(uuid).generation,
        **fields,
    }
    world.other.replace_allocations(allocation.Consumer(uuid, **values))


def delete(world: World, name: str) -> None:
    world.other.delete_allocations(embedded.uuid_of(name))


def recreate(world: World, name: str) -> None:
    """Delete a consumer and create it again: equal allocations and generation, another owner."""
    before = world.other.show_allocations(embedded.uuid_of(name))
    delete(world, name)
    world.record()
    write(world, name, allocations=before.allocations, generation=None)


def exchange(world: World, name: str) -> None:
    """Two consumers exchange what they are: no sum changes."""
    other_name = world.chance.choice([vm for vm in NAMES if vm.startswith("vm") and vm != name])
    first, second = (
        world.other.show_allocations(embedded.uuid_of(vm)) for vm in (name, other_name)
    )
    for one in (name, other_name):
        delete(world, one)
        world.record()
    for one, owner, consumer in ((name, second, first), (other_name, first, second)):
        write(
            world,
            one,
            allocations=consumer.allocations,
            generation=None,
            project_id=owner.project_id,
            user_id=owner.user_id,
            consumer_type=owner.consumer_type,
        )
        world.record()


PROVIDER_CHANGES: tuple[Callable[[World, str], None], ...] = (
    create_provider,
    create_provider,
    recreate_provider,
    recreate_provider,
    delete_provider,
    rename_provider,
    move_provider,
    amend,
    set_traits,
    set_aggregates,
)
CONSUMER_CHANGES = (write, write, write, delete, recreate, recreate, exchange)


def disturb(world: World, rate: float) -> None:
    """Change the cloud at random requests of the next save."""

    def before(_: traffic.Request) -> None:
        if world.chance.random() < rate:
            world.change()

    world.proxy.before = before


def check(world: World, path: pathlib.Path, *, owners: bool, quiet: bool) -> None:
    """The file against the history of the save, and against the cloud after a quiet save."""
    file = saved(path)
    with snapshot_file.SnapshotFile(path) as opened:
        noted = {note.uuid for note in opened.notes()}

    def form(fields: Any) -> str:
        if fields is None or owners or "project" not in fields:
            return text(fields)
        return text({**fields, "project": "unknown", "user": "unknown", "type": "unknown"})

    present = {**file["providers"], **file["consumers"]}
    for uuid in present.keys() | world.states.keys():
        possible = {form(json.loads(state)) for state in world.states.get(uuid, ())}
        named = {uuid}
        if not owners:
            # Without its own reading, the notes may name a provider of the consumer instead.
            states = map(json.loads, world.states.get(uuid, ()))
            named.update(*((state or {}).get("allocations", ()) for state in states))
        assert form(present.get(uuid)) in possible or named & noted, uuid
    if quiet:
        assert noted == set()
        assert {uuid: form(fields) for uuid, fields in present.items()} == {
            uuid: form(fields)
            for kind in ("providers", "consumers")
            for uuid, fields in world.document()[kind].items()
        }


@pytest.mark.seeds(4, long=2000)
@pytest.mark.parametrize("owners", [True, False])
def test_a_file_has_states_of_the_save_or_names_what_it_lacks(
    tmp_path: pathlib.Path, seed: int, owners: bool
) -> None:
    chance = random.Random(seed)
    world = World(chance)
    path = tmp_path / "cloud.sqlite"
    for name in NAMES * 2:
        (create_provider if name.startswith("host") else write)(world, name) if (
            embedded.uuid_of(name) not in world.document()["providers"]
        ) else None
    for _ in range(3):
        for _ in range(chance.choice((0, 1, 3))):
            world.change()
        rate = chance.choice((0.0, 0.1, 0.3))
        world.forget()
        disturb(world, rate)
        request = save.SaveRequest(path, owners=owners)
        save.save(world.client, request, ReadContext(workers=1))
        check(world, path, owners=owners, quiet=not rate)
        path.unlink()
    world.placement.stop()
