# SPDX-License-Identifier: Apache-2.0
"""A plan as one value: the changes, and what is skipped and why; from and to JSON.

``file`` keeps it on disk, ``apply`` applies it.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import hashlib
import json
import operator
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from osc_placement import errors
from osc_placement.client import api, transport
from osc_placement.model import json_text
from osc_placement.plan import forms
from osc_placement.plan.change import Change, Names, Observed, Skipped
from osc_placement.plan.kinds import registry

if TYPE_CHECKING:
    import jsonschema

#: Format 5 has the ``identity`` of the target.
FORMAT_VERSION = 5

_NOWHERE = transport.Identity()


class PlanRefused(errors.PlacementError):
    """A plan file cannot be applied: damaged, edited, of another format or another cloud."""


@dataclasses.dataclass(frozen=True, slots=True)
class CapacityChange(forms.JsonObject):
    """The capacity of one resource class over all providers of a plan, before and after.

    ``over``: the number of providers that have more usage than capacity after the plan.
    """

    before: int
    after: int
    over: int = 0


@dataclasses.dataclass(frozen=True)
class Plan(forms.JsonObject):
    """Changes and skipped items, each in the order of ``sort_key``.

    ``target`` is the text of the cloud or file that it was made for, and ``identity`` what is
    compared; ``origin`` is the cloud of which that file is a snapshot, if it is one; ``created``
    (UTC) distinguishes two plans that are otherwise equal. They are empty until the plan is applied
    or written.
    ``relative``: amounts were computed from observed amounts. ``allow``: the guards that
    the operator overrides. ``undoes``: the digest of the plan that this one undoes.
    ``capacities`` is ``{resource class: Capacity}``, for classes whose inventory changes.
    ``names`` are ``{uuid: name}`` of the providers in changes of allocations.
    ``existing`` is ``{unit: how many exist}`` for what the plan may remove only a part of, and
    ``max_percent`` that part; None is the default of ``removal_limit``.
    """

    changes: tuple[Change[Any], ...]
    skipped: tuple[Skipped, ...] = ()
    command: str = ""
    target: str = ""
    origin: str = ""
    microversion: str = ""
    created: str = ""
    relative: bool = False
    allow: tuple[str, ...] = ()
    undoes: str = ""
    notes: tuple[str, ...] = ()
    capacities: Mapping[str, CapacityChange] = dataclasses.field(default_factory=dict)
    names: Names = dataclasses.field(default_factory=dict)
    existing: Mapping[str, forms.Amount] = dataclasses.field(default_factory=dict)
    max_percent: forms.Percent = None
    identity: transport.Identity = _NOWHERE

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 over everything in the plan: its compact JSON with sorted keys."""
        computed = hashlib.sha256()
        for text in self._compact_json():
            computed.update(text.encode())
        return f"sha256:{computed.hexdigest()}"

    @property
    def has_preconditions(self) -> bool:
        """Whether applying the plan needs nova, to check the preconditions of changes."""
        return any(item.precondition for item in self.changes)

    @property
    def needs_neutron(self) -> bool:
        """Whether applying or undoing the plan writes to neutron."""
        return any(registry.CHANGE_TYPES[item.kind].needs_neutron for item in self.changes)

    def providers(self) -> set[str]:
        """The UUIDs of the subjects and of the providers that changes name before and after."""
        return {
            uuid
            for item in self.changes
            for side in (item.before, item.after)
            for uuid in (item.subject.uuid, *registry.CHANGE_TYPES[item.kind].providers(side))
        }

    def consumers(self) -> set[str]:
        """The UUIDs of the consumers whose allocations it changes."""
        return {
            uuid
            for item in self.changes
            for uuid in registry.CHANGE_TYPES[item.kind].consumers(item.subject, item.after)
        }

    def items(self) -> list[Change[Any] | Skipped]:
        """Changes and skipped items in the order in which they are listed."""
        items: list[Change[Any] | Skipped] = [*self.changes, *self.skipped]
        return sorted(items, key=lambda item: item.sort_key())

    def summary(self) -> str:
        """One line: the number of changes and other items, and the effects on capacity."""
        unchanged = sum(item.unchanged for item in self.skipped)
        refused = sum(item.refused for item in self.skipped)
        parts = [
            f"{len(self.changes)} to change",
            f"{unchanged} unchanged",
            f"{len(self.skipped) - unchanged - refused} skipped",
            f"{refused} refused",
        ]
        return "; ".join([*parts, *self.effects()])

    def effects(self) -> tuple[str, ...]:
        """The change of capacity of each resource class, over all providers of the plan."""
        return _effects(self.capacities)

    def achieved_effects(self, keys: Collection[str]) -> tuple[str, ...]:
        """As ``effects``, of the changes with these keys only."""
        applied = [item for item in self.changes if item.key in keys]
        return _effects(
            {
                name: capacity_after(name, effect.before, applied)
                for name, effect in self.capacities.items()
            }
        )

    def json_parts(self) -> Iterator[str]:
        """The text of a plan file in parts, with its digest: a plan may have 100,000 items."""
        items = {"changes": self.changes, "skipped": self.skipped}
        document = {**self._without_items(), **items, "digest": self.digest}
        encoder = json.JSONEncoder(indent=1, default=operator.methodcaller("to_dict"))
        yield from encoder.iterencode(document)
        yield "\n"

    def _compact_json(self) -> Iterator[str]:
        """The document without its digest, with sorted keys and without spaces, in parts."""
        texts: dict[str, Iterable[str]] = {
            key: [_compact(value)] for key, value in self._without_items().items()
        }
        for key, items in (("changes", self.changes), ("skipped", self.skipped)):
            texts[key] = _list_of(_compact(item.to_dict()) for item in items)
        for number, key in enumerate(sorted(texts)):
            yield f"{',' if number else '{'}{_compact(key)}:"
            yield from texts[key]
        yield "}"

    def _without_items(self) -> dict[str, Any]:
        """The document of a plan file without changes, skipped items and digest."""
        other = dataclasses.replace(self, changes=(), skipped=()).to_dict()
        del other["changes"], other["skipped"]
        return {"format_version": FORMAT_VERSION, **other}


def _compact(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _list_of(texts: Iterable[str]) -> Iterator[str]:
    """The JSON of a list of values, from the JSON of each."""
    yield "["
    for number, text in enumerate(texts):
        yield f",{text}" if number else text
    yield "]"


def capacity_after(name: str, before: int, changes: Collection[Change[Any]]) -> CapacityChange:
    """The capacity of the class ``name`` with changes, which was ``before`` without them."""
    added = sum(item.capacity.get(name, 0) for item in changes)
    return CapacityChange(before, before + added, sum(name in item.over for item in changes))


def _effects(capacities: Mapping[str, CapacityChange]) -> tuple[str, ...]:
    return tuple(
        f"{resource_class} capacity {capacity.before} -> {capacity.after}"
        + (f", over capacity on {capacity.over} of them" if capacity.over else "")
        for resource_class, capacity in capacities.items()
        if capacity.before != capacity.after or capacity.over
    )


@dataclasses.dataclass(frozen=True, slots=True)
class ObservedPlan:
    """A plan, and ``{change key: observed state}``, so that nothing is read twice.

    ``known`` may also hold states of what the plan does not change.
    """

    plan: Plan
    known: Mapping[str, Observed[Any]] = dataclasses.field(default_factory=dict)

    def stamped(
        self,
        client: api.Client,
        command: str = "",
        *,
        allow: Iterable[str] = (),
        max_percent: int | None = None,
    ) -> ObservedPlan:
        """The plan as it is applied with a client now; ``command`` made it.

        ``allow`` adds to the guards that the plan overrides.
        """
        now = datetime.datetime.now(datetime.UTC)
        plan = dataclasses.replace(
            self.plan,
            command=command,
            target=str(client.target),
            identity=client.target.identity,
            origin=client.origin,
            microversion=str(client.microversion),
            created=now.isoformat(timespec="microseconds"),
            allow=tuple(sorted({*self.plan.allow, *allow})),
            max_percent=max_percent,
        )
        return dataclasses.replace(self, plan=plan)


def make(items: Iterable[Change[Any] | Skipped], **fields: Any) -> Plan:
    """A plan of changes and skipped items in any order; ``fields`` are Plan's other fields."""
    ordered = sorted(items, key=lambda item: item.sort_key())
    return Plan(
        changes=tuple(item for item in ordered if isinstance(item, Change)),
        skipped=tuple(item for item in ordered if isinstance(item, Skipped)),
        **fields,
    )


def from_json(text: str) -> Plan:
    """Read the text of a plan file. Errors: PlanRefused."""
    try:
        document = json_text.parse(text)
        version = document.pop("format_version")
        digest = document.pop("digest")
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise PlanRefused("this is not a plan file, or a part of it is missing") from error
    if version != FORMAT_VERSION:
        raise PlanRefused(
            f"the plan has format version {version}, this program reads {FORMAT_VERSION}:"
            " use the program that wrote it, or make a new plan"
        )
    try:
        check_plan(document)
        items = {part: map(registry.with_states, document[part]) for part in ("changes", "skipped")}
        plan = Plan.from_dict({**document, **items})
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise PlanRefused(f"the plan is damaged: {error}") from error
    if plan.digest != digest:
        raise PlanRefused(
            "the plan was edited or damaged after it was written: its digest does not match."
            " Make a new plan"
        )
    return plan


def check_target(plan: Plan, target: str, origin: str = "") -> None:
    """Refuse a plan of another cloud; ``origin`` is the cloud of which the target is a snapshot.

    A plan that was made on a cloud is accepted on snapshots of it; a plan that was made on a
    snapshot is accepted on its cloud, and on other snapshots of it.
    Errors: PlanRefused. Sends nothing.
    """
    made_for = plan.identity if plan.identity.place else transport.identity_of(plan.target)
    here = transport.identity_of(target)
    same_origin = bool(plan.origin) and plan.origin in (here.place, origin)
    if not (made_for.may_be(here) or (origin and made_for.place == origin) or same_origin):
        raise PlanRefused(
            f"nothing was changed: the plan was made for {plan.target}, this is {target};"
            " select that cloud with --os-cloud or --os-endpoint"
        )


#: The longest text that an error quotes.
_QUOTED = 200

#: One line of a journal.
LINE = forms.record({}, key=forms.TEXT, state=forms.TEXT)

#: The key of a line that describes the run.
RUN_KEY = "run"
RUN = forms.record(
    {
        **dict.fromkeys(("target", "command", "created", "plan", "undo"), forms.TEXT),
        "changes": forms.INTEGER,
        "is_undo": forms.FLAG,
        "unfinished": forms.FLAG,
    }
)


def check_plan(document: Any) -> None:
    """Check the document of a plan file. Errors: ValueError with the place and the reason."""
    _check("plan", document)
    for part in ("changes", "skipped"):
        for number, item in enumerate(document[part]):
            if item["kind"] not in registry.CHANGE_TYPES:
                raise ValueError(f"unknown kind of change {item['kind']!r}")
            for side in ("before", "after"):
                if item[side] is not None:
                    _check(item["kind"], item[side], f"{part}[{number}].{side}")


def check_line(document: Any) -> None:
    """Check a line of a journal. Errors: ValueError with the place and the reason."""
    if isinstance(document, dict) and document.keys() == {RUN_KEY}:
        _check(RUN_KEY, document[RUN_KEY], RUN_KEY)
        return
    _check("line", document)


def _check(name: str, document: Any, place: str = "") -> None:
    error = next(_validator(name).iter_errors(document), None)
    if error is not None:
        path = error.json_path.removeprefix("$").removeprefix(".")
        where = ".".join(part for part in (place, path) if part)
        short = errors.shortened(error.message, _QUOTED)
        raise ValueError(f"{where}: {short}" if where else short)


@functools.cache
def _validator(name: str) -> jsonschema.Draft202012Validator:
    """What checks a plan, a line or a run of a journal, or the states of a kind of change."""
    # Imported here: most commands read no plan file.
    import jsonschema

    own = {"plan": Plan.schema(), "line": LINE, RUN_KEY: RUN}
    schema = own.get(name) or registry.CHANGE_TYPES[name].state.schema()
    return jsonschema.Draft202012Validator(schema)
