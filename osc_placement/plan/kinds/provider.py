# SPDX-License-Identifier: Apache-2.0
"""Changes of a provider itself: its existence, its name and its parent."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from osc_placement.client import api, api_errors
from osc_placement.client.api import UNCHANGED, Unchanged
from osc_placement.plan import change, forms
from osc_placement.plan.kinds import base
from osc_placement.plan.reasons import Code, Reason


@dataclasses.dataclass(frozen=True, slots=True)
class ProviderState:
    """The name of a provider and the UUID of its parent; ``name`` is None without a provider.

    A field that a change does not concern is UNCHANGED.
    """

    name: str | Unchanged | None = UNCHANGED
    parent: str | Unchanged | None = UNCHANGED

    @property
    def exists(self) -> bool:
        """Whether there is a provider."""
        return self.name is not None

    def values(self) -> dict[str, str | None]:
        """The fields that the change concerns."""
        both = (("name", self.name), ("parent", self.parent))
        return {field: value for field, value in both if not isinstance(value, Unchanged)}

    def to_dict(self) -> dict[str, Any]:
        """The form of a plan file."""
        return self.values()

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> ProviderState:
        """Read ``to_dict``'s form."""
        return cls(**document)

    @classmethod
    def schema(cls) -> forms.Schema:
        """The JSON schema of ``to_dict``'s form."""
        return forms.record(dict.fromkeys(("name", "parent"), forms.OPTIONAL_TEXT))


ABSENT = ProviderState(None, None)


class ProviderType(base.ChangeType[ProviderState]):
    """Created, deleted, renamed or moved. No generation guards the write."""

    name = "provider"
    state = ProviderState
    unit = "providers"

    def removes(self, before: ProviderState, after: ProviderState) -> int:
        return int(before.exists and not after.exists)

    def read(
        self, services: base.Services, subject: change.Subject, after: ProviderState
    ) -> change.Observed[ProviderState]:
        services.client.require_feature("nested providers", "changing providers")
        try:
            shown = services.client.show_provider(subject.uuid)
        except api_errors.NotFound:
            return change.Observed(None, ABSENT)
        return change.Observed(shown.generation, ProviderState(shown.name, shown.parent_uuid))

    def write(
        self, services: base.Services, write: base.Write[ProviderState]
    ) -> change.Observed[ProviderState]:
        client, uuid, shown = services.client, write.subject.uuid, write.observed.state
        values = shown.values() | write.after.values()
        name, parent = values["name"], values["parent"]
        if name is None:
            # A concurrent run may have deleted it.
            with contextlib.suppress(api_errors.NotFound):
                client.delete_provider(uuid)
        elif not shown.exists:
            self._create(services, write.subject, name, parent)
        elif parent == shown.parent:
            client.update_provider(uuid, name)
        else:
            client.require_feature("re-parenting", "giving a provider another parent")
            client.update_provider(uuid, name, parent)
        return change.Observed(None, ProviderState(name, parent))

    def _create(
        self, services: base.Services, subject: change.Subject, name: str, parent: str | None
    ) -> None:
        target = ProviderState(name, parent)
        try:
            services.client.create_provider(name, subject.uuid, parent)
        except api_errors.Conflict:
            # A concurrent run may have created it; accept an identical provider.
            if self.read(services, subject, target).state != target:
                raise

    def facts(
        self, before: ProviderState, after: ProviderState, names: change.Names = base.NO_NAMES
    ) -> list[base.Fact]:
        was, becomes = before.values(), after.values()
        changed = []
        for field in dict.fromkeys([*becomes, *was]):
            old, new = (_named(side.get(field), names) for side in (was, becomes))
            changed.append(base.Fact(field, old, new, field, field))
        return changed

    def select(self, present: ProviderState, after: ProviderState) -> ProviderState:
        values = present.values()
        return ProviderState(**{field: values[field] for field in after.values()})

    def describe(self, side: base.Side) -> list[str]:
        side = list(side)
        if any(fact.key == "name" and value is None for fact, value in side):
            return ["no provider"]
        return super().describe(side)

    def describe_change(
        self, before: ProviderState, after: ProviderState, names: change.Names = base.NO_NAMES
    ) -> list[str]:
        if not after.exists:
            return ["deleted"]
        if not before.exists:
            return ["new"]
        return [", ".join(self.describe(base.after_side(self.facts(after, after, names))))]

    def refusals(
        self, services: base.Services, write: base.Write[ProviderState], allow: Collection[str]
    ) -> list[Reason]:
        """Only an empty provider is deleted. Requests: three GETs before a deletion."""
        if write.after.exists:
            return []
        client, uuid = services.client, write.subject.uuid
        has: Mapping[str, Collection[str]] = {
            "inventories": client.list_inventories(uuid).inventories,
            "traits": client.list_provider_traits(uuid).traits,
            "aggregates": client.list_aggregates(uuid).aggregates,
        }
        return [
            Reason(Code.NOT_EMPTY, f"it is not empty: it has {what} {', '.join(names)}")
            for what, names in has.items()
            if names
        ]

    def check_rights(
        self, client: api.Client, changes: Sequence[tuple[ProviderState, ProviderState]]
    ) -> None:
        """Sends nothing. A new parent for an existing provider needs 1.37."""
        if any(
            after.parent is not UNCHANGED and before.exists and after.exists
            for before, after in changes
        ):
            client.require_feature("re-parenting", "giving a provider another parent")


def _named(value: str | None, names: change.Names) -> str | None:
    return None if value is None else names.get(value, value)


TYPE = ProviderType()
