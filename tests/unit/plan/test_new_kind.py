# SPDX-License-Identifier: Apache-2.0
"""The recipe for a new kind of change, with custom resource classes as the example.

1. One file: a frozen state that is a ``forms.JsonObject``, and a subclass of
   ``base.ChangeType`` with ``name``, ``state``, ``read``, ``write`` and ``facts``.
2. One line: the kind in ``registry.CHANGE_TYPES`` (here the fixture ``registered``).
3. One planner: a function that returns a plan of changes (here ``plan_classes``).

Dry run, plan file, resume and undo need nothing else.
"""

from __future__ import annotations

import dataclasses
import pathlib

import pytest

from osc_placement.client import api
from osc_placement.plan import apply, change, executor, file, forms, plan, result
from osc_placement.plan.kinds import base, registry
from tests.support import embedded, plans

NAMES = ("CUSTOM_A", "CUSTOM_B", "CUSTOM_C")


@dataclasses.dataclass(frozen=True, slots=True)
class ClassState(forms.JsonObject):
    """Whether a resource class exists."""

    exists: bool


class ResourceClass(base.ChangeType[ClassState]):
    """The existence of a custom resource class."""

    name = "resource class"
    state = ClassState
    has_uuid = False

    def read(
        self, services: base.Services, subject: change.Subject, after: ClassState
    ) -> change.Observed[ClassState]:
        exists = services.client.resource_class_exists(subject.uuid)
        return change.Observed(None, ClassState(exists))

    def write(
        self, services: base.Services, write: base.Write[ClassState]
    ) -> change.Observed[ClassState]:
        if write.after.exists:
            services.client.put_resource_class(write.subject.uuid)
        else:
            services.client.delete_resource_class(write.subject.uuid)
        return change.Observed(None, write.after)

    def facts(
        self, before: ClassState, after: ClassState, names: change.Names = base.NO_NAMES
    ) -> list[base.Fact]:
        return [base.Fact("exists", before.exists, after.exists, "exists", "resource class")]


TYPE = ResourceClass()


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.CHANGE_TYPES, TYPE.name, TYPE)


@pytest.fixture
def client() -> embedded.Client:
    return embedded.Client()


def plan_classes(client: api.Client, names: tuple[str, ...] = NAMES) -> plan.ObservedPlan:
    """Create the classes that do not exist."""
    classes = set(client.list_resource_classes())
    absent, present = ClassState(exists=False), ClassState(exists=True)
    return plan.ObservedPlan(
        plan.make(
            change.Skipped(TYPE.name, change.Subject(name, name), present, present, unchanged=True)
            if name in classes
            else change.Change(TYPE.name, change.Subject(name, name), absent, present)
            for name in names
        )
    )


def statuses(report: result.RunReport) -> dict[str, str]:
    return {item.subject.name: str(item.status) for item in report.results}


def custom(client: api.Client) -> set[str]:
    return {name for name in client.list_resource_classes() if name.startswith("CUSTOM_")}


def test_a_new_kind_is_planned_and_previewed(client: api.Client) -> None:
    client.create_resource_class("CUSTOM_A")
    report = plans.apply_new(client, plan_classes(client), options=apply.Options(dry_run=True))
    assert statuses(report) == {
        "CUSTOM_A": "unchanged",
        "CUSTOM_B": "planned",
        "CUSTOM_C": "planned",
    }
    (row,) = (item for item in report.results if item.subject.name == "CUSTOM_B")
    assert (plans.before(row), plans.after(row)) == ({"exists": False}, {"exists": True})
    facts = registry.facts(row.kind, row.before, row.after)
    assert TYPE.describe(base.before_side(facts)) == ["no resource class"]
    assert custom(client) == {"CUSTOM_A"}


def test_a_new_kind_is_applied_and_undone(client: api.Client, tmp_path: pathlib.Path) -> None:
    undo = tmp_path / "undo.json"
    report = plans.apply_new(client, plan_classes(client), options=apply.Options(undo_out=undo))
    assert statuses(report) == dict.fromkeys(NAMES, "applied")
    assert custom(client) == {*NAMES}
    assert not plan_classes(client).plan.changes
    report = plans.undo_file(client, file.read(undo), undo)
    assert statuses(report) == dict.fromkeys(NAMES, "applied")
    assert not custom(client)


def test_a_plan_file_of_a_new_kind_is_resumed_after_a_kill(
    client: embedded.Client, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "plan.json"
    plans.apply_new(
        client, plan_classes(client), options=apply.Options(plan_out=path, dry_run=True)
    )
    client.after_write(embedded.about("CUSTOM_B", embedded.kill))
    options = apply.Options(limits=executor.RunLimits(workers=1))
    with pytest.raises(embedded.Killed):
        plans.apply_file(client, file.read(path), path, options)
    client.after(embedded.nothing)
    report = plans.apply_file(client, file.read(path), path, options)
    assert statuses(report) == dict.fromkeys(NAMES, "applied")
    assert custom(client) == {*NAMES}


def test_a_concurrent_change_of_a_new_kind_is_found(client: api.Client) -> None:
    planned = plan_classes(client)
    client.create_resource_class("CUSTOM_A")
    report = plans.apply_new(client, planned)
    assert statuses(report)["CUSTOM_A"] == "unchanged"
    assert custom(client) == {*NAMES}
