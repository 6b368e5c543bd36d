"""A plan: what shall be changed where, what is left alone and why, as one value.

Pure; JSON in and out. ``plan_file`` keeps it on disk, ``execute`` applies it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from osc_placement import errors
from osc_placement.plan import change as change_module

FORMAT_VERSION = 1


class PlanRefused(errors.PlacementError):
    """A plan file that is not applied: damaged, edited, newer, of another cloud."""


@dataclasses.dataclass(frozen=True, slots=True)
class Capacity:
    """Of one resource class over all providers of a plan, before and after.

    ``over``: how many providers the plan leaves with less of it than is in use.
    """

    before: int
    after: int
    over: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """Changes and remarks in the one order of ``sort_key``.

    ``target`` is the cloud (or file) it was made on; ``created`` (UTC) tells two plans
    apart that are otherwise equal; both are empty in a plan that was only thought.
    ``relative``: amounts were derived from what was observed. ``allow``: the guards that
    the operator overrode. ``undoes``: the digest of the plan that this one takes back.
    ``capacities`` is ``{resource class: Capacity}``, for classes whose inventory changes.
    ``names`` are those of the providers that changes of allocations speak of.
    """

    changes: tuple[change_module.Change, ...]
    remarks: tuple[change_module.Skipped, ...] = ()
    command: str = ""
    target: str = ""
    microversion: str = ""
    created: str = ""
    relative: bool = False
    allow: tuple[str, ...] = ()
    undoes: str = ""
    notes: tuple[str, ...] = ()
    capacities: Mapping[str, Capacity] = dataclasses.field(default_factory=dict)
    names: change_module.Names = dataclasses.field(default_factory=dict)

    @property
    def digest(self) -> str:
        """SHA-256 over everything in the plan."""
        text = json.dumps(self._document(), sort_keys=True, separators=(",", ":"))
        return "sha256:" + hashlib.sha256(text.encode()).hexdigest()

    def replace(self, **fields: Any) -> Plan:
        """A copy with some fields changed."""
        return dataclasses.replace(self, **fields)

    def items(self) -> list[change_module.Change | change_module.Skipped]:
        """Changes and remarks in the order in which they are listed."""
        items: list[change_module.Change | change_module.Skipped] = [*self.changes, *self.remarks]
        return sorted(items, key=lambda item: item.sort_key())

    def summary(self) -> str:
        """One line: how many things, how many of them change, what becomes of capacity."""
        alone = sum(not remark.unchanged for remark in self.remarks)
        parts = [
            f"{len(self.changes)} to change",
            f"{len(self.remarks) - alone} unchanged",
            f"{alone} left alone",
        ]
        return "; ".join([*parts, *self.effects()])

    def effects(self) -> tuple[str, ...]:
        """What becomes of capacity, class by class, over everything that the plan is about."""
        return tuple(
            f"{resource_class} capacity {capacity.before} -> {capacity.after}"
            + (f", over capacity on {capacity.over} of them" if capacity.over else "")
            for resource_class, capacity in self.capacities.items()
            if capacity.before != capacity.after or capacity.over
        )

    def to_json(self) -> str:
        """The text of a plan file: readable, with its digest at the end."""
        document = {**self._document(), "digest": self.digest}
        return json.dumps(document, indent=1) + "\n"

    def _document(self) -> dict[str, Any]:
        document = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name not in {"changes", "remarks", "capacities"}
        }
        return {
            "format_version": FORMAT_VERSION,
            **document,
            "names": dict(self.names),
            "capacities": {
                name: dataclasses.asdict(capacity) for name, capacity in self.capacities.items()
            },
            "changes": [item.to_dict() for item in self.changes],
            "remarks": [item.to_dict() for item in self.remarks],
        }


@dataclasses.dataclass(frozen=True, slots=True)
class ObservedPlan:
    """A plan, and ``{change key: what was read}``, so that nothing is read twice.

    May also tell of what the plan leaves unchanged.
    """

    plan: Plan
    known: Mapping[str, change_module.Observed] = dataclasses.field(default_factory=dict)


def make(items: Iterable[change_module.Change | change_module.Skipped], **fields: Any) -> Plan:
    """A plan of what the ``plan_*`` functions decided, sorted; ``fields`` are Plan's others."""
    ordered = sorted(items, key=lambda item: item.sort_key())
    return Plan(
        changes=tuple(item for item in ordered if isinstance(item, change_module.Change)),
        remarks=tuple(item for item in ordered if isinstance(item, change_module.Skipped)),
        **fields,
    )


def from_json(text: str) -> Plan:
    """Read a plan file's text. Raises PlanRefused when it is no plan, newer, or edited."""
    try:
        document = json.loads(text)
        found = document.pop("format_version")
        digest = document.pop("digest")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise PlanRefused("this is no plan, or a part of it is missing") from error
    if found != FORMAT_VERSION:
        raise PlanRefused(
            f"the plan has format version {found}, this program knows {FORMAT_VERSION}:"
            " use the program that wrote it, or a newer one"
        )
    try:
        plan = _from_document(document)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise PlanRefused(f"the plan is damaged: {error}") from error
    if plan.digest != digest:
        raise PlanRefused(
            "the plan was edited or damaged after it was written: its digest does not fit."
            " Plan again instead"
        )
    return plan


def _from_document(document: Mapping[str, Any]) -> Plan:
    return Plan(
        **{
            **document,
            "changes": tuple(map(change_module.Change.from_dict, document["changes"])),
            "remarks": tuple(map(change_module.Skipped.from_dict, document["remarks"])),
            "capacities": {
                name: Capacity(**capacity) for name, capacity in document["capacities"].items()
            },
            "allow": tuple(document["allow"]),
            "notes": tuple(document["notes"]),
        }
    )


def place(target: str) -> str:
    """The endpoint or file of a target, without what this operator calls the cloud."""
    return target.partition(" (")[0].rstrip("/")


def check_target(plan: Plan, target: str, origin: str | None = None) -> None:
    """Refuse a plan of another cloud; ``origin`` is where a snapshot was taken.

    Raises PlanRefused; sends nothing.
    """
    if place(plan.target) not in {place(known) for known in (target, origin) if known}:
        raise PlanRefused(
            f"the plan was made for {plan.target}, this is {target}: choose that cloud,"
            " or plan anew here"
        )
