# SPDX-License-Identifier: Apache-2.0
"""The schema of plan files and journals: it fits the values, and any other file is refused."""

from __future__ import annotations

import collections
import copy
import dataclasses
import hashlib
import json
import pathlib
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from osc_placement import errors
from osc_placement.model import inventory
from osc_placement.plan import apply, change, file as plan_file, journal, plan
from osc_placement.plan.kinds import (
    allocations,
    inventories,
    memberships,
    provider,
    registry,
    reshape,
)
from tests.support import embedded, fake_neutron, plans

P = "9b90f358-eef8-59dc-8915-d26426425d22"
CONSUMER = allocations.ConsumerState({P: {"VCPU": 1}}, "project", "user", None)
VGPU = inventory.Inventory(total=4)
STATES: dict[str, tuple[change.State, change.State]] = {
    "allocations": (allocations.ConsumerState(), CONSUMER),
    "bound allocations": (
        allocations.BoundState(),
        allocations.BoundState.with_ports(CONSUMER, {P: {"group": P}}),
    ),
    "inventories": (
        inventories.InventoryState({"VCPU": {"total": 4}}),
        inventories.InventoryState({"VCPU": {"total": 8, "allocation_ratio": 1.5}}),
    ),
    "aggregates": (memberships.Aggregates({P: False}), memberships.Aggregates({P: True})),
    "traits": (memberships.Traits({"CUSTOM_A": False}), memberships.Traits({"CUSTOM_A": True})),
    "provider": (provider.ABSENT, provider.ProviderState("cn", P)),
    "reshape": (
        reshape.ReshapeState({P: {"VGPU": None}}, {P: {P: {"VGPU": 0}}}, {P: {"VGPU": 0}}),
        reshape.ReshapeState({P: {"VGPU": VGPU}}, {P: {P: {"VGPU": 1}}}, {P: {"VGPU": 0}}),
    ),
    "trait": (
        memberships.Existence({"CUSTOM_A": False}),
        memberships.Existence({"CUSTOM_A": True}),
    ),
}
SERVER = change.ServerState("host", "node", "active", None, {"VCPU": 1})
VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 1.5, 1e400, "", "x", "\ud800", "\x1b[2J", [], [[]], {}, {"x": 1}),
    *([None], {"x": None}, {"": {}}, 10**30, "x" * 100_000),
)


def every_kind() -> plan.Plan:
    """A plan with a change and a skipped item of each kind."""
    items: list[change.Change | change.Skipped] = []
    for kind, (before, after) in STATES.items():
        subject = change.Subject(kind, P)
        expected = change.Precondition(SERVER, no_migration=True)
        items.append(change.Change(kind, subject, before, after, precondition=expected))
        items.append(change.Skipped(kind, subject, before, None, "a reason"))
    capacities = {"VCPU": plan.CapacityChange(1, 2, 3)}
    return plan.make(items, target="http://p", capacities=capacities, names={P: "cn"})


def test_every_kind_has_a_plan_that_is_written_and_read() -> None:
    assert STATES.keys() == registry.CHANGE_TYPES.keys()
    made = every_kind()
    assert plan.from_json(plans.text_of(made)) == made


def test_an_error_names_the_place_and_quotes_little() -> None:
    document = json.loads(plans.text_of(every_kind()))
    document["changes"][0]["before"]["allocations"] = "x" * 100_000
    with pytest.raises(plan.PlanRefused, match=r"changes\[0\]\.before\.allocations: 'xxx") as error:
        plan.from_json(json.dumps(document))
    assert len(str(error.value)) < 400


def mutated(document: Any, chance: random.Random) -> Any:
    """A copy in which one value is replaced, removed or added."""
    document = copy.deepcopy(document)
    while True:
        place = chance.choice(list(containers(document)))
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            continue
        key = chance.choice(keys)
        action = chance.randrange(4)
        if action == 0:
            del place[key]
        elif action == 1 and isinstance(place, dict):
            place["unknown"] = chance.choice(VALUES)
        else:
            place[key] = chance.choice(VALUES)
        return document


def containers(document: Any) -> Iterator[Any]:
    """Every object and every list of a document."""
    if isinstance(document, dict | list):
        yield document
        for inner in document.values() if isinstance(document, dict) else document:
            yield from containers(inner)


def read_or_refuse(read: Callable[[pathlib.Path], Any], path: pathlib.Path) -> Any:
    """What is read, or None if it is refused with an error that names the file."""
    try:
        return read(path)
    except plan.PlanRefused as error:
        message = str(error)
    assert str(path) in message
    return None


def signed(document: dict[str, Any]) -> str:
    """The text of a plan file with a matching digest, as a forger writes it."""
    unsigned = {key: value for key, value in document.items() if key != "digest"}
    text = json.dumps(unsigned, sort_keys=True, separators=(",", ":"))
    digest = "sha256:" + hashlib.sha256(text.encode()).hexdigest()
    return json.dumps({**unsigned, "digest": digest})


def test_a_forged_plan_is_applied_undone_or_refused_with_one_error(tmp_path: pathlib.Path) -> None:
    chance = random.Random(0)
    client = embedded.Client(embedded.hosts(1))
    made = dataclasses.replace(every_kind(), target=client.target, created="2026-01-01")
    document = json.loads(plans.text_of(made))
    path = tmp_path / "plan"
    outcomes = collections.Counter[str]()
    options = apply.Options(
        dry_run=True, check_precondition=lambda _: "", neutron=fake_neutron.FakeNeutron()
    )
    for _ in range(200):
        path.write_text(signed(mutated(document, chance)))
        read = read_or_refuse(plan_file.read, path)
        if read is None:
            outcomes["unreadable"] += 1
            continue
        read.summary()
        for item in read.items():
            list(registry.describe_change(item.kind, item.before, item.after))
        apply.inverse_of(read)
        try:
            plans.apply_file(client, read, path, options)
            outcomes["applied"] += 1
        except errors.PlacementError:
            outcomes["refused"] += 1
    assert min(outcomes[outcome] for outcome in ("unreadable", "applied")) > 20, outcomes


def test_a_mutated_journal_is_read_unchanged_or_refused_with_its_path(
    tmp_path: pathlib.Path,
) -> None:
    chance = random.Random(0)
    made = every_kind()
    path = tmp_path / "journal"
    opened = journal.Journal(path)
    for item in made.changes:
        opened.note(journal.Note(item.key, journal.StepState.APPLIED))
    opened.close()
    content = path.read_bytes()
    lines = list(map(json.loads, content.splitlines()))
    unchanged = journal.read(path).entries
    outcomes = collections.Counter[bool]()

    def read(changed: bytes) -> None:
        path.write_bytes(changed)
        contents = read_or_refuse(journal.read, path)
        outcomes[contents is not None] += 1
        # Only what is left of a line without its end is nothing: as after a kill.
        entries = {} if contents is None else contents.entries
        assert entries == dict(list(unchanged.items())[: len(entries)])

    for _ in range(200):
        read("".join(json.dumps(line) + "\n" for line in mutated(lines, chance)).encode())
        raw = bytearray(content)
        raw[chance.randrange(len(raw))] = chance.randrange(256)
        read(bytes(raw))
    assert outcomes[False] > 300, outcomes
